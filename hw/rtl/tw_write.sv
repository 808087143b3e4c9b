`default_nettype none
import tw_pkg::*;

// AXI4 write master: sends bursts of buffered beats and reports their responses in order.
// Latency: a burst given in cycle t shows AWVALID in t + 3 at the earliest and its first WVALID
// one cycle after that.  Throughput: one beat a cycle, no bubble between bursts that are
// launched in time.  Backpressure: none to the source, which must respect DEPTH; at most
// AXI_OUTSTANDING bursts await their response.
module tw_write #(
    parameter integer DEPTH = 64  // beats buffered
) (
    input  wire                         clk,
    input  wire                         rst,
    input  wire [   NUM_SEGMENTS*64-1:0] segment_base,
    // Beats, in order, and bursts, each with or after its last beat
    input  wire                         beat_valid,
    input  wire [     AXI_DATA_BITS-1:0] beat_data,
    input  wire [         AXI_BYTES-1:0] beat_strobe,
    input  wire                         beat_last,
    output wire                         beat_freed,     // a beat left the buffer
    input  wire                         burst_valid,
    input  wire [                   31:0] burst_offset,   // in the segment
    input  wire [                    7:0] burst_length,   // beats - 1
    input  wire [                    3:0] burst_segment,
    input  wire [                    2:0] burst_tag,
    // Responses
    output wire                         response_valid,
    output wire                         response_error,
    output wire [                    2:0] response_tag,
    // AXI
    output reg  [  AXI_ADDRESS_BITS-1:0] m_axi_awaddr,
    output reg  [                    7:0] m_axi_awlen,
    output reg                          m_axi_awvalid,
    input  wire                         m_axi_awready,
    output wire [     AXI_DATA_BITS-1:0] m_axi_wdata,
    output wire [         AXI_BYTES-1:0] m_axi_wstrb,
    output wire                         m_axi_wlast,
    output reg                          m_axi_wvalid,
    input  wire                         m_axi_wready,
    input  wire [                    1:0] m_axi_bresp,
    input  wire                         m_axi_bvalid,
    output wire                         m_axi_bready
);
  localparam integer INDEX_W = $clog2(DEPTH);
  localparam integer BURST_W = 32 + 8 + 4 + 3;
  localparam integer TAGS = AXI_OUTSTANDING > 1 ? 1 << $clog2(AXI_OUTSTANDING) : 2;
  localparam [1:0] OKAY = 2'b00;

  // Addresses: base + offset, low word first.
  wire waiting;
  wire [31:0] waiting_offset;
  wire [7:0] waiting_length;
  wire [3:0] waiting_segment;
  wire [2:0] waiting_tag;
  wire accept;
  wire unused_burst_ready;
  wire unused_tag_ready;
  wire unused_tag_valid;
  tw_fifo #(
      .WIDTH(BURST_W),
      .DEPTH(DEPTH)
  ) bursts (
      .clk,
      .rst,
      .s_valid(burst_valid),
      .s_ready(unused_burst_ready),
      .s_data ({burst_offset, burst_length, burst_segment, burst_tag}),
      .m_valid(waiting),
      .m_ready(accept),
      .m_data ({waiting_offset, waiting_length, waiting_segment, waiting_tag})
  );

  reg low_valid_q;
  reg [32:0] low_q;
  reg [31:0] high_q;
  reg [7:0] length_q;
  reg [5:0] outstanding_q;
  wire launch = low_valid_q && (!m_axi_awvalid || m_axi_awready);
  wire [63:0] address = {high_q + 32'(low_q[32]), low_q[31:0]};
  wire [63:0] base = segment_base[waiting_segment*64+:64];
  assign accept = waiting && (!low_valid_q || launch) && outstanding_q != 6'(AXI_OUTSTANDING);

  always @(posedge clk) begin
    if (accept) begin
      low_q <= 33'(base[31:0]) + 33'(waiting_offset);
      high_q <= base[63:32];
      length_q <= waiting_length;
    end
    if (!low_valid_q || launch) low_valid_q <= accept;
    if (launch) begin
      m_axi_awaddr <= address[AXI_ADDRESS_BITS-1:0];
      m_axi_awlen  <= length_q;
    end
    if (!m_axi_awvalid || m_axi_awready) m_axi_awvalid <= launch;
    outstanding_q <= outstanding_q + 6'(accept) - 6'(m_axi_bvalid);
    if (rst) begin
      low_valid_q <= 1'b0;
      m_axi_awvalid <= 1'b0;
      outstanding_q <= 6'd0;
    end
  end

  // Data: the buffer's read register is the W channel.
  reg [INDEX_W-1:0] written_q;
  reg [INDEX_W-1:0] read_q;
  reg [INDEX_W:0] launched_q;  // beats launched and not yet read
  wire read = launched_q != 0 && (!m_axi_wvalid || m_axi_wready);
  assign beat_freed = m_axi_wvalid && m_axi_wready;
  tw_ram #(
      .WIDTH(1 + AXI_BYTES + AXI_DATA_BITS),
      .DEPTH(DEPTH)
  ) beats (
      .clk,
      .write(beat_valid),
      .write_address(written_q),
      .write_data({beat_last, beat_strobe, beat_data}),
      .read,
      .read_address(read_q),
      .read_data({m_axi_wlast, m_axi_wstrb, m_axi_wdata})
  );
  always @(posedge clk) begin
    if (beat_valid) written_q <= written_q + 1'b1;
    if (read) read_q <= read_q + 1'b1;
    if (!m_axi_wvalid || m_axi_wready) m_axi_wvalid <= read;
    launched_q <= launched_q + (launch ? (INDEX_W + 1)'(length_q) + 1'b1 : 0)
        - (INDEX_W + 1)'(read);
    if (rst) begin
      written_q <= 0;
      read_q <= 0;
      launched_q <= 0;
      m_axi_wvalid <= 1'b0;
    end
  end

  // Responses come in order of the bursts.
  tw_fifo #(
      .WIDTH(3),
      .DEPTH(TAGS)
  ) tags (
      .clk,
      .rst,
      .s_valid(accept),
      .s_ready(unused_tag_ready),
      .s_data (waiting_tag),
      .m_valid(unused_tag_valid),
      .m_ready(m_axi_bvalid),
      .m_data (response_tag)
  );
  assign m_axi_bready = 1'b1;
  assign response_valid = m_axi_bvalid;
  assign response_error = m_axi_bvalid && m_axi_bresp != OKAY;

  wire unused = &{
    1'b0, unused_burst_ready, unused_tag_ready, unused_tag_valid, address, base, 1'b0
  };
endmodule
`default_nettype wire
