`default_nettype none
import tw_pkg::*;

// Walks the loops of a GEMM or ALU instruction: reads its uops, adds the loop offsets and offers
// one uop with its scratchpad indices a cycle.
// Latency: an instruction taken in cycle t offers its first uop in t + 3.  Throughput: one uop a
// cycle, without a bubble between uops, loop steps and instructions.  Backpressure: while the
// offered uop is not taken, the next two wait behind it.
module tw_sequencer (
    input  wire                        clk,
    input  wire                        rst,
    input  wire                        s_valid,
    output wire                        s_ready,
    input  wire [INSTRUCTION_BITS-1:0] s_instruction,
    // Uop memory, latency 1
    output wire                        uop_read,
    output wire [                15:0] uop_address,
    input  wire [                63:0] uop_data,
    // Uop offered
    output reg                         m_valid,
    input  wire                        m_ready,
    output reg  [                15:0] m_dst,
    output reg  [                15:0] m_src,
    output reg  [                15:0] m_weight,
    output reg                         m_overwrite,
    output reg                         m_same_dst,      // as the uop before in its instruction
    output reg                         m_gemm,          // else ALU
    output reg  [                 2:0] m_tag,           // last of instruction, its pushes
    output reg  [                 3:0] m_op,
    output reg  [                24:0] m_immediate,
    output reg                         m_use_immediate,
    output reg  [                 1:0] m_rounding,
    // In a cycle that ends with an ALU uop on offer: its dst and src, each a sum
    output wire                        alu_step,
    output wire [                15:0] next_dst,
    output wire [                15:0] next_dst_offset,
    output wire [                15:0] next_src,
    output wire [                15:0] next_src_offset,
    output wire                        active
);
  // The fields of a step that are constant over an instruction.
  localparam integer INFO_W = 3 + 4 + 25 + 1 + 2;

  reg index_valid_q;

  // Loop stage: the uop whose word is being read.
  reg valid_q;
  reg [INSTRUCTION_BITS-1:0] instruction_q;
  reg first_step_q;
  reg [15:0] uop_q;
  reg [15:0] uops_left_q, left_0_q, left_1_q, left_2_q;
  reg uop_last_q, last_0_q, last_1_q, last_2_q;
  reg [2:0] zero_q;  // bit i: loop i is at index 0
  // Offsets of dst, src, weight: with loops 1 and 2 at index 0, with loop 2 at index 0, now.
  reg [47:0] offset_0_q, offset_1_q, offset_q;

  wire [47:0] stride_0 = {
    instruction_q[GEMM_WEIGHT_STRIDE_0_LSB+:16],
    instruction_q[GEMM_SRC_STRIDE_0_LSB+:16],
    instruction_q[GEMM_DST_STRIDE_0_LSB+:16]
  };
  wire [47:0] stride_1 = {
    instruction_q[GEMM_WEIGHT_STRIDE_1_LSB+:16],
    instruction_q[GEMM_SRC_STRIDE_1_LSB+:16],
    instruction_q[GEMM_DST_STRIDE_1_LSB+:16]
  };
  wire [47:0] stride_2 = {
    instruction_q[GEMM_WEIGHT_STRIDE_2_LSB+:16],
    instruction_q[GEMM_SRC_STRIDE_2_LSB+:16],
    instruction_q[GEMM_DST_STRIDE_2_LSB+:16]
  };
  wire [15:0] uop_begin = instruction_q[GEMM_UOP_BEGIN_LSB+:16];
  wire [15:0] uop_count = instruction_q[GEMM_UOP_COUNT_LSB+:16];
  wire [15:0] extent_1 = instruction_q[GEMM_EXTENT_1_LSB+:16];
  wire [15:0] extent_2 = instruction_q[GEMM_EXTENT_2_LSB+:16];
  wire gemm = instruction_q[OPCODE_BITS-1:0] == OPCODE_GEMM;
  wire overwrite = gemm && instruction_q[GEMM_OVERWRITE_LSB]
      && (~instruction_q[GEMM_REDUCE_MASK_LSB+:3] | zero_q) == 3'b111;
  wire last_step = uop_last_q && last_0_q && last_1_q && last_2_q;
  wire [INFO_W-1:0] info = {
    last_step,
    instruction_q[GEMM_PUSH_PREVIOUS_LSB],
    instruction_q[GEMM_PUSH_NEXT_LSB],
    instruction_q[ALU_OP_LSB+:4],
    instruction_q[ALU_IMMEDIATE_LSB+:25],
    instruction_q[ALU_USE_IMMEDIATE_LSB],
    instruction_q[ALU_ROUNDING_LSB+:2]
  };

  wire [47:0] stepped_base = !last_2_q ? offset_q : !last_1_q ? offset_1_q : offset_0_q;
  wire [47:0] stepped_stride = !last_2_q ? stride_2 : !last_1_q ? stride_1 : stride_0;
  wire [47:0] stepped = {
    stepped_base[47:32] + stepped_stride[47:32],
    stepped_base[31:16] + stepped_stride[31:16],
    stepped_base[15:0] + stepped_stride[15:0]
  };

  wire step = !m_valid || m_ready;
  wire index_ready = !index_valid_q || step;
  assign s_ready = !valid_q || (index_ready && last_step);
  assign uop_read = index_ready && valid_q;
  assign uop_address = uop_q;

  always @(posedge clk) begin
    if (index_ready && valid_q) begin
      first_step_q <= 1'b0;
      if (!uop_last_q) begin
        uop_q <= uop_q + 16'd1;
        uops_left_q <= uops_left_q - 16'd1;
        uop_last_q <= uops_left_q == 16'd2;
      end else begin
        uop_q <= uop_begin;
        uops_left_q <= uop_count;
        uop_last_q <= uop_count == 16'd1;
        offset_q <= stepped;
        if (!last_2_q) begin
          left_2_q <= left_2_q - 16'd1;
          last_2_q <= left_2_q == 16'd2;
          zero_q[2] <= 1'b0;
        end else begin
          left_2_q <= extent_2;
          last_2_q <= extent_2 == 16'd1;
          zero_q[2] <= 1'b1;
          offset_1_q <= stepped;
          if (!last_1_q) begin
            left_1_q <= left_1_q - 16'd1;
            last_1_q <= left_1_q == 16'd2;
            zero_q[1] <= 1'b0;
          end else begin
            left_1_q <= extent_1;
            last_1_q <= extent_1 == 16'd1;
            zero_q[1] <= 1'b1;
            offset_0_q <= stepped;
            left_0_q <= left_0_q - 16'd1;
            last_0_q <= left_0_q == 16'd2;
            zero_q[0] <= 1'b0;
          end
        end
      end
    end
    if (s_ready) valid_q <= s_valid;
    if (s_valid && s_ready) begin
      instruction_q <= s_instruction;
      first_step_q <= 1'b1;
      uop_q <= s_instruction[GEMM_UOP_BEGIN_LSB+:16];
      uops_left_q <= s_instruction[GEMM_UOP_COUNT_LSB+:16];
      uop_last_q <= s_instruction[GEMM_UOP_COUNT_LSB+:16] == 16'd1;
      left_0_q <= s_instruction[GEMM_EXTENT_0_LSB+:16];
      left_1_q <= s_instruction[GEMM_EXTENT_1_LSB+:16];
      left_2_q <= s_instruction[GEMM_EXTENT_2_LSB+:16];
      last_0_q <= s_instruction[GEMM_EXTENT_0_LSB+:16] == 16'd1;
      last_1_q <= s_instruction[GEMM_EXTENT_1_LSB+:16] == 16'd1;
      last_2_q <= s_instruction[GEMM_EXTENT_2_LSB+:16] == 16'd1;
      zero_q <= 3'b111;
      offset_0_q <= 48'd0;
      offset_1_q <= 48'd0;
      offset_q <= 48'd0;
    end
    if (rst) valid_q <= 1'b0;
  end

  // Index stage: the uop's word is there, its indices are added.
  reg index_first_q;
  reg index_gemm_q;
  reg index_overwrite_q;
  reg [47:0] index_offset_q;
  reg [INFO_W-1:0] index_info_q;

  assign alu_step = step && index_valid_q && !index_gemm_q;
  assign next_dst = uop_data[UOP_DST_LSB+:16];
  assign next_dst_offset = index_offset_q[15:0];
  assign next_src = uop_data[UOP_SRC_LSB+:16];
  assign next_src_offset = index_offset_q[31:16];

  always @(posedge clk) begin
    if (index_ready) index_valid_q <= valid_q;
    if (step) m_valid <= index_valid_q;
    if (index_ready && valid_q) begin
      index_first_q <= first_step_q;
      index_gemm_q <= gemm;
      index_overwrite_q <= overwrite;
      index_offset_q <= offset_q;
      index_info_q <= info;
    end
    if (step && index_valid_q) begin
      m_dst <= next_dst + next_dst_offset;
      m_src <= next_src + next_src_offset;
      m_weight <= uop_data[UOP_WEIGHT_LSB+:16] + index_offset_q[47:32];
      m_overwrite <= index_overwrite_q && uop_data[UOP_FIRST_LSB];
      m_same_dst <= !index_first_q && next_dst + next_dst_offset == m_dst;
      m_gemm <= index_gemm_q;
      {m_tag, m_op, m_immediate, m_use_immediate, m_rounding} <= index_info_q;
    end
    if (rst) begin
      index_valid_q <= 1'b0;
      m_valid <= 1'b0;
    end
  end

  assign active = valid_q || index_valid_q || m_valid;
  wire unused = &{1'b0, uop_data[63:UOP_FIRST_LSB+1], instruction_q, 1'b0};
endmodule
`default_nettype wire
