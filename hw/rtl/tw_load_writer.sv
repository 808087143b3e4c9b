`default_nettype none
import tw_pkg::*;

// Turns read beats and padding into whole scratchpad tiles, in instruction order.
// Latency: an instruction taken in cycle t handles its first pad tile or beat in t + 3 at the
// earliest; a tile that is completed in cycle t is offered to its memory in t + 1.
// Throughput: one pad tile, one beat, or one of several tiles of a beat a cycle; none is lost
// between instructions.  Backpressure: a refused tile stalls the writer.
module tw_load_writer (
    input  wire                        clk,
    input  wire                        rst,
    input  wire                        s_valid,
    output wire                        s_ready,
    input  wire [INSTRUCTION_BITS-1:0] s_instruction,
    input  wire                        beat_valid,
    output wire                        beat_ready,
    input  wire [   AXI_DATA_BITS-1:0] beat_data,
    input  wire                        beat_error,
    output reg                         load_valid,
    input  wire                        load_ready,
    output reg  [                 2:0] load_memory,
    output reg  [                15:0] load_address,
    output reg  [MAX_TILE_BYTES*8-1:0] load_data,
    output reg                         push_previous,
    output reg                         push_next,
    output reg                         retire,
    output wire                        step,           // handles a pad tile or a beat
    output wire                        active,
    output reg                         error_valid,
    output reg  [                31:0] error_index
);
  localparam integer LOG2_AXI = $clog2(AXI_BYTES);
  // Bytes of a row's start that matter here; the shape fields follow the instruction's layout.
  localparam integer LOW_W = LOG2_AXI;
  localparam integer SHAPE_W = LOAD_Z_LSB + LOAD_Z_W - LOAD_SCRATCHPAD_LSB;
  localparam integer PADDING_W = LOAD_WIDEN_LSB + LOAD_WIDEN_W - LOAD_PAD_TOP_LSB;
  localparam integer COMMAND_W = PADDING_W + SHAPE_W + 3 * LOW_W + LOAD_MEMORY_W + 2;

  // How a tile lies in beats.
  localparam integer PART_BYTES = MAX_TILE_BYTES < AXI_BYTES ? MAX_TILE_BYTES : AXI_BYTES;
  localparam integer PARTS = MAX_TILE_BYTES / PART_BYTES;
  localparam integer PART_W = PARTS == 1 ? 1 : $clog2(PARTS);
  localparam integer WIDEN_BYTES = OUTPUT_TILE_BYTES < AXI_BYTES ? OUTPUT_TILE_BYTES : AXI_BYTES;
  localparam integer WIDEN_PARTS = OUTPUT_TILE_BYTES / WIDEN_BYTES;
  localparam integer LEAST_TILE_BYTES = OUTPUT_TILE_BYTES < INPUT_TILE_BYTES
      ? (OUTPUT_TILE_BYTES < UOP_TILE_BYTES ? OUTPUT_TILE_BYTES : UOP_TILE_BYTES)
      : (INPUT_TILE_BYTES < UOP_TILE_BYTES ? INPUT_TILE_BYTES : UOP_TILE_BYTES);
  localparam integer SLOTS = AXI_BYTES > LEAST_TILE_BYTES ? AXI_BYTES / LEAST_TILE_BYTES : 1;

  function automatic [PART_W-1:0] last_part(input [2:0] memory, input widen);
    integer tile_bytes;
    begin
      case (memory)
        MEMORY_INPUT: tile_bytes = INPUT_TILE_BYTES;
        MEMORY_WEIGHT: tile_bytes = WEIGHT_TILE_BYTES;
        MEMORY_UOP: tile_bytes = UOP_TILE_BYTES;
        MEMORY_PARAMETER: tile_bytes = PARAMETER_TILE_BYTES;
        default: tile_bytes = widen ? OUTPUT_TILE_BYTES : ACCUMULATOR_TILE_BYTES;
      endcase
      last_part = tile_bytes <= AXI_BYTES ? PART_W'(0) : PART_W'(tile_bytes / AXI_BYTES - 1);
    end
  endfunction

  // Bytes from tile to tile in a beat; 0 for a tile that fills it.
  function automatic [LOW_W-1:0] slot_bytes(input [2:0] memory, input widen);
    case (memory)
      MEMORY_INPUT: slot_bytes = LOW_W'(INPUT_TILE_BYTES);
      MEMORY_WEIGHT: slot_bytes = LOW_W'(WEIGHT_TILE_BYTES);
      MEMORY_UOP: slot_bytes = LOW_W'(UOP_TILE_BYTES);
      MEMORY_PARAMETER: slot_bytes = LOW_W'(PARAMETER_TILE_BYTES);
      default: slot_bytes = widen ? LOW_W'(OUTPUT_TILE_BYTES) : LOW_W'(ACCUMULATOR_TILE_BYTES);
    endcase
  endfunction

  function automatic [31:0] widened(input [7:0] element, input flip, input [8:0] zero_point);
    reg top;
    reg [9:0] difference;
    begin
      top = element[7] ^ flip;
      difference = {{3{top}}, element[6:0]} - {zero_point[8], zero_point};
      widened = {{22{difference[9]}}, difference};
    end
  endfunction

  // Instructions taken and not yet begun.
  wire command_valid;
  wire command_ready;
  wire [COMMAND_W-1:0] command;
  tw_fifo #(
      .WIDTH(COMMAND_W),
      .DEPTH(LOAD_QUEUE_DEPTH)
  ) commands (
      .clk,
      .rst,
      .s_valid,
      .s_ready,
      .s_data({
        s_instruction[LOAD_PAD_TOP_LSB+:PADDING_W],
        s_instruction[LOAD_SCRATCHPAD_LSB+:SHAPE_W],
        s_instruction[LOAD_Z_STRIDE_LSB+:LOW_W],
        s_instruction[LOAD_Y_STRIDE_LSB+:LOW_W],
        s_instruction[LOAD_OFFSET_LSB+:LOW_W],
        s_instruction[LOAD_MEMORY_LSB+:LOAD_MEMORY_W],
        s_instruction[LOAD_PUSH_PREVIOUS_LSB+:2]
      }),
      .m_valid(command_valid),
      .m_ready(command_ready),
      .m_data(command)
  );
  wire unused_fields = &{1'b0, s_instruction, 1'b0};
  wire [PADDING_W-1:0] c_padding;
  wire [SHAPE_W-1:0] c_shape;
  wire [LOW_W-1:0] c_z_low;
  wire [LOW_W-1:0] c_y_low;
  wire [LOW_W-1:0] c_low;
  wire [LOAD_MEMORY_W-1:0] c_memory;
  wire [1:0] c_pushes;
  assign {c_padding, c_shape, c_z_low, c_y_low, c_low, c_memory, c_pushes} = command;
  wire [15:0] c_scratchpad = c_shape[0+:16];
  wire [15:0] c_x = c_shape[LOAD_X_LSB-LOAD_SCRATCHPAD_LSB+:16];
  wire [15:0] c_y = c_shape[LOAD_Y_LSB-LOAD_SCRATCHPAD_LSB+:16];
  wire [15:0] c_z = c_shape[LOAD_Z_LSB-LOAD_SCRATCHPAD_LSB+:16];
  wire [7:0] c_top = c_padding[0+:8];
  wire [7:0] c_bottom = c_padding[LOAD_PAD_BOTTOM_LSB-LOAD_PAD_TOP_LSB+:8];
  wire [7:0] c_left = c_padding[LOAD_PAD_LEFT_LSB-LOAD_PAD_TOP_LSB+:8];
  wire [7:0] c_right = c_padding[LOAD_PAD_RIGHT_LSB-LOAD_PAD_TOP_LSB+:8];
  wire [7:0] c_pad_value = c_padding[LOAD_PAD_VALUE_LSB-LOAD_PAD_TOP_LSB+:8];
  wire [8:0] c_zero_point = c_padding[LOAD_ZERO_POINT_LSB-LOAD_PAD_TOP_LSB+:9];
  wire c_flip = c_padding[LOAD_FLIP_LSB-LOAD_PAD_TOP_LSB];
  wire c_widen = c_padding[LOAD_WIDEN_LSB-LOAD_PAD_TOP_LSB];
  wire [9:0] c_wide_pad = {{2{c_pad_value[7]}}, c_pad_value}
      - (c_widen ? {c_zero_point[8], c_zero_point} : 10'd0);

  // The next instruction, with its bounds worked out.
  reg next_valid_q;
  reg [2:0] next_memory_q;
  reg next_flip_q;
  reg next_widen_q;
  reg [1:0] next_pushes_q;
  reg [8:0] next_zero_point_q;
  reg [31:0] next_fill_q;
  reg [15:0] next_address_q;
  reg [15:0] next_z_q;
  reg [7:0] next_left_q;
  reg [7:0] next_top_q;
  reg [16:0] next_x_end_q;
  reg [16:0] next_y_end_q;
  reg [16:0] next_width_q;
  reg [16:0] next_height_q;
  reg next_has_x_q;
  reg next_has_y_q;
  reg [LOW_W-1:0] next_low_q;
  reg [LOW_W-1:0] next_y_low_q;
  reg [LOW_W-1:0] next_z_low_q;

  // The instruction at work.  `column`, `row` count from 1 and include the current tile; data
  // lies after `left` up to `x_end`, and after `top` up to `y_end`.
  reg valid_q;
  reg [2:0] memory_q;
  reg flip_q;
  reg widen_q;
  reg [1:0] pushes_q;
  reg [8:0] zero_point_q;
  reg [31:0] fill_q;
  reg [15:0] address_q;
  reg [15:0] planes_left_q;
  reg [7:0] left_q;
  reg [7:0] top_q;
  reg [16:0] x_end_q;
  reg [16:0] y_end_q;
  reg [16:0] before_last_column_q;
  reg [16:0] before_last_row_q;
  reg one_column_q;
  reg one_row_q;
  reg has_x_q;
  reg has_y_q;
  reg [16:0] column_q;
  reg [16:0] row_q;
  reg column_is_data_q;
  reg row_is_data_q;
  reg column_end_q;
  reg row_end_q;
  reg plane_end_q;
  reg [PART_W-1:0] part_q;
  reg [PART_W-1:0] last_part_q;
  reg [LOW_W-1:0] slot_bytes_q;
  reg [LOW_W-1:0] slot_q;  // byte of the beat where the next tile lies
  reg [LOW_W-1:0] row_low_q;
  reg [LOW_W-1:0] plane_low_q;
  reg [LOW_W-1:0] y_low_q;
  reg [LOW_W-1:0] z_low_q;

  // The tile on offer.
  reg last_tile_q;
  reg [1:0] tile_pushes_q;
  reg [31:0] index_q;

  // `load_ready` comes late: what does not depend on it is apart from it.
  wire is_data = column_is_data_q && row_is_data_q;
  wire can_step = valid_q && (!is_data || beat_valid);
  wire completes = !is_data || part_q == last_part_q;
  wire offer_free = !load_valid || load_ready;
  assign step = can_step && offer_free;
  wire tile_done = (can_step && completes) && offer_free;
  wire last_tile = column_end_q && row_end_q && plane_end_q;
  wire [LOW_W-1:0] next_slot = slot_q + slot_bytes_q;
  wire [LOW_W-1:0] next_row_low = row_low_q + y_low_q;
  wire [LOW_W-1:0] next_plane_low = plane_low_q + z_low_q;

  wire take = !valid_q || ((can_step && completes && last_tile) && offer_free);
  assign command_ready = !next_valid_q || take;
  wire ends_beat = next_slot == 0 || column_q == x_end_q;
  assign beat_ready = (can_step && is_data && ends_beat) && offer_free;
  assign active = command_valid || next_valid_q || valid_q || load_valid || retire;

  always @(posedge clk) begin
    if (command_ready) begin
      next_valid_q <= command_valid;
      if (command_valid) begin
        next_memory_q <= c_memory;
        next_flip_q <= c_flip;
        next_widen_q <= c_widen;
        next_pushes_q <= c_pushes;
        next_zero_point_q <= c_zero_point;
        next_fill_q <= c_memory == MEMORY_ACCUMULATOR ? {{22{c_wide_pad[9]}}, c_wide_pad}
            : {4{c_pad_value}};
        next_address_q <= c_scratchpad;
        next_z_q <= c_z;
        next_left_q <= c_left;
        next_top_q <= c_top;
        next_x_end_q <= {9'd0, c_left} + {1'b0, c_x};
        next_y_end_q <= {9'd0, c_top} + {1'b0, c_y};
        next_width_q <= {9'd0, c_left} + {1'b0, c_x} + {9'd0, c_right};
        next_height_q <= {9'd0, c_top} + {1'b0, c_y} + {9'd0, c_bottom};
        next_has_x_q <= c_x != 16'd0;
        next_has_y_q <= c_y != 16'd0;
        next_low_q <= c_low;
        next_y_low_q <= c_y_low;
        next_z_low_q <= c_z_low;
      end
    end
    if (rst) next_valid_q <= 1'b0;
  end

  always @(posedge clk) begin
    if (take) begin
      valid_q <= next_valid_q;
      if (next_valid_q) begin
        memory_q <= next_memory_q;
        flip_q <= next_flip_q;
        widen_q <= next_widen_q;
        pushes_q <= next_pushes_q;
        zero_point_q <= next_zero_point_q;
        fill_q <= next_fill_q;
        address_q <= next_address_q;
        planes_left_q <= next_z_q;
        left_q <= next_left_q;
        top_q <= next_top_q;
        x_end_q <= next_x_end_q;
        y_end_q <= next_y_end_q;
        before_last_column_q <= next_width_q - 17'd1;
        before_last_row_q <= next_height_q - 17'd1;
        one_column_q <= next_width_q == 17'd1;
        one_row_q <= next_height_q == 17'd1;
        column_end_q <= next_width_q == 17'd1;
        row_end_q <= next_height_q == 17'd1;
        plane_end_q <= next_z_q == 16'd1;
        has_x_q <= next_has_x_q;
        has_y_q <= next_has_y_q;
        column_q <= 17'd1;
        row_q <= 17'd1;
        column_is_data_q <= next_left_q == 8'd0 && next_has_x_q;
        row_is_data_q <= next_top_q == 8'd0 && next_has_y_q;
        part_q <= 0;
        last_part_q <= last_part(next_memory_q, next_widen_q);
        slot_bytes_q <= slot_bytes(next_memory_q, next_widen_q);
        slot_q <= next_low_q;
        row_low_q <= next_low_q;
        plane_low_q <= next_low_q;
        y_low_q <= next_y_low_q;
        z_low_q <= next_z_low_q;
      end
    end else if (tile_done) begin
      part_q <= 0;
      address_q <= address_q + 16'd1;
      if (is_data) slot_q <= next_slot;
      if (!column_end_q) begin
        column_q <= column_q + 17'd1;
        column_end_q <= column_q == before_last_column_q;
        if (column_q == x_end_q) column_is_data_q <= 1'b0;
        else if (column_q == {9'd0, left_q}) column_is_data_q <= 1'b1;
      end else begin
        column_q <= 17'd1;
        column_end_q <= one_column_q;
        column_is_data_q <= left_q == 8'd0 && has_x_q;
        if (!row_end_q) begin
          row_q <= row_q + 17'd1;
          row_end_q <= row_q == before_last_row_q;
          if (row_q == y_end_q) row_is_data_q <= 1'b0;
          else if (row_q == {9'd0, top_q}) row_is_data_q <= 1'b1;
          if (row_is_data_q) {slot_q, row_low_q} <= {2{next_row_low}};
        end else begin
          row_q <= 17'd1;
          row_end_q <= one_row_q;
          row_is_data_q <= top_q == 8'd0 && has_y_q;
          planes_left_q <= planes_left_q - 16'd1;
          plane_end_q <= planes_left_q == 16'd2;
          {slot_q, row_low_q, plane_low_q} <= {3{next_plane_low}};
        end
      end
    end else if (step) begin
      part_q <= part_q + 1'b1;
    end
    if (rst) valid_q <= 1'b0;
  end

  always @(posedge clk) begin
    if (offer_free) load_valid <= tile_done;
    if (tile_done) begin
      load_memory <= memory_q;
      load_address <= address_q;
      last_tile_q <= last_tile;
      tile_pushes_q <= pushes_q;
      if (last_tile) index_q <= index_q + 32'd1;
    end
    retire <= load_valid && load_ready && last_tile_q;
    {push_next, push_previous} <= tile_pushes_q & {2{load_valid && load_ready && last_tile_q}};
    error_valid <= beat_ready && beat_error;
    error_index <= index_q;
    if (rst) begin
      load_valid <= 1'b0;
      retire <= 1'b0;
      {push_next, push_previous} <= 2'b00;
      error_valid <= 1'b0;
      index_q <= 32'd0;
    end
  end

  // The tile is put together in the register that the memories write from.
  reg [AXI_DATA_BITS-1:0] slot_data;
  integer s;
  integer i;
  integer p;
  always @* begin
    slot_data = beat_data;
    for (s = 1; s < SLOTS; s = s + 1)
    if (slot_q == LOW_W'(s * LEAST_TILE_BYTES)) slot_data = beat_data >> s * LEAST_TILE_BYTES * 8;
  end

  always @(posedge clk)
    if (step) begin
      if (!is_data) load_data <= {MAX_TILE_BYTES / 4{fill_q}};
      else if (widen_q) begin
        for (p = 0; p < WIDEN_PARTS; p = p + 1)
        if (part_q == PART_W'(p))
          for (i = 0; i < WIDEN_BYTES; i = i + 1)
            load_data[(p*WIDEN_BYTES+i)*32+:32] <= widened(slot_data[i*8+:8], flip_q, zero_point_q);
      end else
        for (p = 0; p < PARTS; p = p + 1)
        if (part_q == PART_W'(p))
          load_data[p*PART_BYTES*8+:PART_BYTES*8] <= slot_data[PART_BYTES*8-1:0]
              ^ {PART_BYTES{flip_q, 7'd0}};
    end
endmodule
`default_nettype wire
