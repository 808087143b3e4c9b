`default_nettype none
import tw_pkg::*;

// Splits an ALU uop into slots, one slice of `ALU_LANES` elements each, and holds back a slot
// that would read an accumulator still on its way through the ALU.
// A uop is one pass over its slices, or two when its second operand is a tile and its dst is not
// the running one: the first pass then fetches dst.  The running dst is that of the uop before
// in the same instruction, for the operators that need it in the last stage only.
// Latency: 0.  Throughput: one slot a cycle.  Backpressure: `allow`, for slots that read.
module tw_alu_issue (
    input  wire        clk,
    input  wire        rst,
    input  wire        s_valid,
    output wire        s_ready,
    input  wire [15:0] s_dst,
    input  wire [15:0] s_src,
    input  wire        s_same_dst,
    input  wire [ 3:0] s_op,
    input  wire        s_use_immediate,
    // In a cycle that ends with another uop here: its dst and src, each a sum
    input  wire        step,
    input  wire [15:0] next_dst,
    input  wire [15:0] next_dst_offset,
    input  wire [15:0] next_src,
    input  wire [15:0] next_src_offset,
    // Slot
    output wire        reads,            // the slot reads the accumulator
    output wire [15:0] read_address,
    input  wire        allow,            // the read port is free
    output wire        slot_valid,
    output wire        slot_fetch,       // pass that fetches dst for the next one
    output wire        slot_running,     // dst is in the last stage already
    output wire        slot_last         // the accumulator is complete: write it
);
  localparam integer SLICES = BATCH * BLOCK_OUT / ALU_LANES;
  localparam integer SLICE_W = SLICES > 1 ? $clog2(SLICES) : 1;
  localparam [SLICE_W-1:0] LAST_SLICE = SLICE_W'(SLICES - 1);
  // A slot issued in t may read what the last slice issued in t - WINDOW - 1 writes.
  localparam integer WINDOW = ALU_WRITE_STAGE - COMPUTE_READ_STAGE;

  // Whether total = a + b, without a carry chain: in each bit the carry that the total shows is
  // the one that the bit below makes.
  function automatic is_sum(input [15:0] total, input [15:0] a, input [15:0] b);
    is_sum = (total ^ a ^ b) == (((a & b) | ((a | b) & ~total)) << 1);
  endfunction

  reg [SLICE_W-1:0] slice_q;
  reg second_q;
  reg [WINDOW-2:0] written_valid_q;  // bit, word k: last slices issued k + 1 cycles ago
  reg [(WINDOW-1)*16-1:0] written_q;
  reg [WINDOW-1:0] dst_hazard_q;
  reg [WINDOW-1:0] src_hazard_q;

  wire late = s_op != ALU_OP_MUL && s_op != ALU_OP_SHR;
  wire tile = !s_use_immediate || s_op == ALU_OP_MAC;
  wire running = s_same_dst && late;
  wire first_slice = slice_q == 0;
  wire last_slice = slice_q == LAST_SLICE;
  wire reads_src = tile && !slot_fetch;
  wire hazard = reads_src ? |src_hazard_q : |dst_hazard_q;

  assign slot_fetch = tile && !running && !second_q;
  assign slot_running = running || second_q;
  assign reads = first_slice && (tile || !running);
  assign read_address = reads_src ? s_src : s_dst;
  assign slot_valid = s_valid && (!reads || (allow && !hazard));
  assign slot_last = last_slice && !slot_fetch;
  assign s_ready = slot_valid && slot_last;

  integer k;
  always @(posedge clk) begin
    if (slot_valid) begin
      slice_q <= last_slice ? 0 : slice_q + 1'b1;
      if (last_slice) second_q <= slot_fetch;
    end
    written_valid_q <= {written_valid_q[WINDOW-3:0], s_ready};
    if (s_valid || |written_valid_q) written_q <= {written_q[(WINDOW-2)*16-1:0], s_dst};
    if (step) begin
      dst_hazard_q[0] <= s_ready && is_sum(s_dst, next_dst, next_dst_offset);
      src_hazard_q[0] <= s_ready && is_sum(s_dst, next_src, next_src_offset);
      for (k = 0; k < WINDOW - 1; k = k + 1) begin
        dst_hazard_q[k+1] <= written_valid_q[k]
            && is_sum(written_q[k*16+:16], next_dst, next_dst_offset);
        src_hazard_q[k+1] <= written_valid_q[k]
            && is_sum(written_q[k*16+:16], next_src, next_src_offset);
      end
    end else begin
      dst_hazard_q <= {dst_hazard_q[WINDOW-2:0], 1'b0};
      src_hazard_q <= {src_hazard_q[WINDOW-2:0], 1'b0};
    end
    if (rst) begin
      slice_q <= 0;
      second_q <= 1'b0;
      written_valid_q <= 0;
    end
  end
endmodule
`default_nettype wire
