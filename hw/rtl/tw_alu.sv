`default_nettype none
import tw_pkg::*;

/* verilator lint_off BLKSEQ */  // temporaries of a clocked block
// The ALU pipeline behind tw_alu_issue: one slot (slice of `ALU_LANES` elements) a cycle.
// Latency: a slot taken in cycle t reads its accumulator in t + 3 (when it reads) and, if it is
// the last of its uop, writes it in t + 10.  Throughput: one slot a cycle.  No backpressure.
module tw_alu (
    input  wire                                clk,
    input  wire                                rst,
    // Slot
    input  wire                                s_valid,
    input  wire                                s_reads,
    input  wire [                        15:0] s_read_address,
    input  wire                                s_fetch,
    input  wire                                s_running,
    input  wire                                s_last,
    input  wire [                        15:0] s_dst,
    input  wire [                         3:0] s_op,
    input  wire [                        24:0] s_immediate,
    input  wire                                s_use_immediate,
    input  wire [                         1:0] s_rounding,
    input  wire [                         2:0] s_tag,            // comes out with the write
    // Accumulator
    output wire                                read_valid,
    output wire [                        15:0] read_address,
    input  wire [ACCUMULATOR_TILE_BYTES*8-1:0] read_data,
    output wire                                write_valid,
    output wire [                        15:0] write_address,
    output wire [ACCUMULATOR_TILE_BYTES*8-1:0] write_data,
    output wire [                         2:0] write_tag,
    output wire                                active
);
  localparam integer TILE_W = ACCUMULATOR_TILE_BYTES * 8;
  localparam integer SLICE_W = ALU_LANES * 32;
  localparam integer WRITE = ALU_WRITE_STAGE;

  // Bit and word k - 1 belong to the slot taken k cycles ago.  Each control goes as far as it is
  // needed.
  reg [WRITE-1:0] valid_q;
  reg [WRITE-1:0] last_q;
  reg [3:0] reads_q;
  reg [3*16-1:0] read_address_q;
  reg [WRITE*16-1:0] dst_q;
  reg [WRITE*3-1:0] tag_q;
  // Operator, fetch pass, running dst, use of the immediate, rounding, immediate.
  localparam integer CONTROL_W = 4 + 1 + 1 + 1 + 2 + 25;
  reg [8*CONTROL_W-1:0] control_q;
  wire [CONTROL_W-1:0] s_control = {
    s_op, s_fetch, s_running, s_use_immediate, s_rounding, s_immediate
  };
  always @(posedge clk) begin
    valid_q <= {valid_q[WRITE-2:0], s_valid};
    last_q  <= {last_q[WRITE-2:0], s_valid && s_last};
    reads_q <= {reads_q[2:0], s_valid && s_reads};
    if (s_valid || |valid_q) begin
      read_address_q <= {read_address_q[2*16-1:0], s_read_address};
      dst_q <= {dst_q[(WRITE-1)*16-1:0], s_dst};
      tag_q <= {tag_q[(WRITE-1)*3-1:0], s_tag};
      control_q <= {control_q[7*CONTROL_W-1:0], s_control};
    end
    if (rst) begin
      valid_q <= 0;
      last_q  <= 0;
      reads_q <= 0;
    end
  end
  assign active = |valid_q;
  assign read_valid = reads_q[2];
  assign read_address = read_address_q[2*16+:16];

  wire [3:0] op_5 = control_q[4*CONTROL_W+30+:4];
  wire fetch_5 = control_q[4*CONTROL_W+29];
  wire use_immediate_5 = control_q[4*CONTROL_W+27];
  wire [24:0] immediate_5 = control_q[4*CONTROL_W+:25];

  // Stage 4: the tile comes back; its slices pass by at the bottom.
  reg [TILE_W-1:0] tile_q;
  reg [TILE_W-1:0] fetched_q;  // dst, for the operators that take it first
  reg [TILE_W-1:0] running_q;  // dst in the last stage
  wire [SLICE_W-1:0] tile_slice = tile_q[SLICE_W-1:0];
  wire [SLICE_W-1:0] fetched_slice = fetched_q[SLICE_W-1:0];
  wire [TILE_W-1:0] fetched_next;
  wire [TILE_W-1:0] tile_next;
  generate
    if (SLICE_W == TILE_W) begin : whole
      assign tile_next = tile_q;
      assign fetched_next = tile_slice;
    end else begin : sliced
      assign tile_next = {tile_slice, tile_q[TILE_W-1:SLICE_W]};
      assign fetched_next = {fetch_5 ? tile_slice : fetched_slice, fetched_q[TILE_W-1:SLICE_W]};
    end
  endgenerate

  // Stage 5: operands.
  wire early_5 = op_5 == ALU_OP_MUL || op_5 == ALU_OP_SHR;
  wire two_tiles_5 = early_5 && !use_immediate_5 && !fetch_5;
  reg [SLICE_W-1:0] a_q;
  reg [SLICE_W-1:0] b_q;
  always @(posedge clk) begin
    if (reads_q[3]) tile_q <= read_data;
    else if (SLICE_W != TILE_W && valid_q[3]) tile_q <= tile_next;
    if (valid_q[4] && early_5) fetched_q <= fetched_next;
    if (valid_q[4]) begin
      a_q <= two_tiles_5 ? fetched_slice : tile_slice;
      b_q <= two_tiles_5 ? tile_slice : {ALU_LANES{{7{immediate_5[24]}}, immediate_5}};
    end
  end

  // Stages 6 to 8: the values of the lanes.  Their controls, one stage ahead in registers.
  reg shift_6_q;
  reg multiply_7_q;
  reg [1:0] rounding_8_q;
  reg left_accumulator_9_q;
  reg left_value_9_q;
  reg right_value_9_q;
  reg subtract_9_q;
  reg minimum_9_q;
  reg maximum_9_q;
  reg [31:0] immediate_9_q;
  wire [SLICE_W-1:0] values;
  wire [ALU_LANES-1:0] ups;

  wire [3:0] op_6 = control_q[5*CONTROL_W+30+:4];
  wire fetch_6 = control_q[5*CONTROL_W+29];
  wire [3:0] op_8 = control_q[7*CONTROL_W+30+:4];
  wire fetch_8 = control_q[7*CONTROL_W+29];
  wire running_8 = control_q[7*CONTROL_W+28];
  wire use_immediate_8 = control_q[7*CONTROL_W+27];
  wire [24:0] immediate_8 = control_q[7*CONTROL_W+:25];
  wire early_8 = op_8 == ALU_OP_MUL || op_8 == ALU_OP_SHR;
  wire plain_8 = early_8 || op_8 == ALU_OP_MOV || fetch_8;  // the result is the value alone
  wire value_is_dst_8 = use_immediate_8 && op_8 != ALU_OP_MAC;
  always @(posedge clk) begin
    if (valid_q[4]) shift_6_q <= op_5 == ALU_OP_SHR && !fetch_5;
    if (valid_q[5]) multiply_7_q <= (op_6 == ALU_OP_MUL || op_6 == ALU_OP_MAC) && !fetch_6;
    if (valid_q[6]) rounding_8_q <= control_q[6*CONTROL_W+25+:2];
    if (valid_q[7]) begin
      left_accumulator_9_q <= !plain_8 && running_8;
      left_value_9_q <= !plain_8 && !running_8;
      right_value_9_q <= early_8 || fetch_8 || !value_is_dst_8;
      subtract_9_q <= op_8 == ALU_OP_SUB && !fetch_8;
      minimum_9_q <= op_8 == ALU_OP_MIN && !fetch_8;
      maximum_9_q <= op_8 == ALU_OP_MAX && !fetch_8;
      immediate_9_q <= {{7{immediate_8[24]}}, immediate_8};
    end
  end

  genvar l;
  generate
    for (l = 0; l < ALU_LANES; l = l + 1) begin : lane
      tw_alu_lane lane (
          .clk,
          .valid(valid_q[7:5]),
          .a(a_q[l*32+:32]),
          .b(b_q[l*32+:32]),
          .shift_0(shift_6_q),
          .multiply(multiply_7_q),
          .rounding(rounding_8_q),
          .value(values[l*32+:32]),
          .up(ups[l])
      );
    end
  endgenerate

  // Stage 9: accumulator, value or 0, combined with the value or the immediate.  Slices pass by.
  reg [31:0] left;
  reg [31:0] right;
  reg [31:0] accumulator;
  reg less;
  integer k;
  always @(posedge clk)
    if (valid_q[8]) begin
      for (k = ALU_LANES; k < BATCH * BLOCK_OUT; k = k + 1)
        running_q[(k-ALU_LANES)*32+:32] <= running_q[k*32+:32];
      for (k = 0; k < ALU_LANES; k = k + 1) begin
        accumulator = running_q[k*32+:32];
        left = left_accumulator_9_q ? accumulator : left_value_9_q ? values[k*32+:32] : 32'd0;
        right = right_value_9_q ? values[k*32+:32] : immediate_9_q;
        less = $signed(left) < $signed(right);
        running_q[TILE_W-SLICE_W+k*32+:32] <=
            minimum_9_q || maximum_9_q ? (less == minimum_9_q ? left : right)
            : left + (subtract_9_q ? ~right : right) + 32'(subtract_9_q || ups[k]);
      end
    end

  assign write_valid = last_q[WRITE-1];
  assign write_address = dst_q[(WRITE-1)*16+:16];
  assign write_data = running_q;
  assign write_tag = tag_q[(WRITE-1)*3+:3];
endmodule
/* verilator lint_on BLKSEQ */
`default_nettype wire
