`default_nettype none
// Self-checking test bench: loads a program image, starts the accelerator over AXI4-Lite, serves
// its AXI4 port from a memory with latency, and compares the output with the expected bytes.
module tw_bench;
  import tw_pkg::*;
  import tw_image_pkg::*;

  localparam integer LATENCY = 20;
  localparam integer TIMEOUT_CYCLES = 20000;

  reg clk = 1'b0;
  reg rst = 1'b1;
  always #5 clk = !clk;

  reg [7:0] dram[0:DRAM_BYTES-1];
  reg [7:0] expected[0:OUTPUT_BYTES-1];

  reg [REGISTER_ADDRESS_W-1:0] awaddr = 0;
  reg awvalid = 1'b0;
  wire awready;
  reg [31:0] wdata = 0;
  reg wvalid = 1'b0;
  wire wready;
  wire bvalid;
  wire [1:0] bresp;
  reg [REGISTER_ADDRESS_W-1:0] araddr = 0;
  reg arvalid = 1'b0;
  wire arready;
  wire [31:0] rdata;
  wire [1:0] rresp;
  wire rvalid;

  wire [AXI_ADDRESS_BITS-1:0] m_awaddr;
  wire [7:0] m_awlen;
  wire m_awvalid;
  reg m_awready = 1'b0;
  wire [AXI_DATA_BITS-1:0] m_wdata;
  wire [AXI_BYTES-1:0] m_wstrb;
  wire m_wlast;
  wire m_wvalid;
  reg m_wready = 1'b0;
  reg m_bvalid = 1'b0;
  wire m_bready;
  wire [AXI_ADDRESS_BITS-1:0] m_araddr;
  wire [7:0] m_arlen;
  wire m_arvalid;
  reg m_arready = 1'b0;
  reg [AXI_DATA_BITS-1:0] m_rdata = 0;
  reg m_rlast = 1'b0;
  reg m_rvalid = 1'b0;
  wire m_rready;

  tw_top dut (
      .clk(clk),
      .rst(rst),
      .irq(),
      .s_axil_awaddr(awaddr),
      .s_axil_awprot(3'b0),
      .s_axil_awvalid(awvalid),
      .s_axil_awready(awready),
      .s_axil_wdata(wdata),
      .s_axil_wstrb(4'hf),
      .s_axil_wvalid(wvalid),
      .s_axil_wready(wready),
      .s_axil_bresp(bresp),
      .s_axil_bvalid(bvalid),
      .s_axil_bready(1'b1),
      .s_axil_araddr(araddr),
      .s_axil_arprot(3'b0),
      .s_axil_arvalid(arvalid),
      .s_axil_arready(arready),
      .s_axil_rdata(rdata),
      .s_axil_rresp(rresp),
      .s_axil_rvalid(rvalid),
      .s_axil_rready(1'b1),
      .m_axi_awid(),
      .m_axi_awaddr(m_awaddr),
      .m_axi_awlen(m_awlen),
      .m_axi_awsize(),
      .m_axi_awburst(),
      .m_axi_awlock(),
      .m_axi_awcache(),
      .m_axi_awprot(),
      .m_axi_awvalid(m_awvalid),
      .m_axi_awready(m_awready),
      .m_axi_wdata(m_wdata),
      .m_axi_wstrb(m_wstrb),
      .m_axi_wlast(m_wlast),
      .m_axi_wvalid(m_wvalid),
      .m_axi_wready(m_wready),
      .m_axi_bid(1'b0),
      .m_axi_bresp(2'b0),
      .m_axi_bvalid(m_bvalid),
      .m_axi_bready(m_bready),
      .m_axi_arid(),
      .m_axi_araddr(m_araddr),
      .m_axi_arlen(m_arlen),
      .m_axi_arsize(),
      .m_axi_arburst(),
      .m_axi_arlock(),
      .m_axi_arcache(),
      .m_axi_arprot(),
      .m_axi_arvalid(m_arvalid),
      .m_axi_arready(m_arready),
      .m_axi_rid(1'b0),
      .m_axi_rdata(m_rdata),
      .m_axi_rresp(2'b0),
      .m_axi_rlast(m_rlast),
      .m_axi_rvalid(m_rvalid),
      .m_axi_rready(m_rready),
      .ev_start(),
      .ev_retire()
  );

  // Memory, reads: one burst at a time, the first beat LATENCY cycles after its address.
  integer read_address = 0;
  integer read_beats = 0;
  integer read_wait = 0;
  integer lane;
  always @(posedge clk) begin
    m_arready <= 1'b0;
    if (m_rvalid && m_rready) m_rvalid <= 1'b0;
    if (read_beats == 0) begin
      if (m_arvalid && !m_arready) begin
        m_arready <= 1'b1;
        read_address <= m_araddr;
        read_beats <= {24'd0, m_arlen} + 1;
        read_wait <= LATENCY;
      end
    end else if (read_wait != 0) begin
      read_wait <= read_wait - 1;
    end else if (!m_rvalid || m_rready) begin
      for (lane = 0; lane < AXI_BYTES; lane = lane + 1)
        m_rdata[8*lane+:8] <= dram[read_address+lane];
      m_rvalid <= 1'b1;
      m_rlast <= read_beats == 1;
      read_address <= read_address + AXI_BYTES;
      read_beats <= read_beats - 1;
    end
  end

  // Memory, writes: one burst at a time, its response LATENCY cycles after the last beat.
  integer write_address = 0;
  integer write_wait = 0;
  reg writing = 1'b0;
  reg answering = 1'b0;
  integer byte_lane;
  always @(posedge clk) begin
    m_awready <= 1'b0;
    if (m_bvalid && m_bready) m_bvalid <= 1'b0;
    if (answering) begin
      if (write_wait != 0) write_wait <= write_wait - 1;
      else if (!m_bvalid) begin
        m_bvalid <= 1'b1;
        answering <= 1'b0;
      end
    end else if (!writing) begin
      if (m_awvalid && !m_awready) begin
        m_awready <= 1'b1;
        write_address <= m_awaddr;
        writing <= 1'b1;
        m_wready <= 1'b1;
      end
    end else if (m_wvalid && m_wready) begin
      for (byte_lane = 0; byte_lane < AXI_BYTES; byte_lane = byte_lane + 1)
        if (m_wstrb[byte_lane]) dram[write_address+byte_lane] <= m_wdata[8*byte_lane+:8];
      write_address <= write_address + AXI_BYTES;
      if (m_wlast) begin
        m_wready <= 1'b0;
        writing <= 1'b0;
        answering <= 1'b1;
        write_wait <= LATENCY;
      end
    end
  end

  // The registers' side acts on falling edges, half a cycle away from what it reads.
  reg address_taken;
  reg data_taken;
  task write_register(input [REGISTER_ADDRESS_W-1:0] address, input [31:0] data);
    begin
      awaddr  = address;
      wdata   = data;
      awvalid = 1'b1;
      wvalid  = 1'b1;
      while (awvalid || wvalid) begin
        address_taken = awready;
        data_taken = wready;
        @(negedge clk);
        if (address_taken) awvalid = 1'b0;
        if (data_taken) wvalid = 1'b0;
      end
      while (!bvalid) @(negedge clk);
    end
  endtask

  reg [31:0] value;
  task read_register(input [REGISTER_ADDRESS_W-1:0] address);
    begin
      araddr  = address;
      arvalid = 1'b1;
      while (!arready) @(negedge clk);
      @(negedge clk);
      arvalid = 1'b0;
      while (!rvalid) @(negedge clk);
      value = rdata;
      @(negedge clk);
    end
  endtask

  integer cycle = 0;
  always @(posedge clk) begin
    cycle <= cycle + 1;
    if (cycle == TIMEOUT_CYCLES) begin
      $display("FAIL: not done after %0d cycles", TIMEOUT_CYCLES);
      $fatal;
    end
  end

  integer index;
  integer wrong;
  initial begin
    $readmemh("dram.hex", dram);
    $readmemh("expected.hex", expected);
    repeat (10) @(negedge clk);
    rst = 1'b0;
    repeat (4) @(negedge clk);
    read_register(REG_CONFIG_HASH);
    if (value != CONFIG_HASH[31:0]) begin
      $display("FAIL: config hash %h, expected %h", value, CONFIG_HASH[31:0]);
      $fatal;
    end
    write_register(REG_NUM_INSTRUCTIONS, NUM_INSTRUCTIONS);
    write_register(REG_BASE_CODE, CODE_BASE);
    write_register(REG_SIZE_CODE, CODE_BYTES);
    write_register(REG_BASE_CONSTANTS, CONSTANTS_BASE);
    write_register(REG_SIZE_CONSTANTS, CONSTANTS_BYTES);
    write_register(REG_BASE_OUTPUT, OUTPUT_BASE);
    write_register(REG_SIZE_OUTPUT, OUTPUT_BYTES);
    write_register(REG_CONTROL, 1);
    value = 0;
    while (!value[0]) read_register(REG_STATUS);
    if (value[1]) begin
      $display("FAIL: the machine stopped with an error, status %h", value);
      $fatal;
    end
    wrong = 0;
    for (index = 0; index < OUTPUT_BYTES; index = index + 1)
      if (dram[OUTPUT_BASE+index] !== expected[index]) begin
        if (wrong == 0)
          $display("output byte %0d is %h, expected %h", index, dram[OUTPUT_BASE+index],
                   expected[index]);
        wrong = wrong + 1;
      end
    read_register(REG_CYCLES);
    if (wrong != 0) begin
      $display("FAIL: %0d of %0d output bytes differ", wrong, OUTPUT_BYTES);
      $fatal;
    end
    $display("PASS: %0d output bytes equal, %0d cycles", OUTPUT_BYTES, value);
    $finish;
  end
endmodule
`default_nettype wire
