`default_nettype none
import tw_pkg::*;

/* verilator lint_off BLKSEQ */  // temporaries of a clocked block
// The GEMM core: acc[dst] += input * weight^T (or = when `overwrite`), one tile product a cycle.
// Latency: a uop taken in cycle t reads its operand memories in t (data is due in t + 1), its
// accumulator in t + 3 and writes it in t + 6.  Throughput: one uop a cycle, whatever dst: an
// accumulator still on its way is forwarded.  No backpressure: what was taken is never held.
module tw_gemm (
    input  wire                                clk,
    input  wire                                rst,
    // Uop
    input  wire                                s_valid,
    input  wire [                        15:0] s_dst,
    input  wire                                s_overwrite,
    input  wire [                         2:0] s_tag,            // comes out with the write
    input  wire [      INPUT_TILE_BYTES*8-1:0] input_data,       // of the uop of the cycle before
    input  wire [     WEIGHT_TILE_BYTES*8-1:0] weight_data,
    // Accumulator
    output wire                                read_valid,
    output wire [                        15:0] read_address,
    input  wire [ACCUMULATOR_TILE_BYTES*8-1:0] read_data,
    output wire                                write_valid,
    output wire [                        15:0] write_address,
    output wire [ACCUMULATOR_TILE_BYTES*8-1:0] write_data,
    output wire [                         2:0] write_tag,
    output wire                                active
);
  localparam integer ELEMENTS = BATCH * BLOCK_OUT;
  localparam integer READ = COMPUTE_READ_STAGE;
  localparam integer WRITE = GEMM_WRITE_STAGE;

  // Bit and word k - 1 belong to the uop taken k cycles ago.
  reg [WRITE-1:0] valid_q;
  reg [WRITE*16-1:0] dst_q;
  reg [WRITE*3-1:0] tag_q;
  reg [READ:0] overwrite_q;
  always @(posedge clk) begin
    valid_q <= {valid_q[WRITE-2:0], s_valid};
    if (s_valid || |valid_q) begin
      dst_q <= {dst_q[(WRITE-1)*16-1:0], s_dst};
      tag_q <= {tag_q[(WRITE-1)*3-1:0], s_tag};
      overwrite_q <= {overwrite_q[READ-1:0], s_overwrite};
    end
    if (rst) valid_q <= 0;
  end

  reg [INPUT_TILE_BYTES*8-1:0] input_q;
  always @(posedge clk) if (valid_q[0]) input_q <= input_data;

  wire [ELEMENTS*32-1:0] sums;
  genvar p, b;
  generate
    for (p = 0; p < BLOCK_OUT / 2; p = p + 1) begin : pair
      wire [BATCH*32-1:0] sums_0;
      wire [BATCH*32-1:0] sums_1;
      tw_dot_pair dot (
          .clk,
          .valid(valid_q[3:0]),
          .inputs(input_q),
          .weights_0(weight_data[2*p*BLOCK_IN*8+:BLOCK_IN*8]),
          .weights_1(weight_data[(2*p+1)*BLOCK_IN*8+:BLOCK_IN*8]),
          .sums_0,
          .sums_1
      );
      for (b = 0; b < BATCH; b = b + 1) begin : row
        localparam integer ELEMENT = ((2 * p / SUB_LANES) * BATCH + b) * SUB_LANES
            + 2 * p % SUB_LANES;
        assign sums[ELEMENT*32+:32] = sums_0[b*32+:32];
        assign sums[(ELEMENT+1)*32+:32] = sums_1[b*32+:32];
      end
    end
  endgenerate

  assign read_valid = valid_q[READ-1];
  assign read_address = dst_q[(READ-1)*16+:16];

  // The read comes back in stage READ + 1 and is added in READ + 2 = WRITE - 1.  Two and three
  // uops ahead are in the result registers when the read returns, the uop just ahead when it adds.
  reg [1:0] near_q;  // dst equals that of the uop 2, 3 ahead (for stage READ + 1)
  reg ahead_q;  // dst equals that of the uop just ahead (for stage WRITE - 1)
  reg clear_q;
  wire [15:0] returning = dst_q[READ*16+:16];
  always @(posedge clk) begin
    if (valid_q[READ-1]) begin
      near_q[0] <= valid_q[READ+1] && dst_q[(READ+1)*16+:16] == read_address;
      near_q[1] <= valid_q[READ+2] && dst_q[(READ+2)*16+:16] == read_address;
    end
    if (valid_q[READ]) begin
      ahead_q <= valid_q[READ+1] && dst_q[(READ+1)*16+:16] == returning;
      clear_q <= overwrite_q[READ];
    end
  end

  reg [ELEMENTS*32-1:0] old_q;
  reg [ELEMENTS*32-1:0] result_q;
  reg [ELEMENTS*32-1:0] before_q;
  reg [31:0] base;
  integer e;
  always @(posedge clk) begin
    if (valid_q[READ]) old_q <= near_q[0] ? result_q : near_q[1] ? before_q : read_data;
    if (valid_q[WRITE-1]) before_q <= result_q;
    if (valid_q[WRITE-2])
      for (e = 0; e < ELEMENTS; e = e + 1) begin
        base = clear_q ? 32'd0 : ahead_q ? result_q[e*32+:32] : old_q[e*32+:32];
        result_q[e*32+:32] <= base + sums[e*32+:32];
      end
  end

  assign write_valid = valid_q[WRITE-1];
  assign write_address = dst_q[(WRITE-1)*16+:16];
  assign write_tag = tag_q[(WRITE-1)*3+:3];
  assign write_data = result_q;
  assign active = |valid_q;
endmodule
/* verilator lint_on BLKSEQ */
`default_nettype wire
