`default_nettype none
import tw_pkg::*;

// AXI4-Lite registers (hw/registers.py) and the start, done and error state of the machine.
// One write and one read at a time: a write is answered two cycles after its address and data
// arrived, a read five cycles after its address.
module tw_control (
    input  wire                          clk,
    input  wire                          rst,
    output wire                          irq,
    input  wire [REGISTER_ADDRESS_W-1:0] s_axil_awaddr,
    input  wire                          s_axil_awvalid,
    output wire                          s_axil_awready,
    input  wire [                  31:0] s_axil_wdata,
    input  wire [                   3:0] s_axil_wstrb,
    input  wire                          s_axil_wvalid,
    output wire                          s_axil_wready,
    output wire [                   1:0] s_axil_bresp,
    output reg                           s_axil_bvalid,
    input  wire                          s_axil_bready,
    input  wire [REGISTER_ADDRESS_W-1:0] s_axil_araddr,
    input  wire                          s_axil_arvalid,
    output wire                          s_axil_arready,
    output reg  [                  31:0] s_axil_rdata,
    output wire [                   1:0] s_axil_rresp,
    output reg                           s_axil_rvalid,
    input  wire                          s_axil_rready,
    output wire                          clear,                // resets the core before a run
    output wire                          running,
    output wire                          halt,                 // start nothing new, drain
    output wire [                  31:0] num_instructions,
    output reg  [   NUM_SEGMENTS*64-1:0] segment_base,
    input  wire                          finished,             // FINISH retires
    input  wire                          quiet,                // nothing under way
    input  wire                          fetch_error_valid,
    input  wire [                   7:0] fetch_error_cause,
    input  wire [                  31:0] fetch_error_index,
    input  wire                          load_error_valid,
    input  wire [                  31:0] load_error_index,
    input  wire                          store_error_valid,
    input  wire [                  31:0] store_error_index,
    output wire [REGISTER_ADDRESS_W-3:0] counter_index,
    input  wire [                  31:0] counter_value
);
  localparam integer INDEX_W = REGISTER_ADDRESS_W - 2;
  localparam [INDEX_W-1:0] INDEX_BASES = REG_BASE_CODE[REGISTER_ADDRESS_W-1:2];
  localparam [INDEX_W-1:0] INDEX_SIZES = REG_SIZE_CODE[REGISTER_ADDRESS_W-1:2];
  localparam [7:0] ENGINE_FETCH = 8'd0;
  localparam [7:0] ENGINE_LOAD = 8'd1;
  localparam [7:0] ENGINE_STORE = 8'd3;

  localparam [1:0] STOPPED = 2'd0;
  localparam [1:0] CLEARING = 2'd1;
  localparam [1:0] RUNNING = 2'd2;
  localparam [1:0] HALTING = 2'd3;

  // Writes
  reg address_held_q;
  reg data_held_q;
  reg [INDEX_W-1:0] write_index_q;
  reg [31:0] write_data_q;
  reg [3:0] write_strobe_q;
  wire write = address_held_q && data_held_q && !s_axil_bvalid;

  assign s_axil_awready = !address_held_q;
  assign s_axil_wready = !data_held_q;
  assign s_axil_bresp = 2'b00;
  assign s_axil_rresp = 2'b00;

  always @(posedge clk) begin
    if (s_axil_awvalid && s_axil_awready) begin
      address_held_q <= 1'b1;
      write_index_q  <= s_axil_awaddr[REGISTER_ADDRESS_W-1:2];
    end
    if (s_axil_wvalid && s_axil_wready) begin
      data_held_q <= 1'b1;
      write_data_q <= s_axil_wdata;
      write_strobe_q <= s_axil_wstrb;
    end
    if (s_axil_bready) s_axil_bvalid <= 1'b0;
    if (write) begin
      s_axil_bvalid  <= 1'b1;
      address_held_q <= 1'b0;
      data_held_q <= 1'b0;
    end
    if (rst) begin
      s_axil_bvalid  <= 1'b0;
      address_held_q <= 1'b0;
      data_held_q <= 1'b0;
    end
  end
  wire unused_low = &{1'b0, s_axil_awaddr[1:0], s_axil_araddr[1:0], 1'b0};

  reg [31:0] count_q;
  reg [NUM_SEGMENTS*32-1:0] segment_size_q;
  integer s;
  integer r;
  integer b;
  always @(posedge clk) begin
    if (write)
      for (b = 0; b < 4; b = b + 1)
      if (write_strobe_q[b]) begin
        if (write_index_q == REG_NUM_INSTRUCTIONS[REGISTER_ADDRESS_W-1:2])
          count_q[b*8+:8] <= write_data_q[b*8+:8];
        for (s = 0; s < 2 * NUM_SEGMENTS; s = s + 1)
        if (write_index_q == INDEX_BASES + s[INDEX_W-1:0])
          segment_base[s*32+b*8+:8] <= write_data_q[b*8+:8];
        for (s = 0; s < NUM_SEGMENTS; s = s + 1)
        if (write_index_q == INDEX_SIZES + s[INDEX_W-1:0])
          segment_size_q[s*32+b*8+:8] <= write_data_q[b*8+:8];
      end
    if (rst) begin
      count_q <= 32'd0;
      segment_base <= {NUM_SEGMENTS * 64{1'b0}};
      segment_size_q <= {NUM_SEGMENTS * 32{1'b0}};
    end
  end
  assign num_instructions = count_q;

  // Run state
  wire write_control = write && write_strobe_q[0]
      && write_index_q == REG_CONTROL[REGISTER_ADDRESS_W-1:2];
  wire write_status = write && write_strobe_q[0]
      && write_index_q == REG_STATUS[REGISTER_ADDRESS_W-1:2];
  reg start;
  reg soft_reset;
  reg [1:0] acknowledge;
  always @(posedge clk) begin
    start <= write_control && write_data_q[0] && !rst;
    soft_reset <= write_control && write_data_q[1] && !rst;
    acknowledge <= write_status && !rst ? write_data_q[1:0] : 2'b00;
  end
  wire any_error = fetch_error_valid || load_error_valid || store_error_valid;

  reg [1:0] state_q;
  reg [2:0] clear_count_q;
  reg run_next_q;  // after clearing
  reg done_q;
  reg error_q;
  reg failed_q;  // halted by an error, not by a reset
  reg [7:0] cause_q;
  reg [7:0] engine_q;
  reg [31:0] index_q;

  assign clear = state_q == CLEARING;
  assign running = state_q == RUNNING;
  assign halt = state_q == HALTING;
  assign irq = done_q || error_q;

  always @(posedge clk) begin
    if (acknowledge[0]) done_q <= 1'b0;
    if (acknowledge[1]) error_q <= 1'b0;
    clear_count_q <= clear ? clear_count_q + 3'd1 : 3'd0;
    case (state_q)
      STOPPED:
      if (start || soft_reset) begin
        state_q <= CLEARING;
        run_next_q <= !soft_reset;
        failed_q <= 1'b0;
        cause_q <= ERROR_NONE;
        engine_q <= ENGINE_FETCH;
        index_q <= 32'd0;
        {done_q, error_q} <= 2'b00;
      end
      CLEARING: begin
        if (soft_reset) {run_next_q, failed_q} <= 2'b00;
        if (&clear_count_q) begin
          state_q <= run_next_q && !soft_reset ? RUNNING : STOPPED;
          {done_q, error_q} <= {2{failed_q && !soft_reset}};
        end
      end
      RUNNING:
      if (soft_reset || any_error) begin
        state_q <= HALTING;
        failed_q <= !soft_reset;
        if (!soft_reset) begin
          cause_q <= fetch_error_valid ? fetch_error_cause
              : load_error_valid ? ERROR_READ_RESPONSE : ERROR_WRITE_RESPONSE;
          engine_q <= fetch_error_valid ? ENGINE_FETCH : load_error_valid ? ENGINE_LOAD
              : ENGINE_STORE;
          index_q <= fetch_error_valid ? fetch_error_index
              : load_error_valid ? load_error_index : store_error_index;
        end
      end else if (finished) begin
        state_q <= STOPPED;
        done_q  <= 1'b1;
      end
      HALTING: begin
        if (soft_reset) failed_q <= 1'b0;
        if (quiet) begin
          state_q <= CLEARING;
          run_next_q <= 1'b0;
        end
      end
    endcase
    if (rst) begin
      state_q <= STOPPED;
      {done_q, error_q} <= 2'b00;
      cause_q  <= ERROR_NONE;
      engine_q <= 8'd0;
      index_q  <= 32'd0;
    end
  end

  // Reads: the address is held four cycles, for the counters' pipeline.
  reg [INDEX_W-1:0] read_index_q;
  reg [3:0] read_age_q;
  reg is_counter_q;
  reg [31:0] word_q;  // of the other registers
  reg [31:0] segment_q;
  assign s_axil_arready = read_age_q == 4'd0 && !s_axil_rvalid;
  assign counter_index  = read_index_q;

  always @(posedge clk) begin
    read_age_q <= {read_age_q[2:0], s_axil_arvalid && s_axil_arready};
    if (s_axil_arready) read_index_q <= s_axil_araddr[REGISTER_ADDRESS_W-1:2];
    if (read_age_q[0]) begin
      is_counter_q <= read_index_q >= REG_CYCLES[REGISTER_ADDRESS_W-1:2];
      word_q <= 32'd0;
      segment_q <= 32'd0;
      case (read_index_q)
        REG_ID[REGISTER_ADDRESS_W-1:2]: word_q <= ID_VALUE;
        REG_VERSION[REGISTER_ADDRESS_W-1:2]: word_q <= ISA_VERSION;
        REG_CONFIG_HASH[REGISTER_ADDRESS_W-1:2]: word_q <= CONFIG_HASH[31:0];
        REG_CONFIG_HASH[REGISTER_ADDRESS_W-1:2] + INDEX_W'(1): word_q <= CONFIG_HASH[63:32];
        REG_STATUS[REGISTER_ADDRESS_W-1:2]: word_q <= {29'd0, state_q != STOPPED, error_q, done_q};
        REG_ERROR[REGISTER_ADDRESS_W-1:2]: word_q <= {16'd0, engine_q, cause_q};
        REG_ERROR_INDEX[REGISTER_ADDRESS_W-1:2]: word_q <= index_q;
        REG_NUM_INSTRUCTIONS[REGISTER_ADDRESS_W-1:2]: word_q <= count_q;
        default: ;
      endcase
      for (r = 0; r < 2 * NUM_SEGMENTS; r = r + 1)
      if (read_index_q == INDEX_BASES + r[INDEX_W-1:0]) segment_q <= segment_base[r*32+:32];
      for (r = 0; r < NUM_SEGMENTS; r = r + 1)
      if (read_index_q == INDEX_SIZES + r[INDEX_W-1:0]) segment_q <= segment_size_q[r*32+:32];
    end
    if (s_axil_rready) s_axil_rvalid <= 1'b0;
    if (read_age_q[3]) begin
      s_axil_rvalid <= 1'b1;
      s_axil_rdata  <= is_counter_q ? counter_value : word_q | segment_q;
    end
    if (rst) begin
      s_axil_rvalid <= 1'b0;
      read_age_q <= 4'd0;
    end
  end
endmodule
`default_nettype wire
