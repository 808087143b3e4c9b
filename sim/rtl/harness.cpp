// Drives the Verilated tw_top: clock, registers over AXI4-Lite, and the memory behind the AXI4
// port, whose contents are the caller's buffers.  sim/rtl/harness.py is the caller; the C
// functions at the end are its interface.
//
// One step is one cycle: drive the memory's outputs, settle with the clock low, look at what the
// machine drives, then raise the clock.

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "Vtw_top.h"
#include "memory_timing.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

namespace {

using namespace tilewright;

constexpr uint64_t PAGE_BYTES = 4096;
constexpr int NUM_SEGMENTS = 5;
constexpr int NUM_ENGINES = 3;
constexpr int RESPONSE_OKAY = 0;
constexpr int RESPONSE_DECERR = 3;
constexpr int BURST_INCR = 1;
constexpr int RESET_CYCLES = 8;
constexpr int REGISTER_PATIENCE = 1000;

// AXI_BYTES, AXI_BURST_BEATS: from the config, on the compiler's command line.
constexpr int log2_axi_bytes() {
    int log2 = 0;
    while ((1 << log2) < AXI_BYTES) ++log2;
    return log2;
}

// A rule that the machine broke; what() is the whole message.
class Violation : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

std::string format(const char* text, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* text, ...) {
    char line[256];
    va_list arguments;
    va_start(arguments, text);
    std::vsnprintf(line, sizeof line, text, arguments);
    va_end(arguments);
    return line;
}

struct Segment {
    uint8_t* data;
    uint64_t base;
    uint64_t size;
    int64_t writable;
};

// The contents of DRAM: segments at multiples of 4 KiB, no two in one page.
class Contents {
public:
    void attach(const Segment* segments) { segments_.assign(segments, segments + NUM_SEGMENTS); }

    // Both return whether the beat is allowed: it must touch a segment, and write only bytes of
    // a writable one.  Bytes past a segment's end read as zero.
    bool read(uint64_t address, uint8_t* beat) const {
        const Segment* segment = find(address);
        if (segment == nullptr) {
            std::memset(beat, 0, AXI_BYTES);
            return false;
        }
        const uint64_t offset = address - segment->base;
        if (offset + AXI_BYTES <= segment->size) {
            std::memcpy(beat, segment->data + offset, AXI_BYTES);
        } else {
            std::memset(beat, 0, AXI_BYTES);
            std::memcpy(beat, segment->data + offset, segment->size - offset);
        }
        return true;
    }
    bool write(uint64_t address, const uint8_t* beat, uint64_t strobes) const {
        constexpr uint64_t ALL = ~uint64_t{0} >> (64 - AXI_BYTES);
        const Segment* segment = find(address);
        if (segment == nullptr || !segment->writable) return false;
        uint8_t* data = segment->data + (address - segment->base);
        const uint64_t room = segment->size - (address - segment->base);
        if (strobes == ALL && room >= AXI_BYTES) {
            std::memcpy(data, beat, AXI_BYTES);
            return true;
        }
        for (uint64_t i = 0; i < AXI_BYTES; ++i) {
            if ((strobes >> i & 1) == 0) continue;
            if (i >= room) return false;
            data[i] = beat[i];
        }
        return true;
    }

private:
    const Segment* find(uint64_t address) const {
        for (const Segment& segment : segments_)
            if (address - segment.base < segment.size) return &segment;
        return nullptr;
    }
    std::vector<Segment> segments_;
};

// What was offered on a channel and not taken must be offered again, unchanged.
struct Address {
    bool valid;
    uint64_t address;
    int length;
    bool operator==(const Address& other) const {
        return valid == other.valid && address == other.address && length == other.length;
    }
};

class Machine {
public:
    Machine(const MemoryModel& model, uint64_t seed, const char* vcd)
        : memory_(model), read_addresses_(model.outstanding), write_addresses_(model.outstanding),
          responses_(model.outstanding) {
        context_.randReset(2);  // what hardware does not reset starts random
        context_.randSeed(static_cast<int>(seed));
#if VM_TRACE
        context_.traceEverOn(true);
#endif
        top_ = std::make_unique<Vtw_top>(&context_, "top");
#if VM_TRACE
        trace_ = std::make_unique<VerilatedVcdC>();
        top_->trace(trace_.get(), 99);
        trace_->open(vcd);
        if (!trace_->isOpen()) throw std::runtime_error("cannot write the waveform file");
#else
        (void)vcd;
#endif
        top_->s_axil_awvalid = top_->s_axil_wvalid = top_->s_axil_arvalid = 0;
        top_->s_axil_awprot = top_->s_axil_arprot = 0;
        top_->s_axil_bready = top_->s_axil_rready = 0;
        top_->m_axi_rid = top_->m_axi_bid = 0;
        drive_memory();
        top_->rst = 1;
        for (int i = 0; i < RESET_CYCLES; ++i) clock();
        top_->rst = 0;
        step();
    }

