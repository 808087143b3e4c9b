`default_nettype none
import tw_pkg::*;

/* verilator lint_off BLKSEQ */  // temporaries of a clocked block: nothing is computed while idle
// The value of one 32-bit lane of the ALU: a, or the low 18 bits of a times the low 25 of b, or a
// shifted by b; `up` is to be added to it.
// Latency: 3 (a, b in t, value from t + 3).  Throughput: one a cycle; no backpressure.  Stage k
// moves when `valid[k]` is set; controls belong to the stage they enter.
module tw_alu_lane (
    input  wire        clk,
    input  wire [ 2:0] valid,
    input  wire [31:0] a,
    input  wire [31:0] b,
    input  wire        shift_0,   // stage 0
    input  wire        multiply,  // stage 1
    input  wire [ 1:0] rounding,  // stage 2
    output reg  [31:0] value,
    output reg         up
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

  wire signed [17:0] factor_a = a[17:0];
  wire signed [24:0] factor_b = b[24:0];
  reg [5:0] right_amount;
  reg [5:0] left_amount;
  reg [5:0] coarse;
  reg signed [32:0] value_1;
  reg signed [32:0] value_left;
  reg [32:0] value_2;
  reg sticky;
  reg round_up;

  always @(posedge clk) begin
    if (valid[0]) begin
      right_amount = |b[30:6] || (b[5] && |b[4:1]) ? RIGHT_MOST : b[5:0];
      left_amount = &b[30:5] ? {1'b0, ~b[4:0]} : LEFT_MOST;  // -b - 1
      product_q <= 32'(43'(factor_a) * 43'(factor_b));
      operand_q <= a;
      left_1_q <= shift_0 && b[31];
      amount_1_q <= !shift_0 ? 6'd0 : b[31] ? left_amount : right_amount;
    end
    if (valid[1]) begin
      coarse = {amount_1_q[5:3], 3'd0};
      value_1 = {multiply ? product_q : operand_q, 1'b0};
      value_left = {value_1[31:0], 1'b0};
      left_2_q <= left_1_q;
      fine_2_q <= amount_1_q[2:0];
      value_2_q <= left_1_q ? value_left << coarse : value_1 >>> coarse;
      sticky_2_q <= !left_1_q && |(value_1 & ~({33{1'b1}} << coarse));
    end
    if (valid[2]) begin
      if (left_2_q) value_2 = value_2_q << fine_2_q;
      else value_2 = value_2_q >>> fine_2_q;
      sticky = sticky_2_q || (!left_2_q && |(value_2_q & ~({33{1'b1}} << fine_2_q)));
      round_up = rounding == ROUNDING_HALF_EVEN ? sticky || value_2[1]
          : rounding == ROUNDING_HALF_AWAY && (sticky || !value_2[32]);
      value <= value_2[32:1];
      up <= value_2[0] && round_up;
    end
  end
endmodule
/* verilator lint_on BLKSEQ */
`default_nettype wire
