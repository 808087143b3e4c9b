`default_nettype none
import tw_pkg::*;

// Reads the code segment in order and dispatches its instructions to the three queues.
// Latency: an instruction's last beat received in cycle t is dispatched in t + 2 at the
// earliest.  Throughput: one instruction a cycle, or one beat a cycle if that is slower.
// Backpressure: a full target queue stalls dispatch; a burst is requested only when the FIFO
// has room for a whole one, with two of them outstanding at most.
module tw_fetch (
    input  wire                        clk,
    input  wire                        rst,               // also takes the start address
    input  wire                        running,
    input  wire                        halt,              // request and dispatch nothing more
    input  wire [                31:0] num_instructions,
    input  wire [AXI_ADDRESS_BITS-1:0] base,
    output wire                        done,              // every instruction is dispatched
    output wire                        busy,
    output wire                        wait_memory,
    output wire                        wait_dependency,
    output wire                        error_valid,
    output wire [                 7:0] error_cause,
    output wire [                31:0] error_index,
    output wire                        request_valid,
    input  wire                        request_ready,
    output wire [AXI_ADDRESS_BITS-1:0] request_address,
    output wire [                 7:0] request_length,    // beats - 1
    input  wire                        beat_valid,
    input  wire                        beat_last,
    input  wire                        beat_error,
    input  wire [   AXI_DATA_BITS-1:0] beat_data,
    output wire [                 2:0] m_valid,           // bit: the target's queue
    input  wire [                 2:0] m_ready,
    output wire [INSTRUCTION_BITS-1:0] m_instruction
);
  localparam integer INSTRUCTION_BYTES = INSTRUCTION_BITS / 8;
  localparam integer LOG2_AXI = $clog2(AXI_BYTES);
  localparam integer BURST = FETCH_BURST_BEATS;
  localparam integer LOG2_BURST = $clog2(BURST);
  localparam integer FIFO_BEATS = 2 * BURST;
  localparam integer BEATS_W = 38 - LOG2_AXI;  // 2^32 instructions of 32 bytes, rounded up
  localparam integer ROOM_W = $clog2(FIFO_BEATS) + 1;
  localparam integer PAGE_W = AXI_ADDRESS_BITS - LOG2_AXI - LOG2_BURST;

  // Requests: bursts are aligned to their size, so that none crosses 4 KiB.
  reg [BEATS_W-1:0] beats_q;  // still to request
  reg [PAGE_W-1:0] burst_address_q;
  reg [ROOM_W-1:0] room_q;
  reg [1:0] outstanding_q;

  reg request_valid_q;
  reg [PAGE_W-1:0] request_address_q;
  reg [7:0] request_length_q;
  reg more_q;  // beats are left; low for a cycle after a request

  wire [BEATS_W-1:0] all_beats = BEATS_W'(({6'd0, num_instructions, 5'd0} + 43'(AXI_BYTES - 1))
      >> LOG2_AXI);
  reg whole_q;  // a whole burst is left, when `more_q`
  wire request = (!request_valid_q || request_ready) && running && !halt && more_q
      && room_q >= ROOM_W'(BURST) && !outstanding_q[1];
  wire fifo_pop;

  assign request_valid = request_valid_q;
  assign request_address = {request_address_q, {LOG2_AXI + LOG2_BURST{1'b0}}};
  assign request_length = request_length_q;

  always @(posedge clk) begin
    if (!request_valid_q || request_ready) request_valid_q <= request;
    if (request) begin
      request_address_q <= burst_address_q;
      request_length_q <= whole_q ? 8'(BURST - 1) : 8'(beats_q - 1'b1);
      beats_q <= whole_q ? beats_q - BEATS_W'(BURST) : BEATS_W'(0);
      burst_address_q <= burst_address_q + 1'b1;
    end
    more_q <= beats_q != 0 && !request;
    whole_q <= |beats_q[BEATS_W-1:LOG2_BURST];
    room_q <= room_q + ROOM_W'(fifo_pop) - (request ? ROOM_W'(BURST) : ROOM_W'(0));
    outstanding_q <= outstanding_q + 2'(request) - 2'(beat_valid && beat_last);
    if (rst) begin
      request_valid_q <= 1'b0;
      beats_q <= all_beats;
      more_q <= num_instructions != 32'd0;
      burst_address_q <= base[AXI_ADDRESS_BITS-1-:PAGE_W];
      room_q <= ROOM_W'(FIFO_BEATS);
      outstanding_q <= 2'd0;
    end
  end
  wire unused_base = &{1'b0, base[LOG2_AXI+LOG2_BURST-1:0], 1'b0};  // aligned to 4 KiB

  wire fifo_valid;
  wire fifo_room;
  wire fifo_error;
  wire [AXI_DATA_BITS-1:0] fifo_data;
  tw_fifo #(
      .WIDTH(AXI_DATA_BITS + 1),
      .DEPTH(FIFO_BEATS)
  ) beats (
      .clk,
      .rst,
      .s_valid(beat_valid),
      .s_ready(fifo_room),
      .s_data ({beat_error, beat_data}),
      .m_valid(fifo_valid),
      .m_ready(fifo_pop),
      .m_data ({fifo_error, fifo_data})
  );
  wire unused_room = &{1'b0, fifo_room, 1'b0};  // reserved before the request

  // Dispatch
  reg [31:0] left_q;  // instructions still to dispatch
  reg done_q;
  reg [31:0] index_q;
  reg instruction_valid_q;
  reg error_q;
  reg [INSTRUCTION_BITS-1:0] instruction_q;
  reg [2:0] target;  // none: an illegal opcode
  wire legal = target != 3'd0;

  function automatic [2:0] target_of(input [OPCODE_BITS-1:0] opcode);
    target_of = {
      opcode == OPCODE_STORE,
      opcode == OPCODE_GEMM || opcode == OPCODE_ALU || opcode == OPCODE_FINISH,
      opcode == OPCODE_LOAD
    };
  endfunction

  wire dispatch = |(m_valid & m_ready);
  wire gather = fifo_valid && (!instruction_valid_q || dispatch);
  wire gathered;  // the beat in hand completes an instruction

  assign m_valid = target & {3{running && !halt && instruction_valid_q && !error_q}};
  assign m_instruction = instruction_q;
  assign done = done_q;
  assign busy = dispatch;
  assign wait_dependency = instruction_valid_q;
  assign wait_memory = !done && !instruction_valid_q;
  assign error_valid = running && instruction_valid_q && (error_q || !legal);
  assign error_cause = error_q ? ERROR_READ_RESPONSE : ERROR_ILLEGAL_OPCODE;
  assign error_index = index_q;

  generate
    if (AXI_BYTES > INSTRUCTION_BYTES) begin : gen_wide
      // Two instructions a beat, but for the last beat of an odd number.
      reg high_q;
      wire past_end = high_q && (instruction_valid_q ? left_q == 32'd1 : done_q);
      assign gathered = !past_end;
      assign fifo_pop = gather && high_q;
      always @(posedge clk) begin
        if (gather) begin
          instruction_q <= high_q ? fifo_data[AXI_DATA_BITS-1-:INSTRUCTION_BITS]
              : fifo_data[INSTRUCTION_BITS-1:0];
          target <= target_of(high_q ? fifo_data[INSTRUCTION_BITS+:OPCODE_BITS]
              : fifo_data[OPCODE_BITS-1:0]);
          error_q <= fifo_error;
          high_q <= !high_q;
        end
        if (rst) high_q <= 1'b0;
      end
    end else if (AXI_BYTES == INSTRUCTION_BYTES) begin : gen_equal
      assign gathered = 1'b1;
      assign fifo_pop = gather;
      always @(posedge clk) begin
        if (gather) begin
          instruction_q <= fifo_data;
          target <= target_of(fifo_data[OPCODE_BITS-1:0]);
          error_q <= fifo_error;
        end
      end
    end else begin : gen_narrow
      localparam integer PARTS = INSTRUCTION_BYTES / AXI_BYTES;
      reg [$clog2(PARTS)-1:0] part_q;
      assign gathered = &part_q;
      assign fifo_pop = gather;
      integer p;
      always @(posedge clk) begin
        if (gather) begin
          for (p = 0; p < PARTS; p = p + 1)
          if (part_q == p[$clog2(PARTS)-1:0])
            instruction_q[p*AXI_DATA_BITS+:AXI_DATA_BITS] <= fifo_data;
          if (part_q == 0) target <= target_of(fifo_data[OPCODE_BITS-1:0]);
          error_q <= fifo_error || (error_q && part_q != 0);
          part_q  <= part_q + 1'b1;
        end
        if (rst) part_q <= 0;
      end
    end
  endgenerate

  always @(posedge clk) begin
    if (gather) instruction_valid_q <= gathered;
    else if (dispatch) instruction_valid_q <= 1'b0;
    if (dispatch) begin
      left_q  <= left_q - 32'd1;
      done_q  <= left_q == 32'd1;
      index_q <= index_q + 32'd1;
    end
    if (rst) begin
      instruction_valid_q <= 1'b0;
      left_q <= num_instructions;
      done_q <= num_instructions == 32'd0;
      index_q <= 32'd0;
    end
  end
endmodule
`default_nettype wire
