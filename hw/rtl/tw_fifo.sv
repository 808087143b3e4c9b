`default_nettype none
// First-in first-out queue in LUT RAM with an asynchronous read.
// Latency: a word written in cycle t is at the output in t + 1.  Throughput: one word a cycle
// in and out.  Backpressure: `s_ready` falls when DEPTH words are held, whatever leaves.
module tw_fifo #(
    parameter integer WIDTH = 8,
    parameter integer DEPTH = 16  // a power of two, at least 2
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             s_valid,
    output wire             s_ready,
    input  wire [WIDTH-1:0] s_data,
    output wire             m_valid,
    input  wire             m_ready,
    output wire [WIDTH-1:0] m_data
);
  localparam integer INDEX_W = $clog2(DEPTH);

  reg [WIDTH-1:0] memory[0:DEPTH-1];
  reg [INDEX_W:0] written_q;
  reg [INDEX_W:0] read_q;

  wire full = written_q == (read_q ^ {1'b1, {INDEX_W{1'b0}}});

  assign s_ready = !full;
  assign m_valid = written_q != read_q;
  assign m_data  = memory[read_q[INDEX_W-1:0]];

  always @(posedge clk) begin
    if (s_valid && s_ready) begin
      memory[written_q[INDEX_W-1:0]] <= s_data;
      written_q <= written_q + 1'b1;
    end
    if (m_valid && m_ready) read_q <= read_q + 1'b1;
    if (rst) begin
      written_q <= 0;
      read_q <= 0;
    end
  end
endmodule
`default_nettype wire
