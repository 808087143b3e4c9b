// When the memory behind the AXI port moves what: sim/memory.py defines the model, and its
// MemoryTiming is the readable reference of this class.  No data here.

#ifndef TILEWRIGHT_MEMORY_TIMING_H
#define TILEWRIGHT_MEMORY_TIMING_H

#include <cstdint>
#include <vector>

namespace tilewright {

// Fields of sim.memory.MemoryModel, passed from Python as they are.
struct MemoryModel {
    int64_t latency;
    int64_t write_latency;
    int64_t beats_numerator;
    int64_t beats_denominator;
    int64_t outstanding;
    int64_t refresh_period;
    int64_t refresh_length;
    int64_t jitter;
    int64_t jitter_seed;
};

enum Direction : uint64_t { READ = 0, WRITE = 1 };

inline uint64_t jitter_hash(uint64_t seed, Direction direction, uint64_t burst) {
    uint64_t x = seed + 0x9E3779B97F4A7C15u * (2 * burst + direction + 1);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

// First-in first-out queue of at most `capacity` entries.
template <typename T>
class Ring {
public:
    explicit Ring(int64_t capacity) {
        uint64_t size = 1;
        while (size < static_cast<uint64_t>(capacity)) size *= 2;
        slots_.resize(size);
        mask_ = size - 1;
    }
    bool empty() const { return written_ == read_; }
    int64_t size() const { return static_cast<int64_t>(written_ - read_); }
    T& front() { return slots_[read_ & mask_]; }
    const T& front() const { return slots_[read_ & mask_]; }
    void push(const T& value) { slots_[written_++ & mask_] = value; }
    void pop() { ++read_; }
    void clear() { read_ = written_; }

private:
    std::vector<T> slots_;
    uint64_t mask_ = 0;
    uint64_t written_ = 0;
    uint64_t read_ = 0;
};

// The beats that one direction may move: gain / cost a cycle.
class Credit {
public:
    Credit(int64_t gain, int64_t cost) : gain_(gain), cost_(cost), credit_(gain + cost - 1) {}
    bool enough() const { return credit_ >= cost_; }
    void take() { credit_ -= cost_; }
    void tick() {
        credit_ += gain_;
        if (credit_ > gain_ + cost_ - 1) credit_ = gain_ + cost_ - 1;
    }

private:
    int64_t gain_;
    int64_t cost_;
    int64_t credit_;
};

// A cycle: read the outputs, report what the master took or gave, then tick().
class MemoryTiming {
public:
    explicit MemoryTiming(const MemoryModel& model)
        : model_(model),
          read_credit_(model.beats_numerator, model.beats_denominator),
          write_credit_(model.beats_numerator, model.beats_denominator),
          reads_(model.outstanding),
          writes_(model.outstanding),
          responses_(model.outstanding) {}

    // The clock is 0 again, with full credits and the first jitter.  Nothing may be in flight.
    void restart() {
        *this = MemoryTiming(model_);
        update();
    }

    bool idle() const { return reads_.empty() && writes_.empty() && responses_.empty(); }

    bool ar_ready() const { return reads_.size() < model_.outstanding; }
    bool aw_ready() const { return writes_.size() + responses_.size() < model_.outstanding; }
    bool w_ready() const { return w_ready_; }
    bool r_valid() const { return r_valid_; }
    bool r_last() const { return r_valid_ && reads_.front().beats == 1; }
    bool b_valid() const { return b_valid_; }

    void accept_read(int64_t beats) {
        reads_.push({cycle_ + model_.latency + jitter(READ, num_reads_++), beats});
    }
    void accept_write(int64_t beats) { writes_.push(beats); }
    void take_read_beat() {
        offered_ = false;
        if (--reads_.front().beats == 0) reads_.pop();
    }
    // Returns whether it was the burst's last.
    bool accept_write_beat() {
        write_credit_.take();
        if (--writes_.front() != 0) return false;
        writes_.pop();
        responses_.push(cycle_ + model_.write_latency + jitter(WRITE, num_answers_++));
        return true;
    }
    void take_response() { responses_.pop(); }

    void tick() {
        ++cycle_;
        if (model_.refresh_period != 0 && ++phase_ == model_.refresh_period) phase_ = 0;
        read_credit_.tick();
        write_credit_.tick();
        update();
    }

private:
    struct Read {
        int64_t first_cycle;
        int64_t beats;
    };

    int64_t jitter(Direction direction, uint64_t burst) const {
        if (model_.jitter == 0) return 0;
        const uint64_t hash = jitter_hash(static_cast<uint64_t>(model_.jitter_seed), direction, burst);
        return static_cast<int64_t>(hash % (static_cast<uint64_t>(model_.jitter) + 1));
    }

    // The outputs of the cycle that begins.
    void update() {
        const bool refresh = phase_ >= model_.refresh_period - model_.refresh_length
            && model_.refresh_period != 0;
        if (!offered_ && !reads_.empty() && reads_.front().first_cycle <= cycle_ && !refresh
            && read_credit_.enough()) {
            read_credit_.take();
            offered_ = true;
        }
        r_valid_ = offered_;
        w_ready_ = !writes_.empty() && !refresh && write_credit_.enough();
        b_valid_ = !responses_.empty() && responses_.front() <= cycle_;
    }

    MemoryModel model_;
    int64_t cycle_ = 0;
    int64_t phase_ = 0;
    Credit read_credit_;
    Credit write_credit_;
    Ring<Read> reads_;
    Ring<int64_t> writes_;
    Ring<int64_t> responses_;
    uint64_t num_reads_ = 0;
    uint64_t num_answers_ = 0;
    bool offered_ = false;
    bool r_valid_ = false;
    bool w_ready_ = false;
    bool b_valid_ = false;
};

}  // namespace tilewright

#endif
