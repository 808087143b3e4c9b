`default_nettype none
import tw_pkg::*;

// The output stage: requantizes slices of `OUTPUT_LANES` elements of an accumulator tile, or
// passes them as they are (`raw`).
// Latency: 10 (slice in t, result from t + 10).  Throughput: one slice a cycle; no backpressure.
module tw_output_stage #(
    parameter integer SLICE_W = 1  // bits of a slice index of a tile
) (
    input  wire                              clk,
    input  wire                              rst,
    input  wire                              s_valid,
    input  wire [               SLICE_W-1:0] s_slice,         // which of the tile
    input  wire [       OUTPUT_LANES*32-1:0] s_data,
    input  wire [PARAMETER_TILE_BYTES*8-1:0] s_parameters,    // of the tile's channels
    input  wire                              s_raw,
    input  wire                              s_round_away,
    input  wire [                       8:0] s_zero_point,
    input  wire [                       8:0] s_low,
    input  wire [                       8:0] s_high,
    input  wire [                       1:0] s_tag,           // comes out with the result
    output wire                              m_valid,
    output wire                              m_raw,
    output wire [                       1:0] m_tag,
    output wire [       OUTPUT_LANES*32-1:0] m_data           // a byte in 32 bits unless raw
);
  localparam integer STAGES = 10;
  localparam integer CONTROL_W = 2 + 2 + 27;
  localparam integer PARAMETER_W = PARAMETER_BIAS_W + PARAMETER_MULTIPLIER_W + PARAMETER_SHIFT_W;
  localparam [PARAMETER_W-1:0] IDENTITY = PARAMETER_W'(1) << PARAMETER_MULTIPLIER_LSB;

  // Bit and word k - 1 belong to the slice that came k cycles ago.
  reg [STAGES-1:0] valid_q;
  reg [STAGES*CONTROL_W-1:0] control_q;
  always @(posedge clk) begin
    valid_q <= {valid_q[STAGES-2:0], s_valid};
    if (s_valid || |valid_q)
      control_q <= {
        control_q[(STAGES-1)*CONTROL_W-1:0],
        s_tag, s_raw, s_round_away, s_zero_point, s_low, s_high
      };
    if (rst) valid_q <= 0;
  end
  assign m_valid = valid_q[STAGES-1];
  assign m_raw = control_q[(STAGES-1)*CONTROL_W+28];
  assign m_tag = control_q[(STAGES-1)*CONTROL_W+29+:2];

  // Slices in the order of a tile, [BLOCK_OUT / SUB_LANES][BATCH][SUB_LANES]: the batch bits of
  // the index do not choose channels.
  localparam integer SUB_SLICES = OUTPUT_LANES < SUB_LANES ? SUB_LANES / OUTPUT_LANES : 1;
  localparam integer SLICE_SUBS = OUTPUT_LANES > SUB_LANES ? OUTPUT_LANES / SUB_LANES : 1;
  localparam integer BATCH_SLICES = BATCH > SLICE_SUBS ? BATCH / SLICE_SUBS : 1;
  localparam integer SLICE_ROWS = BATCH < SLICE_SUBS ? BATCH : SLICE_SUBS;
  localparam integer GROUP_STEP = OUTPUT_LANES / SLICE_ROWS;
  wire [31:0] slice = 32'(s_slice);
  wire [31:0] group = slice / (SUB_SLICES * BATCH_SLICES) * SUB_SLICES + slice % SUB_SLICES;

  reg [OUTPUT_LANES*32-1:0] data_q;
  reg [OUTPUT_LANES*PARAMETER_W-1:0] parameters_q;
  integer j;
  always @(posedge clk) begin
    if (s_valid) begin
      data_q <= s_data;
      for (j = 0; j < OUTPUT_LANES; j = j + 1)
        parameters_q[j*PARAMETER_W+:PARAMETER_W] <= s_raw ? IDENTITY
            : s_parameters[(group*GROUP_STEP+j/(BATCH*SUB_LANES)*SUB_LANES+j%SUB_LANES)*64
                +:PARAMETER_W];
    end
  end

  genvar l;
  generate
    for (l = 0; l < OUTPUT_LANES; l = l + 1) begin : lane
      tw_output_lane lane (
          .clk,
          .valid(valid_q[8:0]),
          .accumulator(data_q[l*32+:32]),
          .bias(parameters_q[l*PARAMETER_W+PARAMETER_BIAS_LSB+:PARAMETER_BIAS_W]),
          .multiplier(parameters_q[l*PARAMETER_W+PARAMETER_MULTIPLIER_LSB+:PARAMETER_MULTIPLIER_W]),
          .shift(parameters_q[l*PARAMETER_W+PARAMETER_SHIFT_LSB+:PARAMETER_SHIFT_W]),
          .round_away(control_q[6*CONTROL_W+27]),
          .zero_point(control_q[7*CONTROL_W+18+:9]),
          .raw(control_q[8*CONTROL_W+28]),
          .low(control_q[8*CONTROL_W+9+:9]),
          .high(control_q[8*CONTROL_W+:9]),
          .result(m_data[l*32+:32])
      );
    end
  endgenerate
  wire unused = &{1'b0, s_parameters, 1'b0};
endmodule
`default_nettype wire
