`default_nettype none
import tw_pkg::*;

// Walks the rows (z, y) of LOAD instructions and splits them into read bursts.
// Latency: an instruction taken in cycle t has its first burst at the output in t + 6.
// Throughput: one row or one burst a cycle, back-to-back instructions included; an instruction
// without data takes one cycle.  Backpressure stalls every stage and `s_ready`.
module tw_load_rows (
    input  wire                        clk,
    input  wire                        rst,
    input  wire [ NUM_SEGMENTS*64-1:0] segment_base,
    input  wire                        s_valid,
    output wire                        s_ready,
    input  wire [INSTRUCTION_BITS-1:0] s_instruction,
    output wire                        m_valid,
    input  wire                        m_ready,
    output wire [AXI_ADDRESS_BITS-1:0] m_address,
    output wire [                 7:0] m_length        // beats - 1
);
  localparam integer BYTES_W = 16 + $clog2(MAX_TILE_BYTES) + 1;

  // Stage 1: the instruction and the offset of its next row.
  reg walk_valid_q;
  reg walk_has_rows_q;
  reg [2:0] memory_q;
  reg widen_q;
  reg [3:0] segment_q;
  reg [15:0] x_q;
  reg [15:0] y_q;
  reg [15:0] rows_left_q;  // of the plane, this one included
  reg [15:0] planes_left_q;
  reg [31:0] row_q;
  reg [31:0] plane_q;
  reg [31:0] y_stride_q;
  reg [31:0] z_stride_q;
  wire last_row = rows_left_q == 16'd1;
  wire last = !walk_has_rows_q || (last_row && planes_left_q == 16'd1);
  wire [31:0] next_row = (last_row ? plane_q : row_q) + (last_row ? z_stride_q : y_stride_q);

  // Stage 2: offset, base and length of a row.
  reg row_valid_q;
  reg [31:0] row_offset_q;
  reg [63:12] row_base_q;
  reg [BYTES_W-1:0] row_bytes_q;

  // Stage 3: its address.
  reg address_valid_q;
  reg [32:0] address_low_q;
  reg [31:0] address_high_q;
  reg [BYTES_W-1:0] address_bytes_q;

  wire split_ready;
  wire address_ready = !address_valid_q || split_ready;
  wire row_ready = !row_valid_q || address_ready;
  assign s_ready = !walk_valid_q || (last && row_ready);

  reg [BYTES_W-1:0] bytes_d;
  reg [63:12] base_d;
  integer s;
  always @* begin
    case (memory_q)
      MEMORY_INPUT: bytes_d = BYTES_W'(x_q) << $clog2(INPUT_TILE_BYTES);
      MEMORY_WEIGHT: bytes_d = BYTES_W'(x_q) << $clog2(WEIGHT_TILE_BYTES);
      MEMORY_UOP: bytes_d = BYTES_W'(x_q) << $clog2(UOP_TILE_BYTES);
      MEMORY_PARAMETER: bytes_d = BYTES_W'(x_q) << $clog2(PARAMETER_TILE_BYTES);
      default:
      bytes_d = widen_q ? BYTES_W'(x_q) << $clog2(OUTPUT_TILE_BYTES)
          : BYTES_W'(x_q) << $clog2(ACCUMULATOR_TILE_BYTES);
    endcase
    base_d = 52'd0;
    for (s = 0; s < NUM_SEGMENTS; s = s + 1)
    if (segment_q == s[3:0]) base_d = segment_base[s*64+12+:52];
  end

  always @(posedge clk) begin
    if (s_ready) begin
      walk_valid_q <= s_valid;
      if (s_valid) begin
        walk_has_rows_q <= s_instruction[LOAD_X_LSB+:LOAD_X_W] != 0
            && s_instruction[LOAD_Y_LSB+:LOAD_Y_W] != 0;
        memory_q <= s_instruction[LOAD_MEMORY_LSB+:LOAD_MEMORY_W];
        widen_q <= s_instruction[LOAD_WIDEN_LSB];
        segment_q <= s_instruction[LOAD_SEGMENT_LSB+:LOAD_SEGMENT_W];
        x_q <= s_instruction[LOAD_X_LSB+:LOAD_X_W];
        y_q <= s_instruction[LOAD_Y_LSB+:LOAD_Y_W];
        rows_left_q <= s_instruction[LOAD_Y_LSB+:LOAD_Y_W];
        planes_left_q <= s_instruction[LOAD_Z_LSB+:LOAD_Z_W];
        row_q <= s_instruction[LOAD_OFFSET_LSB+:LOAD_OFFSET_W];
        plane_q <= s_instruction[LOAD_OFFSET_LSB+:LOAD_OFFSET_W];
        y_stride_q <= s_instruction[LOAD_Y_STRIDE_LSB+:LOAD_Y_STRIDE_W];
        z_stride_q <= s_instruction[LOAD_Z_STRIDE_LSB+:LOAD_Z_STRIDE_W];
      end
    end else if (row_ready) begin
      row_q <= next_row;
      rows_left_q <= last_row ? y_q : rows_left_q - 16'd1;
      if (last_row) begin
        plane_q <= next_row;
        planes_left_q <= planes_left_q - 16'd1;
      end
    end
    if (row_ready) begin
      row_valid_q <= walk_valid_q && walk_has_rows_q;
      if (walk_valid_q) begin
        row_offset_q <= row_q;
        row_base_q   <= base_d;
        row_bytes_q  <= bytes_d;
      end
    end
    if (address_ready) begin
      address_valid_q <= row_valid_q;
      if (row_valid_q) begin
        address_low_q   <= {1'b0, row_base_q[31:12], 12'd0} + {1'b0, row_offset_q};
        address_high_q  <= row_base_q[63:32];
        address_bytes_q <= row_bytes_q;
      end
    end
    if (rst) begin
      walk_valid_q <= 1'b0;
      row_valid_q <= 1'b0;
      address_valid_q <= 1'b0;
    end
  end

  tw_burst #(
      .BYTES_W(BYTES_W)
  ) burst (
      .clk,
      .rst,
      .s_valid(address_valid_q),
      .s_ready(split_ready),
      .s_low  (address_low_q),
      .s_high (address_high_q),
      .s_bytes(address_bytes_q),
      .m_valid,
      .m_ready,
      .m_address,
      .m_length
  );
endmodule
`default_nettype wire
