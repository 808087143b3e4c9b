`default_nettype none
import tw_pkg::*;

// The store engine: reads accumulator tiles through the output stage and writes them to DRAM.
// Latency: an instruction taken in cycle t requests its first accumulator read in t + 2 at the
// earliest.  Throughput: a tile takes one cycle a slice of `OUTPUT_LANES` elements or one a beat,
// whichever is more.  Backpressure: a tile is requested only when the write buffer has room for
// all of it.
module tw_store (
    input  wire                                clk,
    input  wire                                rst,
    input  wire [          NUM_SEGMENTS*64-1:0] segment_base,
    input  wire                                s_valid,
    output wire                                s_ready,
    input  wire [        INSTRUCTION_BITS-1:0] s_instruction,
    output reg                                 push_previous,
    output reg                                 push_next,
    output reg                                 retire,
    output wire                                busy,
    output wire                                wait_memory,
    output wire                                wait_conflict,
    output wire                                active,
    output reg                                 error_valid,         // a response was not OKAY
    output reg  [                        31:0] error_index,
    // Scratchpad writes of the load engine
    input  wire                                load_valid,
    input  wire [                         2:0] load_memory,
    input  wire [                        15:0] load_address,
    input  wire [        MAX_TILE_BYTES*8-1:0] load_data,
    // Accumulator
    output reg                                 store_read_valid,
    output reg  [                        15:0] store_read_address,
    input  wire [ACCUMULATOR_TILE_BYTES*8-1:0] store_read_data,
    // AXI
    output wire [        AXI_ADDRESS_BITS-1:0] m_axi_awaddr,
    output wire [                         7:0] m_axi_awlen,
    output wire                                m_axi_awvalid,
    input  wire                                m_axi_awready,
    output wire [           AXI_DATA_BITS-1:0] m_axi_wdata,
    output wire [               AXI_BYTES-1:0] m_axi_wstrb,
    output wire                                m_axi_wlast,
    output wire                                m_axi_wvalid,
    input  wire                                m_axi_wready,
    input  wire [                         1:0] m_axi_bresp,
    input  wire                                m_axi_bvalid,
    output wire                                m_axi_bready
);
  localparam integer TILE_W = ACCUMULATOR_TILE_BYTES * 8;
  localparam integer PARAMETER_ADDRESS_W = $clog2(PARAMETER_DEPTH);
  localparam integer SLICES = BATCH * BLOCK_OUT / OUTPUT_LANES;
  localparam integer SLICE_INDEX_W = SLICES > 1 ? $clog2(SLICES) : 1;
  // Cycles a slice takes to leave, and a tile: bytes, and words when raw.
  localparam integer BYTE_PIECES = OUTPUT_LANES > AXI_BYTES ? OUTPUT_LANES / AXI_BYTES : 1;
  localparam integer WORD_PIECES = 4 * OUTPUT_LANES > AXI_BYTES ? 4 * OUTPUT_LANES / AXI_BYTES : 1;
  localparam integer PACE_W = $clog2(SLICES * WORD_PIECES + 1);
  localparam integer PIECE_W = $clog2(WORD_PIECES + 1);
  // Beats a tile takes when it starts one.
  localparam integer BYTE_BEATS = OUTPUT_TILE_BYTES > AXI_BYTES ? OUTPUT_TILE_BYTES / AXI_BYTES : 1;
  localparam integer WORD_BEATS = ACCUMULATOR_TILE_BYTES > AXI_BYTES
      ? ACCUMULATOR_TILE_BYTES / AXI_BYTES : 1;
  localparam integer FREE_W = $clog2(WRITE_BUFFER_BEATS) + 1;
  localparam integer POSITION_W = $clog2(AXI_BYTES);
  localparam integer ROWS = 32;  // more than tiles between request and packing
  localparam integer CONTROL_W = 2 + 27;

  wire beat_freed;

  function automatic fit(input [FREE_W-1:0] free, input freed, input [31:0] beats);
    fit = freed ? 32'(free) >= beats - 1 : 32'(free) >= beats;
  endfunction

  // Request: one tile of the block.
  reg valid_q;
  reg [INSTRUCTION_BITS-1:0] instruction_q;
  reg early_q;  // push to compute at the last request
  reg [15:0] x_left_q, y_left_q, z_left_q;
  reg x_last_q, y_last_q, z_last_q;
  reg x_first_q;
  reg [15:0] accumulator_q, accumulator_row_q;
  reg [15:0] parameter_q, plane_parameter_q;
  reg [7:0] period_q, period_left_q;
  reg period_last_q;
  reg [31:0] row_q, plane_q;  // DRAM offsets
  reg [POSITION_W-1:0] position_q;  // of the tile in its beat
  reg starts_beat_q;
  reg [PACE_W-1:0] pace_q;
  reg paced_q;  // it is 0
  reg [FREE_W-1:0] free_q;  // beats of the write buffer
  reg bytes_fit_q, words_fit_q;  // a tile's beats are free

  wire raw = instruction_q[STORE_RAW_LSB];
  wire [3:0] segment = instruction_q[STORE_SEGMENT_LSB+:4];
  wire [15:0] x = instruction_q[STORE_X_LSB+:16];
  wire [15:0] y = instruction_q[STORE_Y_LSB+:16];
  wire [31:0] y_stride = instruction_q[STORE_Y_STRIDE_LSB+:32];
  wire [31:0] z_stride = instruction_q[STORE_Z_STRIDE_LSB+:32];
  wire [15:0] accumulator_row = instruction_q[STORE_ACCUMULATOR_ROW_LSB+:16];
  wire parameter_step = instruction_q[STORE_PARAMETER_STEP_LSB];
  wire push_to_previous = instruction_q[STORE_PUSH_PREVIOUS_LSB];

  wire [POSITION_W-1:0] next_position = position_q
      + (raw ? POSITION_W'(ACCUMULATOR_TILE_BYTES) : POSITION_W'(OUTPUT_TILE_BYTES));
  wire go = valid_q && paced_q && (!starts_beat_q || (raw ? words_fit_q : bytes_fit_q));
  wire takes_bytes = go && starts_beat_q && !raw;
  wire takes_words = go && starts_beat_q && raw;
  wire last_tile = x_last_q && y_last_q && z_last_q;
  wire [31:0] next_plane = plane_q + z_stride;
  wire [31:0] next_row = y_last_q ? next_plane : row_q + y_stride;
  wire [15:0] next_accumulator_row = accumulator_row_q + accumulator_row;
  // One adder for a step in the row, back to the plane's start, and on to the next plane's.
  wire [15:0] next_parameter = (x_last_q || period_last_q ? plane_parameter_q : parameter_q)
      + (!x_last_q ? 16'(!period_last_q) : y_last_q && parameter_step ? 16'(period_q) : 16'd0);
  // Whether a tile's beats are free in the next cycle: every case compares with a constant.
  wire bytes_fit = takes_bytes ? fit(free_q, beat_freed, 2 * BYTE_BEATS)
      : takes_words ? fit(free_q, beat_freed, BYTE_BEATS + WORD_BEATS)
      : fit(free_q, beat_freed, BYTE_BEATS);
  wire words_fit = takes_bytes ? fit(free_q, beat_freed, BYTE_BEATS + WORD_BEATS)
      : takes_words ? fit(free_q, beat_freed, 2 * WORD_BEATS)
      : fit(free_q, beat_freed, WORD_BEATS);
  wire take = s_valid && s_ready;
  assign s_ready = !valid_q;

  reg [11:0] in_flight_q;  // instructions
  reg [11:0] late_q;  // of them, those that push to compute at retirement
  wire response_valid, response_error;
  wire [2:0] response_tag;
  wire response_done = response_valid && response_tag[2];
  wire [7:0] take_period = 8'd1 << s_instruction[STORE_LOG2_PARAMETER_PERIOD_LSB+:3];
  wire take_early = s_instruction[STORE_EARLY_LSB] && late_q == 0;
  wire take_late = s_instruction[STORE_PUSH_PREVIOUS_LSB] && !take_early;

  always @(posedge clk) begin
    if (take) begin
      instruction_q <= s_instruction;
      early_q <= take_early;
      x_left_q <= s_instruction[STORE_X_LSB+:16];
      y_left_q <= s_instruction[STORE_Y_LSB+:16];
      z_left_q <= s_instruction[STORE_Z_LSB+:16];
      x_last_q <= s_instruction[STORE_X_LSB+:16] == 16'd1;
      y_last_q <= s_instruction[STORE_Y_LSB+:16] == 16'd1;
      z_last_q <= s_instruction[STORE_Z_LSB+:16] == 16'd1;
      x_first_q <= 1'b1;
      accumulator_q <= s_instruction[STORE_ACCUMULATOR_LSB+:16];
      accumulator_row_q <= s_instruction[STORE_ACCUMULATOR_LSB+:16];
      parameter_q <= s_instruction[STORE_PARAMETER_LSB+:16];
      plane_parameter_q <= s_instruction[STORE_PARAMETER_LSB+:16];
      period_q <= take_period;
      period_left_q <= take_period;
      period_last_q <= take_period[0];
      row_q <= s_instruction[STORE_OFFSET_LSB+:32];
      position_q <= s_instruction[STORE_OFFSET_LSB+:POSITION_W];
      starts_beat_q <= 1'b1;
      plane_q <= s_instruction[STORE_OFFSET_LSB+:32];
    end
    if (go) begin
      x_first_q <= x_last_q;
      parameter_q <= next_parameter;
      period_left_q <= x_last_q || period_last_q ? period_q : period_left_q - 8'd1;
      period_last_q <= x_last_q || period_last_q ? period_q[0] : period_left_q == 8'd2;
      position_q <= x_last_q ? next_row[POSITION_W-1:0] : next_position;
      starts_beat_q <= x_last_q || next_position == 0;
      if (!x_last_q) begin
        x_left_q <= x_left_q - 16'd1;
        x_last_q <= x_left_q == 16'd2;
        accumulator_q <= accumulator_q + 16'd1;
      end else begin
        x_left_q <= x;
        x_last_q <= x == 16'd1;
        accumulator_q <= next_accumulator_row;
        accumulator_row_q <= next_accumulator_row;
        plane_parameter_q <= next_parameter;
        row_q <= next_row;
        if (!y_last_q) begin
          y_left_q <= y_left_q - 16'd1;
          y_last_q <= y_left_q == 16'd2;
        end else begin
          y_left_q <= y;
          y_last_q <= y == 16'd1;
          plane_q  <= next_plane;
          z_left_q <= z_left_q - 16'd1;
          z_last_q <= z_left_q == 16'd2;
        end
      end
    end
    valid_q <= take || (valid_q && !(go && last_tile));
    pace_q <= go ? (raw ? PACE_W'(SLICES * WORD_PIECES - 1) : PACE_W'(SLICES * BYTE_PIECES - 1))
        : pace_q - PACE_W'(!paced_q);
    paced_q <= go ? (raw ? SLICES * WORD_PIECES == 1 : SLICES * BYTE_PIECES == 1)
        : pace_q <= 1;
    free_q <= free_q + FREE_W'(beat_freed)
        - (takes_words ? FREE_W'(WORD_BEATS) : takes_bytes ? FREE_W'(BYTE_BEATS) : 0);
    bytes_fit_q <= bytes_fit;
    words_fit_q <= words_fit;
    in_flight_q <= in_flight_q + 12'(take) - 12'(response_done);
    late_q <= late_q + 12'(take && take_late) - 12'(response_done && response_tag[1]);
    retire <= response_done;
    push_previous <= (response_done && response_tag[1])
        || (go && last_tile && early_q && push_to_previous);
    push_next <= response_done && response_tag[0];
    error_valid <= response_error;
    error_index <= error_index + 32'(retire);
    store_read_valid <= go;
    if (go) store_read_address <= accumulator_q;
    if (rst) begin
      valid_q <= 1'b0;
      pace_q <= 0;
      paced_q <= 1'b1;
      free_q <= FREE_W'(WRITE_BUFFER_BEATS);
      bytes_fit_q <= 1'b1;
      words_fit_q <= 1'b1;
      in_flight_q <= 12'd0;
      late_q <= 12'd0;
      retire <= 1'b0;
      push_previous <= 1'b0;
      push_next <= 1'b0;
      error_valid <= 1'b0;
      error_index <= 32'd0;
      store_read_valid <= 1'b0;
    end
  end
  assign active = in_flight_q != 0;
  assign busy = valid_q && (!paced_q || go);
  assign wait_memory = active && !busy;
  assign wait_conflict = 1'b0;

  // From the request to the tile: the accumulator answers in stage READ + 1, its data are here in
  // READ + 2; the parameters come at the same time.
  localparam integer READ = COMPUTE_READ_STAGE;
  localparam integer REQUEST_W = PARAMETER_ADDRESS_W + 2 + CONTROL_W;
  reg [READ+1:0] request_valid_q;
  reg [(READ+2)*REQUEST_W-1:0] request_q;
  wire [REQUEST_W-1:0] request = {
    parameter_q[PARAMETER_ADDRESS_W-1:0],
    x_first_q,
    x_last_q,
    raw,
    instruction_q[STORE_ROUND_AWAY_LSB],
    instruction_q[STORE_ZERO_POINT_LSB+:9],
    instruction_q[STORE_LOW_LSB+:9],
    instruction_q[STORE_HIGH_LSB+:9]
  };
  always @(posedge clk) begin
    request_valid_q <= {request_valid_q[READ:0], go};
    if (go || |request_valid_q) request_q <= {request_q[(READ+1)*REQUEST_W-1:0], request};
    if (rst) request_valid_q <= 0;
  end
  // Bit and word k belong to the tile requested (`store_read_valid`) k cycles ago.
  wire [REQUEST_W-1:0] arriving = request_q[(READ+1)*REQUEST_W+:REQUEST_W];

  wire [PARAMETER_TILE_BYTES*8-1:0] parameters;
  tw_ram #(
      .WIDTH(PARAMETER_TILE_BYTES * 8),
      .DEPTH(PARAMETER_DEPTH)
  ) parameter_memory (
      .clk,
      .write(load_valid && load_memory == MEMORY_PARAMETER),
      .write_address(load_address[PARAMETER_ADDRESS_W-1:0]),
      .write_data(load_data[PARAMETER_TILE_BYTES*8-1:0]),
      .read(request_valid_q[READ+1]),
      .read_address(arriving[REQUEST_W-1-:PARAMETER_ADDRESS_W]),
      .read_data(parameters)
  );

  // Slices: the tile passes by, `OUTPUT_LANES` elements at a time.
  reg [TILE_W-1:0] tile_q;
  reg [2+CONTROL_W-1:0] control_q;
  reg slicing_q;
  reg [SLICE_INDEX_W-1:0] slice_q;
  reg [PIECE_W-1:0] piece_q;
  wire slice_raw = control_q[28];
  wire slice_valid = slicing_q && piece_q == 0;
  wire slice_last = slice_q == SLICE_INDEX_W'(SLICES - 1);
  wire pieces_last = piece_q == (slice_raw ? PIECE_W'(WORD_PIECES - 1) : PIECE_W'(BYTE_PIECES - 1));
  always @(posedge clk) begin
    if (request_valid_q[READ+1]) begin
      tile_q <= store_read_data;
      control_q <= arriving[2+CONTROL_W-1:0];
    end else if (slicing_q && pieces_last) tile_q <= tile_q >> (OUTPUT_LANES * 32);
    if (slicing_q) begin
      piece_q <= pieces_last ? 0 : piece_q + 1'b1;
      if (pieces_last) slice_q <= slice_last ? 0 : slice_q + 1'b1;
    end
    if (request_valid_q[READ+1]) slicing_q <= 1'b1;
    else if (pieces_last && slice_last) slicing_q <= 1'b0;
    if (rst) begin
      slicing_q <= 1'b0;
      slice_q <= 0;
      piece_q <= 0;
    end
  end

  wire staged_valid, staged_raw;
  wire [1:0] staged_tag;
  wire [OUTPUT_LANES*32-1:0] staged_data;
  tw_output_stage #(
      .SLICE_W(SLICE_INDEX_W)
  ) output_stage (
      .clk,
      .rst,
      .s_valid(slice_valid),
      .s_slice(slice_q),
      .s_data(tile_q[OUTPUT_LANES*32-1:0]),
      .s_parameters(parameters),
      .s_raw(slice_raw),
      .s_round_away(control_q[27]),
      .s_zero_point(control_q[18+:9]),
      .s_low(control_q[9+:9]),
      .s_high(control_q[0+:9]),
      .s_tag({control_q[30] && slice_q == 0, control_q[29] && slice_last}),
      .m_valid(staged_valid),
      .m_raw(staged_raw),
      .m_tag(staged_tag),
      .m_data(staged_data)
  );

  // Rows wait here for their data.
  wire row_ready, unused_row_ready, unused_row_valid;
  wire [31:0] row_offset;
  wire [3:0] row_segment;
  wire [2:0] row_tag;
  tw_fifo #(
      .WIDTH(32 + 4 + 3),
      .DEPTH(ROWS)
  ) rows (
      .clk,
      .rst,
      .s_valid(go && x_first_q),
      .s_ready(unused_row_ready),
      .s_data({
        row_q, segment, y_last_q && z_last_q, push_to_previous && !early_q,
        instruction_q[STORE_PUSH_NEXT_LSB]
      }),
      .m_valid(unused_row_valid),
      .m_ready(row_ready),
      .m_data({row_offset, row_segment, row_tag})
  );

  wire beat_valid, beat_last, burst_valid;
  wire [AXI_DATA_BITS-1:0] beat_data;
  wire [AXI_BYTES-1:0] beat_strobe;
  wire [31:0] burst_offset;
  wire [7:0] burst_length;
  wire [3:0] burst_segment;
  wire [2:0] burst_tag;
  tw_pack pack (
      .clk,
      .rst,
      .s_valid(staged_valid),
      .s_raw(staged_raw),
      .s_row_first(staged_tag[1]),
      .s_row_last(staged_tag[0]),
      .s_data(staged_data),
      .row_ready,
      .row_offset,
      .row_segment,
      .row_tag,
      .beat_valid,
      .beat_data,
      .beat_strobe,
      .beat_last,
      .burst_valid,
      .burst_offset,
      .burst_length,
      .burst_segment,
      .burst_tag
  );

  tw_write #(
      .DEPTH(WRITE_BUFFER_BEATS)
  ) write (
      .clk,
      .rst,
      .segment_base,
      .beat_valid,
      .beat_data,
      .beat_strobe,
      .beat_last,
      .beat_freed,
      .burst_valid,
      .burst_offset,
      .burst_length,
      .burst_segment,
      .burst_tag,
      .response_valid,
      .response_error,
      .response_tag,
      .m_axi_awaddr,
      .m_axi_awlen,
      .m_axi_awvalid,
      .m_axi_awready,
      .m_axi_wdata,
      .m_axi_wstrb,
      .m_axi_wlast,
      .m_axi_wvalid,
      .m_axi_wready,
      .m_axi_bresp,
      .m_axi_bvalid,
      .m_axi_bready
  );
  wire unused = &{
    1'b0, load_address, load_data, instruction_q, parameter_q, unused_row_ready, unused_row_valid,
    1'b0
  };
endmodule
`default_nettype wire
