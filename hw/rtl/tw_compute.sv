`default_nettype none
import tw_pkg::*;

// The compute engine: runs GEMM, ALU and FINISH in order, with its uop, input and weight memories.
// Latency: an instruction taken in cycle t issues its first uop in t + 3 at the earliest.
// Throughput: one GEMM uop or ALU slice a cycle, no bubble between instructions of one kind; from
// GEMM to ALU and back the first issue waits for the other's pipeline.  Backpressure: an issue
// gives way to STORE's read request of the same bank in the same cycle.
module tw_compute (
    input  wire                                clk,
    input  wire                                rst,
    input  wire                                s_valid,
    output wire                                s_ready,
    input  wire [        INSTRUCTION_BITS-1:0] s_instruction,
    output reg                                 push_previous,
    output reg                                 push_next,
    output reg                                 retire,
    output reg                                 finish_taken,               // until reset
    output wire                                busy,
    output wire                                wait_memory,
    output wire                                wait_conflict,
    output wire                                active,
    // Scratchpad writes of the load engine
    input  wire                                load_valid,
    input  wire [                         2:0] load_memory,
    input  wire [                        15:0] load_address,
    input  wire [        MAX_TILE_BYTES*8-1:0] load_data,
    // STORE's read request, which goes first
    input  wire                                store_read_valid,
    input  wire [                        15:0] store_read_address,
    // Accumulator
    output wire                                accumulator_read_valid,
    output wire [                        15:0] accumulator_read_address,
    input  wire [ACCUMULATOR_TILE_BYTES*8-1:0] accumulator_read_data,
    output wire                                accumulator_write_valid,
    output wire [                        15:0] accumulator_write_address,
    output wire [ACCUMULATOR_TILE_BYTES*8-1:0] accumulator_write_data
);
  localparam integer ACCUMULATOR_W = $clog2(ACCUMULATOR_DEPTH);
  localparam integer BANK_W = $clog2(ACCUMULATOR_BANKS);
  localparam integer UOP_W = $clog2(UOP_DEPTH);
  localparam integer INPUT_W = $clog2(INPUT_DEPTH);
  localparam integer WEIGHT_W = $clog2(WEIGHT_DEPTH);
  // Cycles after a GEMM (ALU) issue in which no ALU (GEMM) may issue.
  localparam [3:0] GEMM_TAIL = 4'(GEMM_WRITE_STAGE - COMPUTE_READ_STAGE);
  localparam [3:0] ALU_TAIL = 4'(ALU_WRITE_STAGE - COMPUTE_READ_STAGE);

  wire sequencer_ready;
  wire sequencer_active;
  wire uop_read;
  wire [15:0] uop_address;
  wire [63:0] uop_data;
  wire uop_valid;
  wire uop_ready;
  wire [15:0] uop_dst, uop_src, uop_weight;
  wire uop_overwrite, uop_same_dst, uop_gemm;
  wire [2:0] uop_tag;
  wire [3:0] uop_op;
  wire [24:0] uop_immediate;
  wire uop_use_immediate;
  wire [1:0] uop_rounding;
  wire alu_step;
  wire [15:0] next_dst, next_dst_offset, next_src, next_src_offset;

  wire finish = s_instruction[OPCODE_BITS-1:0] == OPCODE_FINISH;
  reg finish_q;
  reg [1:0] finish_push_q;
  assign s_ready = sequencer_ready && !finish_q && !finish_taken;

  tw_sequencer sequencer (
      .clk,
      .rst,
      .s_valid(s_valid && !finish && !finish_q && !finish_taken),
      .s_ready(sequencer_ready),
      .s_instruction,
      .uop_read,
      .uop_address,
      .uop_data,
      .m_valid(uop_valid),
      .m_ready(uop_ready),
      .m_dst(uop_dst),
      .m_src(uop_src),
      .m_weight(uop_weight),
      .m_overwrite(uop_overwrite),
      .m_same_dst(uop_same_dst),
      .m_gemm(uop_gemm),
      .m_tag(uop_tag),
      .m_op(uop_op),
      .m_immediate(uop_immediate),
      .m_use_immediate(uop_use_immediate),
      .m_rounding(uop_rounding),
      .alu_step,
      .next_dst,
      .next_dst_offset,
      .next_src,
      .next_src_offset,
      .active(sequencer_active)
  );

  // Issue
  reg [3:0] gemm_tail_q;
  reg [3:0] alu_tail_q;
  wire alu_reads;
  wire [15:0] alu_read_address;
  wire alu_ready;
  wire slot_valid, slot_fetch, slot_running, slot_last;
  wire [BANK_W-1:0] store_bank = store_read_address[ACCUMULATOR_W-1-:BANK_W];
  wire gemm_conflict = store_read_valid && store_bank == uop_dst[ACCUMULATOR_W-1-:BANK_W];
  wire alu_conflict = store_read_valid && store_bank == alu_read_address[ACCUMULATOR_W-1-:BANK_W];
  wire gemm_issue = uop_valid && uop_gemm && !gemm_conflict && alu_tail_q == 4'd0;
  assign uop_ready = uop_gemm ? gemm_issue : alu_ready;

  tw_alu_issue alu_issue (
      .clk,
      .rst,
      .s_valid(uop_valid && !uop_gemm),
      .s_ready(alu_ready),
      .s_dst(uop_dst),
      .s_src(uop_src),
      .s_same_dst(uop_same_dst),
      .s_op(uop_op),
      .s_use_immediate(uop_use_immediate),
      .step(alu_step),
      .next_dst,
      .next_dst_offset,
      .next_src,
      .next_src_offset,
      .reads(alu_reads),
      .read_address(alu_read_address),
      .allow(!alu_conflict && gemm_tail_q == 4'd0),
      .slot_valid,
      .slot_fetch,
      .slot_running,
      .slot_last
  );

  wire write_gemm, write_alu;
  wire [2:0] gemm_tag, alu_tag;
  wire gemm_active, alu_active;
  wire [2:0] done_tag = write_gemm ? gemm_tag : alu_tag;
  wire done = (write_gemm || write_alu) && done_tag[2];
  wire finishing = finish_q && !sequencer_active && !gemm_active && !alu_active;
  always @(posedge clk) begin
    gemm_tail_q <= gemm_issue ? GEMM_TAIL : gemm_tail_q - 4'(gemm_tail_q != 4'd0);
    alu_tail_q <= slot_valid ? ALU_TAIL : alu_tail_q - 4'(alu_tail_q != 4'd0);
    if (s_valid && s_ready && finish) begin
      finish_q <= 1'b1;
      finish_push_q <= {
        s_instruction[FINISH_PUSH_PREVIOUS_LSB], s_instruction[FINISH_PUSH_NEXT_LSB]
      };
    end
    if (finishing) begin
      finish_q <= 1'b0;
      finish_taken <= 1'b1;
    end
    retire <= done;
    push_previous <= (done && done_tag[1]) || (finishing && finish_push_q[1]);
    push_next <= (done && done_tag[0]) || (finishing && finish_push_q[0]);
    if (rst) begin
      gemm_tail_q <= 4'd0;
      alu_tail_q <= 4'd0;
      finish_q <= 1'b0;
      finish_taken <= 1'b0;
      retire <= 1'b0;
      push_previous <= 1'b0;
      push_next <= 1'b0;
    end
  end
  assign active = sequencer_active || finish_q || gemm_active || alu_active;
  assign wait_conflict = uop_valid && !gemm_issue && !slot_valid;
  assign busy = (sequencer_active || finish_q) && !wait_conflict;
  assign wait_memory = 1'b0;

  // Memories
  wire [INPUT_TILE_BYTES*8-1:0] input_data;
  wire [WEIGHT_TILE_BYTES*8-1:0] weight_data;
  tw_ram #(
      .WIDTH(64),
      .DEPTH(UOP_DEPTH)
  ) uop_memory (
      .clk,
      .write(load_valid && load_memory == MEMORY_UOP),
      .write_address(load_address[UOP_W-1:0]),
      .write_data(load_data[63:0]),
      .read(uop_read),
      .read_address(uop_address[UOP_W-1:0]),
      .read_data(uop_data)
  );
  tw_ram #(
      .WIDTH(INPUT_TILE_BYTES * 8),
      .DEPTH(INPUT_DEPTH)
  ) input_memory (
      .clk,
      .write(load_valid && load_memory == MEMORY_INPUT),
      .write_address(load_address[INPUT_W-1:0]),
      .write_data(load_data[INPUT_TILE_BYTES*8-1:0]),
      .read(gemm_issue),
      .read_address(uop_src[INPUT_W-1:0]),
      .read_data(input_data)
  );
  tw_ram #(
      .WIDTH(WEIGHT_TILE_BYTES * 8),
      .DEPTH(WEIGHT_DEPTH)
  ) weight_memory (
      .clk,
      .write(load_valid && load_memory == MEMORY_WEIGHT),
      .write_address(load_address[WEIGHT_W-1:0]),
      .write_data(load_data[WEIGHT_TILE_BYTES*8-1:0]),
      .read(gemm_issue),
      .read_address(uop_weight[WEIGHT_W-1:0]),
      .read_data(weight_data)
  );

  // Pipelines
  wire gemm_read_valid, alu_read_valid;
  wire [15:0] gemm_read_address, alu_pipe_read_address;
  wire [15:0] gemm_write_address, alu_write_address;
  wire [ACCUMULATOR_TILE_BYTES*8-1:0] gemm_write_data, alu_write_data;
  tw_gemm gemm (
      .clk,
      .rst,
      .s_valid(gemm_issue),
      .s_dst(uop_dst),
      .s_overwrite(uop_overwrite),
      .s_tag(uop_tag),
      .input_data,
      .weight_data,
      .read_valid(gemm_read_valid),
      .read_address(gemm_read_address),
      .read_data(accumulator_read_data),
      .write_valid(write_gemm),
      .write_address(gemm_write_address),
      .write_data(gemm_write_data),
      .write_tag(gemm_tag),
      .active(gemm_active)
  );
  tw_alu alu (
      .clk,
      .rst,
      .s_valid(slot_valid),
      .s_reads(alu_reads),
      .s_read_address(alu_read_address),
      .s_fetch(slot_fetch),
      .s_running(slot_running),
      .s_last(slot_last),
      .s_dst(uop_dst),
      .s_op(uop_op),
      .s_immediate(uop_immediate),
      .s_use_immediate(uop_use_immediate),
      .s_rounding(uop_rounding),
      .s_tag(uop_tag),
      .read_valid(alu_read_valid),
      .read_address(alu_pipe_read_address),
      .read_data(accumulator_read_data),
      .write_valid(write_alu),
      .write_address(alu_write_address),
      .write_data(alu_write_data),
      .write_tag(alu_tag),
      .active(alu_active)
  );
  assign accumulator_read_valid = gemm_read_valid || alu_read_valid;
  assign accumulator_read_address = gemm_read_valid ? gemm_read_address : alu_pipe_read_address;
  assign accumulator_write_valid = write_gemm || write_alu;
  assign accumulator_write_address = write_gemm ? gemm_write_address : alu_write_address;
  assign accumulator_write_data = write_gemm ? gemm_write_data : alu_write_data;

  wire unused = &{
    1'b0, load_address, load_data, uop_address, uop_src, uop_weight, store_read_address, 1'b0
  };
endmodule
`default_nettype wire
