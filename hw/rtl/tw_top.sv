`default_nettype none
import tw_pkg::*;

// The accelerator: AXI4-Lite control, AXI4 memory port, fetch unit and the engines load,
// compute and store, each behind an instruction queue and the token check.
module tw_top (
    input  wire                          clk,
    input  wire                          rst,
    output wire                          irq,
    // AXI4-Lite slave: registers
    input  wire [REGISTER_ADDRESS_W-1:0] s_axil_awaddr,
    input  wire [                   2:0] s_axil_awprot,
    input  wire                          s_axil_awvalid,
    output wire                          s_axil_awready,
    input  wire [                  31:0] s_axil_wdata,
    input  wire [                   3:0] s_axil_wstrb,
    input  wire                          s_axil_wvalid,
    output wire                          s_axil_wready,
    output wire [                   1:0] s_axil_bresp,
    output wire                          s_axil_bvalid,
    input  wire                          s_axil_bready,
    input  wire [REGISTER_ADDRESS_W-1:0] s_axil_araddr,
    input  wire [                   2:0] s_axil_arprot,
    input  wire                          s_axil_arvalid,
    output wire                          s_axil_arready,
    output wire [                  31:0] s_axil_rdata,
    output wire [                   1:0] s_axil_rresp,
    output wire                          s_axil_rvalid,
    input  wire                          s_axil_rready,
    // AXI4 master: memory
    output wire [                   0:0] m_axi_awid,
    output wire [  AXI_ADDRESS_BITS-1:0] m_axi_awaddr,
    output wire [                   7:0] m_axi_awlen,
    output wire [                   2:0] m_axi_awsize,
    output wire [                   1:0] m_axi_awburst,
    output wire                          m_axi_awlock,
    output wire [                   3:0] m_axi_awcache,
    output wire [                   2:0] m_axi_awprot,
    output wire                          m_axi_awvalid,
    input  wire                          m_axi_awready,
    output wire [     AXI_DATA_BITS-1:0] m_axi_wdata,
    output wire [         AXI_BYTES-1:0] m_axi_wstrb,
    output wire                          m_axi_wlast,
    output wire                          m_axi_wvalid,
    input  wire                          m_axi_wready,
    input  wire [                   0:0] m_axi_bid,
    input  wire [                   1:0] m_axi_bresp,
    input  wire                          m_axi_bvalid,
    output wire                          m_axi_bready,
    output wire [                   0:0] m_axi_arid,
    output wire [  AXI_ADDRESS_BITS-1:0] m_axi_araddr,
    output wire [                   7:0] m_axi_arlen,
    output wire [                   2:0] m_axi_arsize,
    output wire [                   1:0] m_axi_arburst,
    output wire                          m_axi_arlock,
    output wire [                   3:0] m_axi_arcache,
    output wire [                   2:0] m_axi_arprot,
    output wire                          m_axi_arvalid,
    input  wire                          m_axi_arready,
    input  wire [                   0:0] m_axi_rid,
    input  wire [     AXI_DATA_BITS-1:0] m_axi_rdata,
    input  wire [                   1:0] m_axi_rresp,
    input  wire                          m_axi_rlast,
    input  wire                          m_axi_rvalid,
    output wire                          m_axi_rready,
    // Trace: one-cycle pulses, bit = engine (load, compute, store)
    output wire [                   2:0] ev_start,
    output wire [                   2:0] ev_retire
);
  localparam [2:0] BEAT_SIZE = 3'($clog2(AXI_BYTES));
  localparam [1:0] INCR = 2'b01;
  localparam [3:0] NORMAL_BUFFERABLE = 4'b0011;

  assign {m_axi_awid, m_axi_arid} = 2'b00;
  assign {m_axi_awsize, m_axi_arsize} = {2{BEAT_SIZE}};
  assign {m_axi_awburst, m_axi_arburst} = {2{INCR}};
  assign {m_axi_awlock, m_axi_arlock} = 2'b00;
  assign {m_axi_awcache, m_axi_arcache} = {2{NORMAL_BUFFERABLE}};
  assign {m_axi_awprot, m_axi_arprot} = 6'b0;
  wire unused_axi = &{1'b0, s_axil_awprot, s_axil_arprot, m_axi_bid, m_axi_rid, 1'b0};

  // Control
  wire clear;
  wire running;
  wire halt;
  wire [31:0] num_instructions;
  wire [NUM_SEGMENTS*64-1:0] segment_base;
  reg finished_q;
  reg quiet_q;
  wire [REGISTER_ADDRESS_W-3:0] counter_index;
  wire [31:0] counter_value;
  wire core_rst = rst || clear;

  // Engines, bit = engine (load, compute, store)
  wire [2:0] dispatch_valid;
  wire [2:0] dispatch_ready;
  wire [INSTRUCTION_BITS-1:0] dispatch_instruction;
  wire fetch_done;
  wire [2:0] head_empty;
  wire [2:0] issue_valid;
  wire [2:0] issue_ready;
  wire [INSTRUCTION_BITS-1:0] load_instruction;
  wire [INSTRUCTION_BITS-1:0] compute_instruction;
  wire [INSTRUCTION_BITS-1:0] store_instruction;
  wire [2:0] taken;
  wire [2:0] token_previous;
  wire [2:0] token_next;
  wire [2:0] pop_previous;
  wire [2:0] pop_next;
  wire [2:0] push_previous;
  wire [2:0] push_next;
  wire [2:0] retire;
  wire [2:0] active;
  wire finish_taken;
  // What each did this cycle, bit = fetch, load, compute, store
  wire [3:0] busy;
  wire [3:0] wait_memory;
  wire [3:0] wait_conflict;
  wire [3:0] wait_dependency;
  wire fetch_error_valid;
  wire [7:0] fetch_error_cause;
  wire [31:0] fetch_error_index;
  wire load_error_valid;
  wire [31:0] load_error_index;
  wire store_error_valid;
  wire [31:0] store_error_index;

  // Reads
  wire fetch_request_valid;
  wire fetch_request_ready;
  wire [AXI_ADDRESS_BITS-1:0] fetch_request_address;
  wire [7:0] fetch_request_length;
  wire load_request_valid;
  wire load_request_ready;
  wire [AXI_ADDRESS_BITS-1:0] load_request_address;
  wire [7:0] load_request_length;
  wire fetch_beat;
  wire load_beat;
  wire beat_valid;
  wire beat_last;
  wire beat_error;
  wire [AXI_DATA_BITS-1:0] beat_data;
  wire read_idle;

  // Scratchpad writes of the load engine
  wire load_valid;
  wire load_ready;
  wire [2:0] load_memory;
  wire [15:0] load_address;
  wire [MAX_TILE_BYTES*8-1:0] load_data;

  // Accumulator ports
  wire compute_read_valid;
  wire [15:0] compute_read_address;
  wire [ACCUMULATOR_TILE_BYTES*8-1:0] compute_read_data;
  wire compute_write_valid;
  wire [15:0] compute_write_address;
  wire [ACCUMULATOR_TILE_BYTES*8-1:0] compute_write_data;
  wire store_read_valid;
  wire [15:0] store_read_address;
  wire [ACCUMULATOR_TILE_BYTES*8-1:0] store_read_data;

  // FINISH retires when nothing is left to do anywhere; that cycle is the last one counted.
  wire drained = read_idle && !fetch_request_valid && active == 3'd0;
  always @(posedge clk) begin
    quiet_q <= drained && taken == 3'd0 && !core_rst;
    finished_q <= finish_taken && drained && fetch_done && head_empty == 3'b111 && !finished_q
        && running && !core_rst;
  end
  assign ev_start = taken;
  assign ev_retire = {retire[2], retire[1] || finished_q, retire[0]};

  tw_control control (
      .clk,
      .rst,
      .irq,
      .s_axil_awaddr,
      .s_axil_awvalid,
      .s_axil_awready,
      .s_axil_wdata,
      .s_axil_wstrb,
      .s_axil_wvalid,
      .s_axil_wready,
      .s_axil_bresp,
      .s_axil_bvalid,
      .s_axil_bready,
      .s_axil_araddr,
      .s_axil_arvalid,
      .s_axil_arready,
      .s_axil_rdata,
      .s_axil_rresp,
      .s_axil_rvalid,
      .s_axil_rready,
      .clear,
      .running,
      .halt,
      .num_instructions,
      .segment_base,
      .finished(finished_q),
      .quiet(quiet_q),
      .fetch_error_valid,
      .fetch_error_cause,
      .fetch_error_index,
      .load_error_valid,
      .load_error_index,
      .store_error_valid,
      .store_error_index,
      .counter_index,
      .counter_value
  );

  tw_counters counters (
      .clk,
      .clear,
      .running,
      .busy,
      .wait_memory,
      .wait_conflict,
      .wait_dependency,
      .retire(ev_retire),
      .read_beat(beat_valid),
      .write_beat(m_axi_wvalid && m_axi_wready),
      .write_strobes(m_axi_wstrb),
      .index(counter_index),
      .value(counter_value)
  );

  tw_fetch fetch (
      .clk,
      .rst(core_rst),
      .running,
      .halt,
      .num_instructions,
      .base(segment_base[AXI_ADDRESS_BITS-1:0]),
      .done(fetch_done),
      .busy(busy[0]),
      .wait_memory(wait_memory[0]),
      .wait_dependency(wait_dependency[0]),
      .error_valid(fetch_error_valid),
      .error_cause(fetch_error_cause),
      .error_index(fetch_error_index),
      .request_valid(fetch_request_valid),
      .request_ready(fetch_request_ready),
      .request_address(fetch_request_address),
      .request_length(fetch_request_length),
      .beat_valid(fetch_beat),
      .beat_last,
      .beat_error,
      .beat_data,
      .m_valid(dispatch_valid),
      .m_ready(dispatch_ready),
      .m_instruction(dispatch_instruction)
  );
  assign wait_conflict[0] = 1'b0;

  tw_read_arbiter read_arbiter (
      .clk,
      .rst,
      .fetch_valid(fetch_request_valid),
      .fetch_ready(fetch_request_ready),
      .fetch_address(fetch_request_address),
      .fetch_length(fetch_request_length),
      .fetch_beat,
      .load_valid(load_request_valid),
      .load_ready(load_request_ready),
      .load_address(load_request_address),
      .load_length(load_request_length),
      .load_beat,
      .beat_data,
      .beat_last,
      .beat_error,
      .beat_valid,
      .idle(read_idle),
      .m_axi_arvalid,
      .m_axi_arready,
      .m_axi_araddr,
      .m_axi_arlen,
      .m_axi_rvalid,
      .m_axi_rready,
      .m_axi_rdata,
      .m_axi_rresp,
      .m_axi_rlast
  );

  tw_tokens tokens (
      .clk,
      .rst(core_rst),
      .push_previous,
      .push_next,
      .pop_previous,
      .pop_next,
      .token_previous,
      .token_next
  );

  tw_issue load_issue (
      .clk,
      .rst(core_rst),
      .halt,
      .s_valid(dispatch_valid[0]),
      .s_ready(dispatch_ready[0]),
      .s_instruction(dispatch_instruction),
      .m_valid(issue_valid[0]),
      .m_ready(issue_ready[0]),
      .m_instruction(load_instruction),
      .token_previous(token_previous[0]),
      .token_next(token_next[0]),
      .pop_previous(pop_previous[0]),
      .pop_next(pop_next[0]),
      .taken(taken[0]),
      .wait_dependency(wait_dependency[1]),
      .empty(head_empty[0])
  );

  tw_issue compute_issue (
      .clk,
      .rst(core_rst),
      .halt,
      .s_valid(dispatch_valid[1]),
      .s_ready(dispatch_ready[1]),
      .s_instruction(dispatch_instruction),
      .m_valid(issue_valid[1]),
      .m_ready(issue_ready[1]),
      .m_instruction(compute_instruction),
      .token_previous(token_previous[1]),
      .token_next(token_next[1]),
      .pop_previous(pop_previous[1]),
      .pop_next(pop_next[1]),
      .taken(taken[1]),
      .wait_dependency(wait_dependency[2]),
      .empty(head_empty[1])
  );

  tw_issue store_issue (
      .clk,
      .rst(core_rst),
      .halt,
      .s_valid(dispatch_valid[2]),
      .s_ready(dispatch_ready[2]),
      .s_instruction(dispatch_instruction),
      .m_valid(issue_valid[2]),
      .m_ready(issue_ready[2]),
      .m_instruction(store_instruction),
      .token_previous(token_previous[2]),
      .token_next(token_next[2]),
      .pop_previous(pop_previous[2]),
      .pop_next(pop_next[2]),
      .taken(taken[2]),
      .wait_dependency(wait_dependency[3]),
      .empty(head_empty[2])
  );

  tw_load load (
      .clk,
      .rst(core_rst),
      .segment_base,
      .s_valid(issue_valid[0]),
      .s_ready(issue_ready[0]),
      .s_instruction(load_instruction),
      .push_previous(push_previous[0]),
      .push_next(push_next[0]),
      .retire(retire[0]),
      .busy(busy[1]),
      .wait_memory(wait_memory[1]),
      .wait_conflict(wait_conflict[1]),
      .active(active[0]),
      .request_valid(load_request_valid),
      .request_ready(load_request_ready),
      .request_address(load_request_address),
      .request_length(load_request_length),
      .beat_valid(load_beat),
      .beat_last,
      .beat_error,
      .beat_data,
      .load_valid,
      .load_ready,
      .load_memory,
      .load_address,
      .load_data,
      .error_valid(load_error_valid),
      .error_index(load_error_index)
  );

  tw_compute compute (
      .clk,
      .rst(core_rst),
      .s_valid(issue_valid[1]),
      .s_ready(issue_ready[1]),
      .s_instruction(compute_instruction),
      .push_previous(push_previous[1]),
      .push_next(push_next[1]),
      .retire(retire[1]),
      .busy(busy[2]),
      .wait_memory(wait_memory[2]),
      .wait_conflict(wait_conflict[2]),
      .active(active[1]),
      .finish_taken,
      .load_valid,
      .load_memory,
      .load_address,
      .load_data,
      .store_read_valid,
      .store_read_address,
      .accumulator_read_valid(compute_read_valid),
      .accumulator_read_address(compute_read_address),
      .accumulator_read_data(compute_read_data),
      .accumulator_write_valid(compute_write_valid),
      .accumulator_write_address(compute_write_address),
      .accumulator_write_data(compute_write_data)
  );

  tw_accumulator accumulator (
      .clk,
      .rst(core_rst),
      .compute_read_valid,
      .compute_read_address,
      .compute_read_data,
      .compute_write_valid,
      .compute_write_address,
      .compute_write_data,
      .store_read_valid,
      .store_read_address,
      .store_read_data,
      .load_valid,
      .load_ready,
      .load_memory,
      .load_address,
      .load_data
  );

  tw_store store (
      .clk,
      .rst(core_rst),
      .segment_base,
      .s_valid(issue_valid[2]),
      .s_ready(issue_ready[2]),
      .s_instruction(store_instruction),
      .push_previous(push_previous[2]),
      .push_next(push_next[2]),
      .retire(retire[2]),
      .busy(busy[3]),
      .wait_memory(wait_memory[3]),
      .wait_conflict(wait_conflict[3]),
      .active(active[2]),
      .load_valid,
      .load_memory,
      .load_address,
      .load_data,
      .store_read_valid,
      .store_read_address,
      .store_read_data,
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
      .m_axi_bready,
      .error_valid(store_error_valid),
      .error_index(store_error_index)
  );
endmodule
`default_nettype wire
