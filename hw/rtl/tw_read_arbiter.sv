`default_nettype none
import tw_pkg::*;

// Shares the AXI read channels between fetch (first) and load.
// Latency: a granted request is on AR in the next cycle; a beat reaches its owner one cycle
// after R.  Throughput: one grant and one beat a cycle.  Backpressure: AR stalls the grants;
// clients reserve room before they ask, so that RREADY is always 1.
module tw_read_arbiter (
    input  wire                        clk,
    input  wire                        rst,
    input  wire                        fetch_valid,
    output wire                        fetch_ready,
    input  wire [AXI_ADDRESS_BITS-1:0] fetch_address,
    input  wire [                 7:0] fetch_length,    // beats - 1
    output wire                        fetch_beat,
    input  wire                        load_valid,
    output wire                        load_ready,
    input  wire [AXI_ADDRESS_BITS-1:0] load_address,
    input  wire [                 7:0] load_length,
    output wire                        load_beat,
    output reg  [   AXI_DATA_BITS-1:0] beat_data,
    output reg                         beat_last,
    output reg                         beat_error,
    output reg                         beat_valid,      // of either owner
    output wire                        idle,            // nothing asked for or under way
    output reg                         m_axi_arvalid,
    input  wire                        m_axi_arready,
    output reg  [AXI_ADDRESS_BITS-1:0] m_axi_araddr,
    output reg  [                 7:0] m_axi_arlen,
    input  wire                        m_axi_rvalid,
    output wire                        m_axi_rready,
    input  wire [   AXI_DATA_BITS-1:0] m_axi_rdata,
    input  wire [                 1:0] m_axi_rresp,
    input  wire                        m_axi_rlast
);
  // Room for the load engine's bursts and two of the fetch unit.
  localparam integer OWNERS = 1 << $clog2(AXI_OUTSTANDING + 2);

  wire grant = !m_axi_arvalid || m_axi_arready;
  wire granted = grant && (fetch_valid || load_valid);
  wire owner_valid;
  wire owner_is_fetch;
  wire owner_room;

  assign fetch_ready = grant;
  assign load_ready = grant && !fetch_valid;
  assign m_axi_rready = 1'b1;
  assign fetch_beat = beat_valid && owner_is_fetch;
  assign load_beat = beat_valid && !owner_is_fetch;
  assign idle = !m_axi_arvalid && !owner_valid;

  tw_fifo #(
      .WIDTH(1),
      .DEPTH(OWNERS)
  ) owners (
      .clk,
      .rst,
      .s_valid(granted),
      .s_ready(owner_room),
      .s_data (fetch_valid),
      .m_valid(owner_valid),
      .m_ready(beat_valid && beat_last),
      .m_data (owner_is_fetch)
  );
  wire unused_room = &{1'b0, owner_room, 1'b0};  // the clients' limits keep it from filling

  always @(posedge clk) begin
    if (grant) m_axi_arvalid <= granted;
    if (granted) begin
      m_axi_araddr <= fetch_valid ? fetch_address : load_address;
      m_axi_arlen  <= fetch_valid ? fetch_length : load_length;
    end
    beat_valid <= m_axi_rvalid;
    if (m_axi_rvalid) begin
      beat_data  <= m_axi_rdata;
      beat_last  <= m_axi_rlast;
      beat_error <= m_axi_rresp != 2'b00;
    end
    if (rst) begin
      m_axi_arvalid <= 1'b0;
      beat_valid <= 1'b0;
    end
  end
endmodule
`default_nettype wire
