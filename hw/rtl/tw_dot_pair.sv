`default_nettype none
import tw_pkg::*;

/* verilator lint_off BLKSEQ */  // temporaries of a clocked block
// Two output channels of the GEMM core: for every batch row, the dot products of its input
// with two weight rows.  Both products of an input share one 25 x 18 multiplier: with
// W = w1 * 2^16 + w0, the low half of W * x is w0 * x and the high half w1 * x less the borrow,
// which the low half's sign bit gives back; exact for all int8 operands.
// Latency: 4 (weights in t, inputs in t + 1, sums in t + 4).  Throughput: one pair of rows a
// cycle, no backpressure.  Stage k moves when `valid[k]` is set.
module tw_dot_pair (
    input  wire                        clk,
    input  wire [                 3:0] valid,
    input  wire [BATCH*BLOCK_IN*8-1:0] inputs,     // a tile, from a register
    input  wire [      BLOCK_IN*8-1:0] weights_0,
    input  wire [      BLOCK_IN*8-1:0] weights_1,
    output wire [        BATCH*32-1:0] sums_0,
    output wire [        BATCH*32-1:0] sums_1
);
  localparam integer SUM_W = 16 + $clog2(BLOCK_IN);  // a sum fits
  // Products are added in groups, then the groups, so that a stage has few adders in a row.
  localparam integer GROUP = BLOCK_IN == 64 ? 8 : 4;
  localparam integer GROUPS = BLOCK_IN / GROUP;

  genvar b, i;
  generate
    for (i = 0; i < BLOCK_IN; i = i + 1) begin : weight
      reg signed [24:0] packed_q;
      always @(posedge clk)
        if (valid[0])
          packed_q <= (25'($signed(weights_1[i*8+:8])) <<< 16)
              + 25'($signed(weights_0[i*8+:8]));
    end
    for (b = 0; b < BATCH; b = b + 1) begin : row
      reg [BLOCK_IN*32-1:0] products_q;
      for (i = 0; i < BLOCK_IN; i = i + 1) begin : lane
        localparam integer BYTE = ((i / SUB_LANES) * BATCH + b) * SUB_LANES + i % SUB_LANES;
        always @(posedge clk)
          if (valid[1])
            products_q[i*32+:32] <= 32'(weight[i].packed_q) * 32'($signed(inputs[BYTE*8+:8]));
      end

      integer g, k;
      reg signed [31:0] group_0;
      reg signed [31:0] group_1;
      reg signed [31:0] total_0;
      reg signed [31:0] total_1;
      reg [GROUPS*32-1:0] groups_0_q;
      reg [GROUPS*32-1:0] groups_1_q;
      reg [31:0] sum_0_q;
      reg [31:0] sum_1_q;
      always @(posedge clk) begin
        if (valid[2])
          for (g = 0; g < GROUPS; g = g + 1) begin
            group_0 = 0;
            group_1 = 0;
            for (k = g * GROUP; k < (g + 1) * GROUP; k = k + 1) begin
              group_0 = group_0 + 32'($signed(products_q[k*32+:16]));
              group_1 = group_1 + 32'($signed(products_q[k*32+16+:16]))
                  + 32'(products_q[k*32+15]);
            end
            groups_0_q[g*32+:32] <= group_0;
            groups_1_q[g*32+:32] <= group_1;
          end
        if (valid[3]) begin
          total_0 = 0;
          total_1 = 0;
          for (g = 0; g < GROUPS; g = g + 1) begin
            total_0 = total_0 + groups_0_q[g*32+:32];
            total_1 = total_1 + groups_1_q[g*32+:32];
          end
          sum_0_q <= 32'($signed(total_0[SUM_W-1:0]));
          sum_1_q <= 32'($signed(total_1[SUM_W-1:0]));
        end
      end
      assign sums_0[b*32+:32] = sum_0_q;
      assign sums_1[b*32+:32] = sum_1_q;
    end
  endgenerate
endmodule
/* verilator lint_on BLKSEQ */
`default_nettype wire
