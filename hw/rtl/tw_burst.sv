`default_nettype none
import tw_pkg::*;

// Splits rows of bytes into AXI bursts: at 4 KiB boundaries and at AXI_BURST_BEATS.
// Latency: three cycles.  Throughput: one burst a cycle.  Backpressure: stalls the rows.
// A row's address is {s_high, 32'b0} + s_low, with the carry of a base's low word in s_low[32];
// bursts start at whole beats.
module tw_burst #(
    parameter integer BYTES_W = 30
) (
    input  wire                        clk,
    input  wire                        rst,
    input  wire                        s_valid,
    output wire                        s_ready,
    input  wire [                32:0] s_low,
    input  wire [                31:0] s_high,
    input  wire [         BYTES_W-1:0] s_bytes,    // at least 1
    output wire                        m_valid,
    input  wire                        m_ready,
    output wire [AXI_ADDRESS_BITS-1:0] m_address,
    output wire [                 7:0] m_length    // beats - 1
);
  localparam integer LOG2_AXI = $clog2(AXI_BYTES);
  localparam integer PAGE_BEATS = 4096 / AXI_BYTES;
  localparam integer PAGE_W = $clog2(PAGE_BEATS);
  localparam integer BEATS_W = BYTES_W + 1 - LOG2_AXI;
  localparam integer LIMIT_W = 9;
  localparam integer LIMIT = AXI_BURST_BEATS < PAGE_BEATS ? AXI_BURST_BEATS : PAGE_BEATS;

  // A burst that starts at this beat of its page has at most so many beats.
  function automatic [LIMIT_W-1:0] most_beats(input [PAGE_W-1:0] first);
    reg [PAGE_W:0] to_boundary;
    begin
      to_boundary = PAGE_BEATS[PAGE_W:0] - {1'b0, first};
      most_beats = to_boundary < LIMIT[PAGE_W:0] ? LIMIT_W'(to_boundary) : LIMIT[LIMIT_W-1:0];
    end
  endfunction

  // Stage 1: beats of the row.
  reg row_valid_q;
  reg [32:LOG2_AXI] row_low_q;
  reg [31:0] row_high_q;
  reg [BEATS_W-1:0] row_beats_q;
  reg [LIMIT_W-1:0] row_limit_q;

  // Stage 2: the rest of a row; its first burst is `limit` beats or the whole rest.
  reg rest_valid_q;
  reg [32:12] rest_page_q;
  reg [PAGE_W-1:0] rest_beat_q;
  reg [31:0] rest_high_q;
  reg [BEATS_W-1:0] rest_beats_q;
  reg [LIMIT_W-1:0] rest_limit_q;
  wire last = rest_beats_q <= BEATS_W'(rest_limit_q);
  wire [PAGE_W:0] next_beat = {1'b0, rest_beat_q} + (PAGE_W + 1)'(rest_limit_q);

  // Stage 3: the burst.
  reg burst_valid_q;
  reg [AXI_ADDRESS_BITS-1:LOG2_AXI] burst_address_q;
  reg [7:0] burst_length_q;

  wire burst_ready = !burst_valid_q || m_ready;
  wire rest_ready = !rest_valid_q || (last && burst_ready);
  assign s_ready   = !row_valid_q || rest_ready;
  assign m_valid   = burst_valid_q;
  assign m_address = {burst_address_q, {LOG2_AXI{1'b0}}};
  assign m_length  = burst_length_q;

  always @(posedge clk) begin
    if (s_ready) begin
      row_valid_q <= s_valid;
      if (s_valid) begin
        row_low_q   <= s_low[32:LOG2_AXI];
        row_high_q  <= s_high;
        row_beats_q <= BEATS_W'(({1'b0, s_bytes} + (BYTES_W + 1)'(s_low[LOG2_AXI-1:0])
            + (BYTES_W + 1)'(AXI_BYTES - 1)) >> LOG2_AXI);
        row_limit_q <= most_beats(s_low[11:LOG2_AXI]);
      end
    end
    if (rest_ready) begin
      rest_valid_q <= row_valid_q;
      if (row_valid_q) begin
        rest_page_q  <= row_low_q[32:12];
        rest_beat_q  <= row_low_q[11:LOG2_AXI];
        rest_high_q  <= row_high_q;
        rest_beats_q <= row_beats_q;
        rest_limit_q <= row_limit_q;
      end
    end else if (burst_ready) begin
      rest_page_q  <= rest_page_q + {20'd0, next_beat[PAGE_W]};
      rest_beat_q  <= next_beat[PAGE_W-1:0];
      rest_beats_q <= rest_beats_q - BEATS_W'(rest_limit_q);
      rest_limit_q <= most_beats(next_beat[PAGE_W-1:0]);
    end
    if (burst_ready) begin
      burst_valid_q <= rest_valid_q;
      if (rest_valid_q)
        burst_length_q <= last ? 8'(rest_beats_q - 1'b1) : 8'(rest_limit_q - 1'b1);
    end
    if (rst) begin
      row_valid_q   <= 1'b0;
      rest_valid_q  <= 1'b0;
      burst_valid_q <= 1'b0;
    end
  end

  generate
    if (AXI_ADDRESS_BITS > 32) begin : gen_high
      wire [31:0] high = rest_high_q + {31'd0, rest_page_q[32]};
      always @(posedge clk)
        if (burst_ready && rest_valid_q)
          burst_address_q <= {high[AXI_ADDRESS_BITS-33:0], rest_page_q[31:12], rest_beat_q};
      wire unused_high = &{1'b0, high, 1'b0};
    end else begin : gen_low
      always @(posedge clk)
        if (burst_ready && rest_valid_q) burst_address_q <= {rest_page_q[31:12], rest_beat_q};
      wire unused_high = &{1'b0, rest_high_q, rest_page_q[32], 1'b0};
    end
  endgenerate
endmodule
`default_nettype wire