    ~Machine() {
        top_->final();
#if VM_TRACE
        trace_->close();
#endif
    }

    void attach(const Segment* segments) { contents_.attach(segments); }

    // Writes a register.  With `restart` the cycle of its answer is cycle 0 of a new run.
    void write(uint64_t address, uint32_t value, bool restart) {
        top_->s_axil_awaddr = address;
        top_->s_axil_wdata = value;
        top_->s_axil_wstrb = 15;
        top_->s_axil_awvalid = top_->s_axil_wvalid = 1;
        for (int i = 0; !top_->s_axil_bvalid; ++i) {
            if (i == REGISTER_PATIENCE) throw Violation(format(
                "register 0x%x: write not answered", static_cast<unsigned>(address)));
            step();
            if (register_address_taken_) top_->s_axil_awvalid = 0;
            if (register_data_taken_) top_->s_axil_wvalid = 0;
        }
        if (restart) begin_run();
        top_->s_axil_bready = 1;
        step();
        top_->s_axil_bready = 0;
    }

    uint32_t read(uint64_t address) {
        top_->s_axil_araddr = address;
        top_->s_axil_arvalid = 1;
        for (int i = 0; !top_->s_axil_rvalid; ++i) {
            if (i == REGISTER_PATIENCE) throw Violation(format(
                "register 0x%x: read not answered", static_cast<unsigned>(address)));
            step();
            if (register_read_taken_) top_->s_axil_arvalid = 0;
        }
        const uint32_t value = top_->s_axil_rdata;
        top_->s_axil_rready = 1;
        step();
        top_->s_axil_rready = 0;
        return value;
    }

    enum Outcome { RUNNING = 0, INTERRUPT = 1, STALLED = 2 };

    // Runs until the interrupt, until nothing moved for `patience` cycles, or for `cycles`.
    Outcome run(int64_t cycles, int64_t patience) {
        for (int64_t i = 0; i < cycles; ++i) {
            if (top_->irq) return INTERRUPT;
            if (cycle_ - last_progress_ > patience) return STALLED;
            step();
        }
        return RUNNING;
    }

    int64_t cycle() const { return cycle_; }
    const std::vector<int64_t>& events(int kind, int engine) const { return events_[kind][engine]; }
    void flush() {
#if VM_TRACE
        trace_->flush();
#endif
    }

private:
    void begin_run() {
        if (!memory_.idle()) throw Violation("AXI: transfers under way at the start of a run");
        memory_.restart();
        cycle_ = 0;
        last_progress_ = 0;
        for (auto& kind : events_)
            for (auto& engine : kind) engine.clear();
    }

    void clock() {
        top_->clk = 0;
        top_->eval();
        dump();
        rise();
    }
    void rise() {
        top_->clk = 1;
        top_->eval();
        dump();
    }
    void dump() {
#if VM_TRACE
        trace_->dump(time_++);
#endif
    }

    void step() {
        drive_memory();
        top_->clk = 0;
        top_->eval();
        dump();
        register_address_taken_ = top_->s_axil_awvalid && top_->s_axil_awready;
        register_data_taken_ = top_->s_axil_wvalid && top_->s_axil_wready;
        register_read_taken_ = top_->s_axil_arvalid && top_->s_axil_arready;
        if (top_->ev_start | top_->ev_retire) record_events();
        take_responses();
        take_write_beat();
        take_addresses();
        memory_.tick();
        rise();
        ++cycle_;
    }

    void drive_memory() {
        top_->m_axi_arready = memory_.ar_ready();
        top_->m_axi_awready = memory_.aw_ready();
        top_->m_axi_wready = memory_.w_ready();
        top_->m_axi_rvalid = memory_.r_valid();
        top_->m_axi_rlast = memory_.r_last();
        if (memory_.r_valid()) {
            auto* beat = reinterpret_cast<uint8_t*>(&top_->m_axi_rdata);
            const bool inside = contents_.read(read_addresses_.front(), beat);
            top_->m_axi_rresp = inside ? RESPONSE_OKAY : RESPONSE_DECERR;
        }
        top_->m_axi_bvalid = memory_.b_valid();
        if (memory_.b_valid()) top_->m_axi_bresp = responses_.front();
    }

