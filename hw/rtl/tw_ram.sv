`default_nettype none
// Simple dual-port RAM, one write and one read port.
// Latency: 1 (data of a read in cycle t is out in t + 1 and stays until the next read).
// Throughput: one read and one write a cycle.  A read of the address written in the same
// cycle returns an undefined word.
module tw_ram #(
    parameter integer WIDTH = 8,
    parameter integer DEPTH = 16  // a power of two, at least 2
) (
    input  wire                     clk,
    input  wire                     write,
    input  wire [$clog2(DEPTH)-1:0] write_address,
    input  wire [        WIDTH-1:0] write_data,
    input  wire                     read,
    input  wire [$clog2(DEPTH)-1:0] read_address,
    output reg  [        WIDTH-1:0] read_data
);
  reg [WIDTH-1:0] memory[0:DEPTH-1];

  always @(posedge clk) begin
    if (write) memory[write_address] <= write_data;
    if (read) read_data <= memory[read_address];
  end
endmodule
`default_nettype wire
