`default_nettype none
import tw_pkg::*;

// Accumulator scratchpad: banks by the top address bits, each with one read and one write port.
// Ports: compute reads in the cycle it says (data one cycle later) and writes, both always
// granted; STORE's read is requested STORE_DELAY cycles ahead (data STORE_DELAY + 1 cycles after
// the request), and tw_compute gives way to it when it issues; LOAD's write is refused
// (`load_ready` = 0) while compute writes the same bank.
// Throughput: one read and one write a cycle and bank.
module tw_accumulator (
    input  wire                                clk,
    input  wire                                rst,
    // Compute
    input  wire                                compute_read_valid,
    input  wire [                        15:0] compute_read_address,
    output wire [ACCUMULATOR_TILE_BYTES*8-1:0] compute_read_data,
    input  wire                                compute_write_valid,
    input  wire [                        15:0] compute_write_address,
    input  wire [ACCUMULATOR_TILE_BYTES*8-1:0] compute_write_data,
    // Store
    input  wire                                store_read_valid,
    input  wire [                        15:0] store_read_address,
    output wire [ACCUMULATOR_TILE_BYTES*8-1:0] store_read_data,
    // Load
    input  wire                                load_valid,
    output wire                                load_ready,
    input  wire [                         2:0] load_memory,
    input  wire [                        15:0] load_address,
    input  wire [        MAX_TILE_BYTES*8-1:0] load_data
);
  localparam integer TILE_W = ACCUMULATOR_TILE_BYTES * 8;
  localparam integer ADDRESS_W = $clog2(ACCUMULATOR_DEPTH);
  localparam integer BANK_W = $clog2(ACCUMULATOR_BANKS);
  localparam integer ROW_W = ADDRESS_W - BANK_W;
  localparam integer STORE_DELAY = COMPUTE_READ_STAGE;

  // STORE's requests on their way to the banks, oldest on top.
  reg [STORE_DELAY-1:0] store_valid_q;
  reg [STORE_DELAY*ADDRESS_W-1:0] store_address_q;
  wire store_read = store_valid_q[STORE_DELAY-1];
  wire [ADDRESS_W-1:0] store_address = store_address_q[STORE_DELAY*ADDRESS_W-1-:ADDRESS_W];
  always @(posedge clk) begin
    store_valid_q <= {store_valid_q[STORE_DELAY-2:0], store_read_valid};
    if (store_read_valid || |store_valid_q)
      store_address_q <= {
        store_address_q[(STORE_DELAY-1)*ADDRESS_W-1:0], store_read_address[ADDRESS_W-1:0]
      };
    if (rst) store_valid_q <= 0;
  end

  wire [BANK_W-1:0] compute_read_bank = compute_read_address[ADDRESS_W-1-:BANK_W];
  wire [BANK_W-1:0] compute_write_bank = compute_write_address[ADDRESS_W-1-:BANK_W];
  wire [BANK_W-1:0] store_bank = store_address[ADDRESS_W-1-:BANK_W];
  wire [BANK_W-1:0] load_bank = load_address[ADDRESS_W-1-:BANK_W];

  wire load_here = load_valid && load_memory == MEMORY_ACCUMULATOR;
  wire load_refused = compute_write_valid && compute_write_bank == load_bank;
  assign load_ready = load_memory != MEMORY_ACCUMULATOR || !load_refused;

  wire [ACCUMULATOR_BANKS*TILE_W-1:0] bank_data;
  genvar b;
  generate
    for (b = 0; b < ACCUMULATOR_BANKS; b = b + 1) begin : bank
      wire store_hit = store_read && store_bank == b;
      wire compute_hit = compute_read_valid && compute_read_bank == b;
      wire write_hit = compute_write_valid && compute_write_bank == b;
      wire load_hit = load_here && !load_refused && load_bank == b;
      tw_ram #(
          .WIDTH(TILE_W),
          .DEPTH(ACCUMULATOR_DEPTH / ACCUMULATOR_BANKS)
      ) ram (
          .clk,
          .write(write_hit || load_hit),
          .write_address(write_hit ? compute_write_address[ROW_W-1:0] : load_address[ROW_W-1:0]),
          .write_data(write_hit ? compute_write_data : load_data[TILE_W-1:0]),
          .read(store_hit || compute_hit),
          .read_address(store_hit ? store_address[ROW_W-1:0] : compute_read_address[ROW_W-1:0]),
          .read_data(bank_data[b*TILE_W+:TILE_W])
      );
    end
  endgenerate

  reg [BANK_W-1:0] compute_bank_q;
  reg [BANK_W-1:0] store_bank_q;
  always @(posedge clk) begin
    if (compute_read_valid) compute_bank_q <= compute_read_bank;
    if (store_read) store_bank_q <= store_bank;
  end
  assign compute_read_data = bank_data[compute_bank_q*TILE_W+:TILE_W];
  assign store_read_data = bank_data[store_bank_q*TILE_W+:TILE_W];

  wire unused = &{
    1'b0, compute_read_address, compute_write_address, store_read_address, load_address, load_data
  };
endmodule
`default_nettype wire