    void take_responses() {
        if (top_->m_axi_rvalid && top_->m_axi_rready) {
            if (top_->m_axi_rlast) read_addresses_.pop();
            else read_addresses_.front() += AXI_BYTES;
            memory_.take_read_beat();
            last_progress_ = cycle_;
        }
        if (top_->m_axi_bvalid && top_->m_axi_bready) {
            responses_.pop();
            memory_.take_response();
            last_progress_ = cycle_;
        }
    }

    void take_write_beat() {
        if (write_held_) check_write_held();
        write_held_ = top_->m_axi_wvalid && !top_->m_axi_wready;
        if (!top_->m_axi_wvalid) return;
        if (write_held_) {
            hold_write();
            return;
        }
        const auto* beat = reinterpret_cast<const uint8_t*>(&top_->m_axi_wdata);
        if (!contents_.write(write_address_, beat, top_->m_axi_wstrb))
            write_response_ = RESPONSE_DECERR;
        write_address_ += AXI_BYTES;
        const bool last = memory_.accept_write_beat();
        if (last != static_cast<bool>(top_->m_axi_wlast))
            violate(last ? "WLAST missing at the end of a burst" : "WLAST before the end of a burst");
        if (last) {
            responses_.push(write_response_);
            write_addresses_.pop();
            begin_write_burst();
        }
        last_progress_ = cycle_;
    }

    void begin_write_burst() {
        if (write_addresses_.empty()) return;
        write_address_ = write_addresses_.front();
        write_response_ = RESPONSE_OKAY;
    }

    void take_addresses() {
        const Address read{top_->m_axi_arvalid != 0, top_->m_axi_araddr, top_->m_axi_arlen};
        if (read_held_.valid && !(read == read_held_)) violate("AR changed before it was taken");
        read_held_.valid = false;
        if (read.valid) {
            if (top_->m_axi_arready) {
                check_burst("AR", read, top_->m_axi_arsize, top_->m_axi_arburst);
                read_addresses_.push(read.address / AXI_BYTES * AXI_BYTES);
                memory_.accept_read(read.length + 1);
                last_progress_ = cycle_;
            } else {
                read_held_ = read;
            }
        }
        const Address write{top_->m_axi_awvalid != 0, top_->m_axi_awaddr, top_->m_axi_awlen};
        if (write_address_held_.valid && !(write == write_address_held_))
            violate("AW changed before it was taken");
        write_address_held_.valid = false;
        if (write.valid) {
            if (top_->m_axi_awready) {
                check_burst("AW", write, top_->m_axi_awsize, top_->m_axi_awburst);
                const bool first = write_addresses_.empty();
                write_addresses_.push(write.address / AXI_BYTES * AXI_BYTES);
                if (first) begin_write_burst();
                memory_.accept_write(write.length + 1);
                last_progress_ = cycle_;
            } else {
                write_address_held_ = write;
            }
        }
    }

    void check_burst(const char* channel, const Address& burst, int size, int kind) const {
        const uint64_t bytes = static_cast<uint64_t>(burst.length + 1) * AXI_BYTES;
        const uint64_t first = burst.address / AXI_BYTES * AXI_BYTES;
        if (first / PAGE_BYTES != (first + bytes - 1) / PAGE_BYTES)
            violate(format("%s burst of %d beats at 0x%llx crosses 4 KiB", channel,
                           burst.length + 1, static_cast<unsigned long long>(burst.address)));
        if (burst.length + 1 > AXI_BURST_BEATS)
            violate(format("%s burst of %d beats is longer than %d", channel, burst.length + 1,
                           AXI_BURST_BEATS));
        if (size != log2_axi_bytes() || kind != BURST_INCR)
            violate(format("%s burst has size %d, kind %d", channel, size, kind));
    }

