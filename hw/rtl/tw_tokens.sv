`default_nettype none
// The six token counters between the engines of the ring load (0), compute (1), store (2).
// Latency: a push in cycle t can be popped in t + 1.  Any number of pushes and pops a cycle.
module tw_tokens (
    input  wire       clk,
    input  wire       rst,
    input  wire [2:0] push_previous,   // bit: the engine that pushes
    input  wire [2:0] push_next,
    input  wire [2:0] pop_previous,    // bit: the engine that pops
    input  wire [2:0] pop_next,
    output reg  [2:0] token_previous,  // bit: the engine that may pop
    output reg  [2:0] token_next
);
  reg [47:0] previous_q;  // word e: tokens to engine e from its previous one
  reg [47:0] next_q;

  wire [2:0] from_previous = {push_next[1:0], push_next[2]};
  wire [2:0] from_next = {push_previous[0], push_previous[2:1]};

  integer e;
  always @(posedge clk) begin
    for (e = 0; e < 3; e = e + 1) begin
      if (from_previous[e] != pop_previous[e]) begin
        previous_q[e*16+:16] <= from_previous[e] ? previous_q[e*16+:16] + 16'd1
            : previous_q[e*16+:16] - 16'd1;
        token_previous[e] <= from_previous[e] || previous_q[e*16+:16] != 16'd1;
      end
      if (from_next[e] != pop_next[e]) begin
        next_q[e*16+:16] <= from_next[e] ? next_q[e*16+:16] + 16'd1 : next_q[e*16+:16] - 16'd1;
        token_next[e] <= from_next[e] || next_q[e*16+:16] != 16'd1;
      end
      if (rst) begin
        previous_q[e*16+:16] <= 16'd0;
        next_q[e*16+:16] <= 16'd0;
      end
    end
    if (rst) begin
      token_previous <= 3'd0;
      token_next <= 3'd0;
    end
  end
endmodule
`default_nettype wire
