`default_nettype none
import tw_pkg::*;

// Performance counters: cycles, bytes, instructions, and what each engine did in each cycle.
// Latency: an event is in the counters four cycles later; a read takes three cycles from
// `index`.  The causes are kept in LUT RAM, cleared while `clear` is high for 8 cycles; those and
// the one before count as idle, so that a run is counted from its start bit.
module tw_counters (
    input  wire                          clk,
    input  wire                          clear,
    input  wire                          running,
    input  wire [                   3:0] busy,             // bit: fetch, load, compute, store
    input  wire [                   3:0] wait_memory,
    input  wire [                   3:0] wait_conflict,
    input  wire [                   3:0] wait_dependency,
    input  wire [                   2:0] retire,
    input  wire                          read_beat,
    input  wire                          write_beat,
    input  wire [         AXI_BYTES-1:0] write_strobes,
    input  wire [REGISTER_ADDRESS_W-3:0] index,            // register address / 4
    output reg  [                  31:0] value
);
  localparam integer INDEX_W = REGISTER_ADDRESS_W - 2;
  localparam integer CAUSES = 5;
  localparam [INDEX_W-1:0] FIRST_CAUSE = REG_FETCH_BUSY[REGISTER_ADDRESS_W-1:2];
  localparam integer LOG2_AXI = $clog2(AXI_BYTES);
  localparam [2:0] BUSY = 3'd0;
  localparam [2:0] WAIT_MEMORY = 3'd1;
  localparam [2:0] WAIT_CONFLICT = 3'd2;
  localparam [2:0] WAIT_DEPENDENCY = 3'd3;
  localparam [2:0] IDLE = 3'd4;

  // The read side: which engine, cause and half a register is.
  reg [INDEX_W-1:0] cause_word_q;
  reg [INDEX_W-1:0] within_d;
  reg [1:0] engine_d;
  reg [1:0] read_engine_q;
  reg [2:0] read_cause_q;
  reg read_high_q;
  reg [INDEX_W-1:0] index_q;
  reg [INDEX_W-1:0] read_index_q;
  always @* begin
    if (cause_word_q >= INDEX_W'(6 * CAUSES)) engine_d = 2'd3;
    else if (cause_word_q >= INDEX_W'(4 * CAUSES)) engine_d = 2'd2;
    else if (cause_word_q >= INDEX_W'(2 * CAUSES)) engine_d = 2'd1;
    else engine_d = 2'd0;
    within_d = cause_word_q - INDEX_W'(engine_d) * INDEX_W'(2 * CAUSES);
  end
  always @(posedge clk) begin
    cause_word_q <= index - FIRST_CAUSE;
    index_q <= index;
    read_engine_q <= engine_d;
    read_cause_q <= within_d[3:1];
    read_high_q <= within_d[0];
    read_index_q <= index_q;
  end
  wire unused_within = &{1'b0, within_d, 1'b0};

  // A count is two words; the carry into the high word waits a cycle in a register.
  reg clear_q;
  reg [2:0] clear_word_q;
  always @(posedge clk) begin
    clear_q <= clear;
    clear_word_q <= clear_q ? clear_word_q + 3'd1 : 3'd0;
  end

  wire [31:0] cause_low[0:3];
  wire [31:0] cause_high[0:3];
  reg running_q;
  always @(posedge clk) running_q <= running;

  genvar e;
  generate
    for (e = 0; e < 4; e = e + 1) begin : gen_engine
      reg [31:0] low[0:7];
      reg [31:0] high[0:7];
      reg [2:0] cause_q;
      reg [2:0] carry_cause_q;
      reg carry_q;
      wire [31:0] old_low = low[cause_q];
      wire [31:0] first = clear_word_q == IDLE ? START_CYCLES : 32'd0;
      always @(posedge clk) begin
        if (busy[e]) cause_q <= BUSY;
        else if (wait_memory[e]) cause_q <= WAIT_MEMORY;
        else if (wait_conflict[e]) cause_q <= WAIT_CONFLICT;
        else if (wait_dependency[e]) cause_q <= WAIT_DEPENDENCY;
        else cause_q <= IDLE;
        if (clear_q || running_q)
          low[clear_q ? clear_word_q : cause_q] <= clear_q ? first : old_low + 32'd1;
        carry_cause_q <= cause_q;
        carry_q <= running_q && &old_low;
        if (clear_q) high[clear_word_q] <= 32'd0;
        else if (carry_q) high[carry_cause_q] <= high[carry_cause_q] + 32'd1;
      end
      assign cause_low[e]  = low[read_cause_q];
      assign cause_high[e] = high[read_cause_q];
    end
  endgenerate

  // Strobes are counted by groups of eight, then the groups are added.
  localparam integer GROUPS = (AXI_BYTES + 7) / 8;
  reg [4*GROUPS-1:0] group_count_q;
  reg [4*GROUPS-1:0] group_count_d;
  reg [6:0] beat_bytes_q;
  reg [6:0] beat_bytes_d;
  integer i;
  always @* begin
    group_count_d = {4 * GROUPS{1'b0}};
    for (i = 0; i < AXI_BYTES; i = i + 1)
    group_count_d[i/8*4+:4] = group_count_d[i/8*4+:4] + {3'd0, write_strobes[i]};
    beat_bytes_d = 7'd0;
    for (i = 0; i < GROUPS; i = i + 1)
    beat_bytes_d = beat_bytes_d + {3'd0, group_count_q[i*4+:4]};
  end

  reg write_beat_q;
  reg written_q;
  reg [63:0] cycles_q;
  reg [63:0] read_beats_q;
  reg [63:0] written_bytes_q;
  reg [31:0] instructions_q;
  reg cycles_carry_q;
  reg read_carry_q;
  reg written_carry_q;
  wire [63:0] read_bytes = read_beats_q << LOG2_AXI;
  always @(posedge clk) begin
    write_beat_q <= write_beat;
    written_q <= write_beat_q;
    if (write_beat) group_count_q <= group_count_d;
    if (write_beat_q) beat_bytes_q <= beat_bytes_d;

    cycles_carry_q <= running_q && &cycles_q[31:0];
    read_carry_q <= read_beat && &read_beats_q[31:0];
    if (running_q) cycles_q[31:0] <= cycles_q[31:0] + 32'd1;
    if (cycles_carry_q) cycles_q[63:32] <= cycles_q[63:32] + 32'd1;
    if (read_beat) read_beats_q[31:0] <= read_beats_q[31:0] + 32'd1;
    if (read_carry_q) read_beats_q[63:32] <= read_beats_q[63:32] + 32'd1;
    if (written_q)
      {written_carry_q, written_bytes_q[31:0]} <= {1'b0, written_bytes_q[31:0]}
          + {26'd0, beat_bytes_q};
    else written_carry_q <= 1'b0;
    if (written_carry_q) written_bytes_q[63:32] <= written_bytes_q[63:32] + 32'd1;
    if (|retire)
      instructions_q <= instructions_q + {30'd0, {1'b0, retire[0]} + {1'b0, retire[1]}
          + {1'b0, retire[2]}};
    if (clear_q) begin
      cycles_q <= 64'(START_CYCLES);
      read_beats_q <= 64'd0;
      written_bytes_q <= 64'd0;
      instructions_q <= 32'd0;
      {cycles_carry_q, read_carry_q, written_carry_q} <= 3'd0;
    end
  end

  always @(posedge clk)
    case (read_index_q)
      REG_CYCLES[REGISTER_ADDRESS_W-1:2]: value <= cycles_q[31:0];
      REG_CYCLES[REGISTER_ADDRESS_W-1:2] + INDEX_W'(1): value <= cycles_q[63:32];
      REG_BYTES_READ[REGISTER_ADDRESS_W-1:2]: value <= read_bytes[31:0];
      REG_BYTES_READ[REGISTER_ADDRESS_W-1:2] + INDEX_W'(1): value <= read_bytes[63:32];
      REG_BYTES_WRITTEN[REGISTER_ADDRESS_W-1:2]: value <= written_bytes_q[31:0];
      REG_BYTES_WRITTEN[REGISTER_ADDRESS_W-1:2] + INDEX_W'(1): value <= written_bytes_q[63:32];
      REG_INSTRUCTIONS[REGISTER_ADDRESS_W-1:2]: value <= instructions_q;
      default: value <= read_high_q ? cause_high[read_engine_q] : cause_low[read_engine_q];
    endcase
endmodule
`default_nettype wire
