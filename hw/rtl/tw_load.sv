`default_nettype none
import tw_pkg::*;

// Load engine: takes LOAD instructions, keeps read bursts in flight, writes scratchpad tiles.
// Requests of a LOAD may leave while earlier LOADs still write.  Latency and throughput:
// docs/timing.md.  Backpressure: `load_ready` (accumulator refused) stalls the writer, the
// credit for the data FIFO stalls the requests; read beats are never refused.
module tw_load (
    input  wire                        clk,
    input  wire                        rst,
    input  wire [ NUM_SEGMENTS*64-1:0] segment_base,
    // Engine
    input  wire                        s_valid,
    output wire                        s_ready,
    input  wire [INSTRUCTION_BITS-1:0] s_instruction,
    output wire                        push_previous,
    output wire                        push_next,
    output wire                        retire,
    output wire                        busy,
    output wire                        wait_memory,
    output wire                        wait_conflict,
    output wire                        active,
    // Read requests and beats
    output wire                        request_valid,
    input  wire                        request_ready,
    output wire [AXI_ADDRESS_BITS-1:0] request_address,
    output wire [                 7:0] request_length,   // beats - 1
    input  wire                        beat_valid,
    input  wire                        beat_last,
    input  wire                        beat_error,
    input  wire [   AXI_DATA_BITS-1:0] beat_data,
    // Scratchpad writes
    output wire                        load_valid,
    input  wire                        load_ready,
    output wire [                 2:0] load_memory,
    output wire [                15:0] load_address,
    output wire [MAX_TILE_BYTES*8-1:0] load_data,
    // A beat of this instruction came with an error response
    output wire                        error_valid,
    output wire [                31:0] error_index
);
  localparam integer FIFO = LOAD_FIFO_BEATS;
  localparam integer CREDIT_W = $clog2(FIFO) + 1;
  localparam integer OUTSTANDING_W = $clog2(AXI_OUTSTANDING + 1);
  localparam integer LONGEST = AXI_BURST_BEATS < 4096 / AXI_BYTES ? AXI_BURST_BEATS
      : 4096 / AXI_BYTES;

  // An instruction goes to both halves at once.
  wire rows_ready;
  wire writer_ready;
  wire take = s_valid && rows_ready && writer_ready;
  assign s_ready = rows_ready && writer_ready;

  // Requests: only with room for a longest burst, and within the limit of bursts under way.
  wire burst_valid;
  reg [CREDIT_W-1:0] credit_q;
  reg [OUTSTANDING_W-1:0] outstanding_q;
  wire [CREDIT_W-1:0] burst_beats = CREDIT_W'(request_length) + 1'b1;
  wire allowed = credit_q >= CREDIT_W'(LONGEST)
      && outstanding_q != OUTSTANDING_W'(AXI_OUTSTANDING);
  wire requested = request_valid && request_ready;
  assign request_valid = burst_valid && allowed;

  wire fifo_valid;
  wire fifo_room;
  wire [AXI_DATA_BITS:0] fifo_data;
  wire beat_taken;
  reg beat_valid_q;
  reg beat_error_q;
  reg [AXI_DATA_BITS-1:0] beat_data_q;
  wire fifo_pop = fifo_valid && (!beat_valid_q || beat_taken);

  always @(posedge clk) begin
    credit_q <= credit_q + CREDIT_W'(fifo_pop) - (requested ? burst_beats : CREDIT_W'(0));
    if (requested != (beat_valid && beat_last))
      outstanding_q <= requested ? outstanding_q + 1'b1 : outstanding_q - 1'b1;
    if (fifo_pop) {beat_error_q, beat_data_q} <= fifo_data;
    if (!beat_valid_q || beat_taken) beat_valid_q <= fifo_valid;
    if (rst) begin
      credit_q <= CREDIT_W'(FIFO);
      outstanding_q <= 0;
      beat_valid_q <= 1'b0;
    end
  end

  tw_load_rows rows (
      .clk,
      .rst,
      .segment_base,
      .s_valid(take),
      .s_ready(rows_ready),
      .s_instruction,
      .m_valid(burst_valid),
      .m_ready(request_ready && allowed),
      .m_address(request_address),
      .m_length(request_length)
  );

  tw_fifo #(
      .WIDTH(AXI_DATA_BITS + 1),
      .DEPTH(FIFO)
  ) beats (
      .clk,
      .rst,
      .s_valid(beat_valid),
      .s_ready(fifo_room),
      .s_data ({beat_error, beat_data}),
      .m_valid(fifo_valid),
      .m_ready(fifo_pop),
      .m_data (fifo_data)
  );
  wire unused_room = &{1'b0, fifo_room, 1'b0};  // reserved before the request

  wire step;
  tw_load_writer writer (
      .clk,
      .rst,
      .s_valid(take),
      .s_ready(writer_ready),
      .s_instruction,
      .beat_valid(beat_valid_q),
      .beat_ready(beat_taken),
      .beat_data(beat_data_q),
      .beat_error(beat_error_q),
      .load_valid,
      .load_ready,
      .load_memory,
      .load_address,
      .load_data,
      .push_previous,
      .push_next,
      .retire,
      .step,
      .active,
      .error_valid,
      .error_index
  );
  assign busy = step || (load_valid && load_ready);
  assign wait_conflict = load_valid && !load_ready;
  assign wait_memory = active && !retire && !busy && !wait_conflict;
endmodule
`default_nettype wire
