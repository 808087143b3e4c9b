`default_nettype none
import tw_pkg::*;

// One 32-bit lane of the ALU: v = a, or the low 18 bits of a times the low 25 of b, or a shifted
// by b; then acc or v or 0, combined with v or the immediate.
// Latency: 4 (a, b in t, result to be registered in t + 4).  Throughput: one a cycle; no
// backpressure.  Stage k moves when `valid[k]` is set; controls belong to the stage they enter.
module tw_alu_lane (
    input  wire        clk,
    input  wire [ 2:0] valid,
    input  wire [31:0] a,
    input  wire [31:0] b,
    input  wire        multiply,     // stage 1
    input  wire        shift_0,      // stage 0
    input  wire [ 1:0] rounding,     // stage 2
    // Stage 3, combinational
    input  wire [31:0] accumulator,
    input  wire [31:0] immediate,
    input  wire        left_accumulator,
    input  wire        left_value,
    input  wire        right_value,
    input  wire        subtract,
    input  wire        minimum,
    input  wire        maximum,
    output wire [31:0] result
);
  localparam [5:0] RIGHT_MOST = 6'd33;  // further shifts give the same
  localparam [5:0] LEFT_MOST = 6'd31;  // beside the one of every left shift: nothing is left

  reg signed [31:0] product_q;
  reg signed [31:0] operand_q;
  reg left_1_q;
  reg [5:0] amount_1_q;
  reg left_2_q;
  reg [2:0] fine_2_q;
  reg signed [32:0] value_2_q;  // one bit of fraction
  reg sticky_2_q;
  reg [31:0] value_q;
  reg up_q;

  wire signed [17:0] factor_a = a[17:0];
  wire signed [24:0] factor_b = b[24:0];
  wire right_far = |b[30:6] || (b[5] && |b[4:1]);
  wire [5:0] right_amount = right_far ? RIGHT_MOST : b[5:0];
  wire [5:0] left_amount = &b[30:5] ? {1'b0, ~b[4:0]} : LEFT_MOST;  // -b - 1

  wire [5:0] coarse = {amount_1_q[5:3], 3'd0};
  wire [32:0] coarse_dropped = ~({33{1'b1}} << coarse);
  wire signed [32:0] value_1 = {multiply ? product_q : operand_q, 1'b0};
  wire signed [32:0] value_left = {value_1[31:0], 1'b0};
  wire [32:0] fine_dropped = ~({33{1'b1}} << fine_2_q);
  wire sticky = sticky_2_q || (!left_2_q && |(value_2_q & fine_dropped));
  wire signed [32:0] fine_right = value_2_q >>> fine_2_q;
  wire signed [32:0] fine_left = value_2_q << fine_2_q;
  wire [32:0] value_3 = left_2_q ? fine_left : fine_right;
  wire round_up = rounding == ROUNDING_HALF_EVEN ? sticky || value_3[1]
      : rounding == ROUNDING_HALF_AWAY && (sticky || !value_3[32]);

  always @(posedge clk) begin
    if (valid[0]) begin
      product_q <= 32'(43'(factor_a) * 43'(factor_b));
      operand_q <= a;
      left_1_q <= shift_0 && b[31];
      amount_1_q <= !shift_0 ? 6'd0 : b[31] ? left_amount : right_amount;
    end
    if (valid[1]) begin
      left_2_q <= left_1_q;
      fine_2_q <= amount_1_q[2:0];
      value_2_q <= left_1_q ? value_left << coarse : value_1 >>> coarse;
      sticky_2_q <= !left_1_q && |(value_1 & coarse_dropped);
    end
    if (valid[2]) begin
      value_q <= value_3[32:1];
      up_q <= value_3[0] && round_up;
    end
  end

  wire [31:0] left = left_accumulator ? accumulator : left_value ? value_q : 32'd0;
  wire [31:0] right = right_value ? value_q : immediate;
  wire [31:0] sum = left + (subtract ? ~right : right) + 32'(subtract || up_q);
  wire less = $signed(left) < $signed(right);
  assign result = (minimum || maximum) ? (less == minimum ? left : right) : sum;
endmodule
`default_nettype wire
