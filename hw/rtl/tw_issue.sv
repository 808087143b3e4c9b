`default_nettype none
import tw_pkg::*;

// Instruction queue of one engine: offers its head once all the tokens it pops are there.
// Latency: an instruction written in cycle t is offered from t + 2.  Throughput: one a cycle.
// Backpressure: the engine's `m_ready`; the transfer consumes the pops.  `s_ready` falls when
// QUEUE_DEPTH instructions wait behind the head.
module tw_issue (
    input  wire                        clk,
    input  wire                        rst,
    input  wire                        halt,             // offer nothing any more
    input  wire                        s_valid,
    output wire                        s_ready,
    input  wire [INSTRUCTION_BITS-1:0] s_instruction,
    output wire                        m_valid,
    input  wire                        m_ready,
    output wire [INSTRUCTION_BITS-1:0] m_instruction,
    input  wire                        token_previous,   // a token from that neighbour is there
    input  wire                        token_next,
    output wire                        pop_previous,
    output wire                        pop_next,
    output wire                        taken,
    output wire                        wait_dependency,
    output wire                        empty
);
  wire next_valid;
  wire [INSTRUCTION_BITS-1:0] next_instruction;
  reg head_valid_q;
  reg [INSTRUCTION_BITS-1:0] head_q;
  wire refill = !head_valid_q || taken;

  tw_fifo #(
      .WIDTH(INSTRUCTION_BITS),
      .DEPTH(QUEUE_DEPTH)
  ) queue (
      .clk,
      .rst,
      .s_valid,
      .s_ready,
      .s_data (s_instruction),
      .m_valid(next_valid),
      .m_ready(refill),
      .m_data (next_instruction)
  );

  // Every instruction has its token bits in the same places.
  wire needs_previous = head_q[LOAD_POP_PREVIOUS_LSB];
  wire needs_next = head_q[LOAD_POP_NEXT_LSB];
  wire have_tokens = (token_previous || !needs_previous) && (token_next || !needs_next);

  assign m_valid = head_valid_q && have_tokens && !halt;
  assign m_instruction = head_q;
  assign taken = m_valid && m_ready;
  assign pop_previous = taken && needs_previous;
  assign pop_next = taken && needs_next;
  assign wait_dependency = head_valid_q && !have_tokens;
  assign empty = !head_valid_q && !next_valid;

  always @(posedge clk) begin
    if (refill) head_valid_q <= next_valid;
    if (refill && next_valid) head_q <= next_instruction;
    if (rst) head_valid_q <= 1'b0;
  end
endmodule
`default_nettype wire