    void hold_write() {
        std::memcpy(held_beat_, &top_->m_axi_wdata, AXI_BYTES);
        held_strobes_ = top_->m_axi_wstrb;
        held_last_ = top_->m_axi_wlast;
    }
    void check_write_held() const {
        if (!top_->m_axi_wvalid || std::memcmp(held_beat_, &top_->m_axi_wdata, AXI_BYTES) != 0
            || held_strobes_ != top_->m_axi_wstrb || held_last_ != top_->m_axi_wlast)
            violate("W changed before it was taken");
    }

    void record_events() {
        for (int engine = 0; engine < NUM_ENGINES; ++engine) {
            if (top_->ev_start >> engine & 1) events_[0][engine].push_back(cycle_);
            if (top_->ev_retire >> engine & 1) events_[1][engine].push_back(cycle_);
        }
        last_progress_ = cycle_;
    }

    [[noreturn]] void violate(const std::string& what) const {
        throw Violation("AXI: " + what + format(" in cycle %lld", static_cast<long long>(cycle_)));
    }

    VerilatedContext context_;
    std::unique_ptr<Vtw_top> top_;
#if VM_TRACE
    std::unique_ptr<VerilatedVcdC> trace_;
    uint64_t time_ = 0;
#endif
    MemoryTiming memory_;
    Contents contents_;
    Ring<uint64_t> read_addresses_;   // of each burst: its next beat
    Ring<uint64_t> write_addresses_;  // of each burst: its first beat
    Ring<int> responses_;
    uint64_t write_address_ = 0;
    int write_response_ = RESPONSE_OKAY;
    bool register_address_taken_ = false;
    bool register_data_taken_ = false;
    bool register_read_taken_ = false;
    Address read_held_{};
    Address write_address_held_{};
    bool write_held_ = false;
    uint8_t held_beat_[AXI_BYTES]{};
    uint64_t held_strobes_ = 0;
    bool held_last_ = false;
    int64_t cycle_ = 0;
    int64_t last_progress_ = 0;
    std::vector<int64_t> events_[2][NUM_ENGINES];  // [start, retire][engine]
};

struct Handle {
    std::unique_ptr<Machine> machine;
    std::string error;
};

constexpr int64_t FAILED = -1;

// Exceptions end here: they become FAILED and a message.
template <typename Action>
int64_t guarded(Handle* handle, Action action) {
    try {
        return action();
    } catch (const std::exception& error) {
        handle->error = error.what();
        return FAILED;
    }
}

}  // namespace

// Verilated code calls these on $finish, $stop and internal errors; the process must live on.
void vl_finish(const char* file, int line, const char*) VL_MT_UNSAFE {
    throw Violation(format("$finish at %s:%d", file, line));
}
void vl_stop(const char* file, int line, const char*) VL_MT_UNSAFE {
    throw Violation(format("$stop at %s:%d", file, line));
}
void vl_fatal(const char* file, int line, const char*, const char* text) VL_MT_UNSAFE {
    throw Violation(format("%s at %s:%d", text, file, line));
}

#pragma GCC visibility push(default)
extern "C" {

Handle* tw_new() { return new Handle; }
void tw_delete(Handle* handle) { delete handle; }
const char* tw_error(const Handle* handle) { return handle->error.c_str(); }

int64_t tw_open(Handle* handle, const MemoryModel* model, uint64_t seed, const char* vcd) {
    return guarded(handle, [&] {
        handle->machine = std::make_unique<Machine>(*model, seed, vcd);
        return int64_t{0};
    });
}
void tw_attach(Handle* handle, const Segment* segments) { handle->machine->attach(segments); }
int64_t tw_write(Handle* handle, uint64_t address, uint32_t value, int restart) {
    return guarded(handle, [&] {
        handle->machine->write(address, value, restart != 0);
        return int64_t{0};
    });
}
int64_t tw_read(Handle* handle, uint64_t address) {
    return guarded(handle, [&] { return int64_t{handle->machine->read(address)}; });
}
int64_t tw_run(Handle* handle, int64_t cycles, int64_t patience) {
    return guarded(handle, [&] { return int64_t{handle->machine->run(cycles, patience)}; });
}
int64_t tw_cycle(const Handle* handle) { return handle->machine->cycle(); }
int64_t tw_num_events(const Handle* handle, int kind, int engine) {
    return static_cast<int64_t>(handle->machine->events(kind, engine).size());
}
const int64_t* tw_events(const Handle* handle, int kind, int engine) {
    return handle->machine->events(kind, engine).data();
}
void tw_flush(Handle* handle) { handle->machine->flush(); }

}  // extern "C"
#pragma GCC visibility pop
