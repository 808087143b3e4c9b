`default_nettype none
import tw_pkg::*;

// Packs the slices of the output stage into AXI beats with strobes and cuts rows into bursts.
// A slice wider than a beat is cut into pieces of a beat, one a cycle; narrower ones gather in
// a beat until it is full or the row ends.  Bursts end with a row, a 4 KiB page or at
// AXI_BURST_BEATS beats.
// Latency: a slice in t gives its (first) beat in t + 2 and the burst with its last beat.
// Throughput: one piece a cycle.  No backpressure: a slice of several pieces must be followed by
// a pause of their number.
module tw_pack (
    input  wire                       clk,
    input  wire                       rst,
    // Slice
    input  wire                       s_valid,
    input  wire                       s_raw,
    input  wire                       s_row_first,
    input  wire                       s_row_last,
    input  wire [OUTPUT_LANES*32-1:0] s_data,
    // Row, taken by its first piece
    output wire                       row_ready,
    input  wire [               31:0] row_offset,    // bytes in the segment
    input  wire [                3:0] row_segment,
    input  wire [                2:0] row_tag,
    // Beats and bursts
    output reg                        beat_valid,
    output reg  [  AXI_DATA_BITS-1:0] beat_data,
    output reg  [      AXI_BYTES-1:0] beat_strobe,
    output reg                        beat_last,
    output reg                        burst_valid,
    output reg  [               31:0] burst_offset,
    output reg  [                7:0] burst_length,
    output reg  [                3:0] burst_segment,
    output reg  [                2:0] burst_tag
);
  localparam integer BYTE_PIECE = OUTPUT_LANES < AXI_BYTES ? OUTPUT_LANES : AXI_BYTES;
  localparam integer WORD_PIECE = OUTPUT_LANES * 4 < AXI_BYTES ? OUTPUT_LANES * 4 : AXI_BYTES;
  localparam integer BYTE_PIECES = OUTPUT_LANES / BYTE_PIECE;
  localparam integer WORD_PIECES = OUTPUT_LANES * 4 / WORD_PIECE;
  localparam integer SLICE_W = OUTPUT_LANES * 32;
  localparam integer POSITION_W = $clog2(AXI_BYTES);
  localparam integer LEFT_W = $clog2(WORD_PIECES + 1);
  localparam integer PAGE_W = 12;  // AXI bursts stay within 4 KiB

  // Pieces
  reg [SLICE_W-1:0] slice_q;
  reg [LEFT_W-1:0] left_q;
  reg raw_q, row_first_q, row_last_q;
  wire piece = left_q != 0;
  integer l;
  always @(posedge clk) begin
    if (s_valid) begin
      raw_q <= s_raw;
      row_last_q <= s_row_last;
      slice_q <= s_data;
      if (!s_raw)
        for (l = 0; l < OUTPUT_LANES; l = l + 1) slice_q[l*8+:8] <= s_data[l*32+:8];
    end else if (piece) slice_q <= slice_q >> (WORD_PIECE * 8);
    if (s_valid || piece) row_first_q <= s_valid && s_row_first;
    left_q <= s_valid ? (s_raw ? LEFT_W'(WORD_PIECES) : LEFT_W'(BYTE_PIECES))
        : left_q - LEFT_W'(piece);
    if (rst) left_q <= 0;
  end

  // Beats: position of the piece, then the bytes it covers.
  reg [31:0] offset_q;  // of the next piece, in the segment
  reg [31:0] start_q;  // of the burst
  reg [7:0] beats_q;  // of the burst, complete ones
  reg fresh_q;  // the next piece starts a beat
  reg [3:0] segment_q;
  reg [2:0] tag_q;
  wire start_row = piece && row_first_q;
  wire [31:0] offset = row_first_q ? row_offset : offset_q;
  wire [31:0] start = row_first_q ? row_offset : start_q;
  wire [7:0] beats = row_first_q ? 8'd0 : beats_q;
  wire fresh = row_first_q || fresh_q;
  wire [3:0] segment = row_first_q ? row_segment : segment_q;
  wire [2:0] tag = row_first_q ? row_tag : tag_q;
  wire [POSITION_W-1:0] position = offset[POSITION_W-1:0];
  wire [POSITION_W-1:0] byte_end = position + POSITION_W'(BYTE_PIECE);
  wire [POSITION_W-1:0] word_end = position + POSITION_W'(WORD_PIECE);
  wire row_end = row_last_q && left_q == 1;
  wire beat_end = row_end || (raw_q ? word_end : byte_end) == 0;
  wire burst_end = row_end || (beat_end && (&offset[PAGE_W-1:POSITION_W]
      || beats == 8'(AXI_BURST_BEATS - 1)));
  wire [31:0] next_offset = offset + (raw_q ? WORD_PIECE : BYTE_PIECE);
  assign row_ready = start_row;

  always @(posedge clk) begin
    if (piece) begin
      offset_q <= next_offset;
      start_q <= burst_end ? next_offset : start;
      beats_q <= burst_end ? 8'd0 : beats + 8'(beat_end);
      fresh_q <= beat_end;
      segment_q <= segment;
      tag_q <= tag;
    end
    beat_valid <= piece && beat_end;
    burst_valid <= piece && burst_end;
    if (piece) begin
      beat_last <= burst_end;
      burst_offset <= {start[31:POSITION_W], {POSITION_W{1'b0}}};
      burst_length <= beats;
      burst_segment <= segment;
      burst_tag <= {tag[2] && row_end, tag[1:0]};
    end
    if (rst) begin
      beat_valid  <= 1'b0;
      burst_valid <= 1'b0;
    end
  end

  genvar j;
  generate
    for (j = 0; j < AXI_BYTES; j = j + 1) begin : lane
      localparam [POSITION_W-1:0] BYTE_START = POSITION_W'(j / BYTE_PIECE * BYTE_PIECE);
      localparam [POSITION_W-1:0] WORD_START = POSITION_W'(j / WORD_PIECE * WORD_PIECE);
      wire here = position == (raw_q ? WORD_START : BYTE_START);
      always @(posedge clk)
        if (piece) begin
          if (here)
            beat_data[j*8+:8] <= raw_q ? slice_q[j%WORD_PIECE*8+:8] : slice_q[j%BYTE_PIECE*8+:8];
          beat_strobe[j] <= here || (!fresh && beat_strobe[j]);
        end
    end
  endgenerate
endmodule
`default_nettype wire
