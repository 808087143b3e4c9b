`default_nettype none
// One element of the output stage: clamp(zero_point + round((accumulator + bias) * multiplier /
// 2^shift), low, high); `raw` results are the low 32 bits before rounding.
// Latency: 9.  Throughput: one a cycle; no backpressure.  Stage k moves when `valid[k]` is set;
// controls belong to the stage they enter.
module tw_output_lane (
    input  wire               clk,
    input  wire        [ 8:0] valid,
    input  wire signed [31:0] accumulator,  // stage 0
    input  wire signed [31:0] bias,
    input  wire        [23:0] multiplier,
    input  wire        [ 5:0] shift,
    input  wire               round_away,   // stage 6
    input  wire signed [ 8:0] zero_point,   // stage 7
    input  wire               raw,          // stage 8
    input  wire signed [ 8:0] low,
    input  wire signed [ 8:0] high,
    output reg         [31:0] result         // low byte unless raw
);
  // A 33 x 24 bit product from two 25 x 18 multipliers.
  localparam integer PART_W = 17;
  localparam integer SATURATED_W = 11;  // more is beyond every zero point and limit

  reg signed [32:0] total_q;
  reg [23:0] multiplier_1_q;
  reg [5:0] shift_1_q, shift_2_q, shift_3_q, shift_4_q;
  reg [40:0] low_2_q;
  reg signed [39:0] high_2_q;
  reg [16:0] bottom_3_q, bottom_4_q;
  reg [24:0] middle_3_q;
  reg [23:0] middle_4_q;
  reg signed [15:0] top_3_q;
  reg signed [16:0] top_4_q;
  reg signed [58:0] value_5_q, value_6_q;  // one bit of fraction
  reg sticky_5_q, sticky_6_q;
  reg [2:0] fine_5_q;
  reg signed [SATURATED_W-1:0] saturated_7_q;
  reg up_7_q;
  reg [31:0] raw_7_q, raw_8_q;
  reg signed [12:0] sum_8_q;

  wire signed [17:0] low_part = {1'b0, total_q[PART_W-1:0]};
  wire signed [15:0] high_part = total_q[32:PART_W];
  wire signed [24:0] factor = {1'b0, multiplier_1_q};
  wire signed [58:0] value_4 = {top_4_q, middle_4_q, bottom_4_q, 1'b0};
  wire [5:0] coarse = {shift_4_q[5:3], 3'd0};
  wire [58:0] coarse_dropped = ~({59{1'b1}} << coarse);
  wire [58:0] fine_dropped = ~({59{1'b1}} << fine_5_q);
  wire signed [57:0] floor_6 = value_6_q[58:1];
  wire fits = floor_6[57:SATURATED_W-1] == {(58 - SATURATED_W + 1) {floor_6[57]}};

  wire [8:0] clamped = sum_8_q < 13'(low) ? low : sum_8_q > 13'(high) ? high : sum_8_q[8:0];

  always @(posedge clk) begin
    if (valid[0]) begin
      total_q <= 33'(accumulator) + 33'(bias);
      multiplier_1_q <= multiplier;
      shift_1_q <= shift;
    end
    if (valid[1]) begin
      low_2_q <= 41'(low_part * 41'(factor));
      high_2_q <= 40'(high_part) * 40'(factor);
      shift_2_q <= shift_1_q;
    end
    if (valid[2]) begin
      bottom_3_q <= low_2_q[PART_W-1:0];
      middle_3_q <= 25'(high_2_q[23:0]) + 25'(low_2_q[40:PART_W]);
      top_3_q <= high_2_q[39:24];
      shift_3_q <= shift_2_q;
    end
    if (valid[3]) begin
      bottom_4_q <= bottom_3_q;
      middle_4_q <= middle_3_q[23:0];
      top_4_q <= 17'(top_3_q) + $signed(17'(middle_3_q[24]));
      shift_4_q <= shift_3_q;
    end
    if (valid[4]) begin
      value_5_q <= value_4 >>> coarse;
      sticky_5_q <= |(value_4 & coarse_dropped);
      fine_5_q <= shift_4_q[2:0];
    end
    if (valid[5]) begin
      value_6_q <= value_5_q >>> fine_5_q;
      sticky_6_q <= sticky_5_q || |(value_5_q & fine_dropped);
    end
    if (valid[6]) begin
      saturated_7_q <= fits ? floor_6[SATURATED_W-1:0]
          : {floor_6[57], {(SATURATED_W - 1) {~floor_6[57]}}};
      up_7_q <= value_6_q[0] && (sticky_6_q || (round_away ? !floor_6[57] : floor_6[0]));
      raw_7_q <= floor_6[31:0];
    end
    if (valid[7]) begin
      sum_8_q <= 13'(saturated_7_q) + 13'(zero_point) + $signed(13'(up_7_q));
      raw_8_q <= raw_7_q;
    end
    if (valid[8])
      result <= raw ? raw_8_q : {23'd0, clamped};
  end
endmodule
`default_nettype wire
