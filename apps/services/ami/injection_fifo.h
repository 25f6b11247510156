// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <bit>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "apps/services/ami/completion_mask.h"
#include "apps/services/ami/descriptor.h"
#include "apps/services/ami/sync.h"

namespace rockhopper::ami {

/// Called once when an instruction is complete, whatever became of it (AM-22).
struct Callback {
  using Function = void (*)(void* context, std::uint64_t cookie, Status status);
  Function function = nullptr;  ///< null: none
  void* context = nullptr;
  std::uint64_t cookie = 0;
};

struct FifoConfig {
  CompletionMode completion = CompletionMode::mask;
  std::uint32_t slots = 1024;           ///< a power of two, 2 to kMaxSlots
  std::uint32_t immediate_bytes = 256;  ///< kept with each slot
};

/// Injection FIFO, pending callback list and completion bit mask: what an application's thread
/// and its adapter share (US 8,751,595). No function waits.
///
///     slot        0          1            2          3            4
///     FIFO        transfer   completion   transfer   transfer     completion
///     list        -          callback     -          -            callback
///     mask        0          1            0          0            0
///
/// A slot is used again once the adapter has read it, a place of the list once its callback has
/// been called (AM-24). With a counter in place of the mask there are no completion descriptors,
/// and a callback is listed at its transfer (AM-12).
template <typename S = Sync>
class InjectionFifo {
 public:
  static constexpr std::uint32_t kMaxSlots = 1u << 18;

  explicit InjectionFifo(const FifoConfig& config)
      : config_(config),
        slots_(std::make_unique<Slot[]>(config.slots)),
        statuses_(std::make_unique<StatusCell[]>(config.slots)),
        listed_(config.slots),
        immediates_(std::size_t{config.slots} * config.immediate_bytes),
        mask_(config.slots),
        transfers_(config.completion == CompletionMode::counter ? config.slots : 0) {
    assert(std::has_single_bit(config.slots) && config.slots >= 2 && config.slots <= kMaxSlots);
  }

  [[nodiscard]] const FifoConfig& config() const { return config_; }

  // ---- The application's side: one thread.

  /// One instruction: its transfer descriptor and, with a callback, the completion descriptor in
  /// the next slot, or nothing (AM-2, AM-3, AM-20). `fill` makes a transfer of an empty
  /// descriptor. `immediate` is copied, and at most immediate_bytes (AM-31). False: no room;
  /// advance() or the adapter makes some.
  template <std::invocable<Descriptor&> Fill>
  [[nodiscard]] bool inject(const Fill& fill, std::span<const std::byte> immediate,
                            const Callback& callback) {
    assert_one_producer();
    const bool listed = callback.function != nullptr;
    const bool paired = listed && config_.completion == CompletionMode::mask;
    const unsigned needed = paired ? 2 : 1;
    const std::uint64_t place = injected_ + needed - 1;
    if (!has_free(needed)) return false;
    if (listed && listed_[slot_of(place)].busy) return false;
    if (listed) list(place, callback);
    if (!immediate.empty()) {
      assert(immediate.size() <= config_.immediate_bytes);
      std::memcpy(immediate_of(injected_), immediate.data(), immediate.size());
    }
    slots_[slot_of(injected_)].fill([&](Descriptor& transfer) {
      transfer = {};
      fill(transfer);
      if (listed) transfer.flags |= Descriptor::kCallback;
    });
    if (paired) {
      slots_[slot_of(place)].fill([&](Descriptor& completion) {
        completion = {};
        completion.type = Descriptor::Type::completion;
        completion.value = std::uint64_t{1} << slot_of(place) % 64;
      });
    }
    injected_ += needed;
    tail_.store(injected_, std::memory_order_release);
    return true;
  }

  [[nodiscard]] bool inject(const Descriptor& transfer, std::span<const std::byte> immediate,
                            const Callback& callback) {
    assert(transfer.type == Descriptor::Type::transfer);
    return inject([&](Descriptor& descriptor) { descriptor = transfer; }, immediate, callback);
  }

  /// Calls the callbacks of all transfers that are complete (AM-8); returns how many. From within
  /// a callback nothing is called; a callback may inject (AM-23).
  std::size_t advance() {
    if (advancing_) return 0;
    if (is_idle()) return 0;
    advancing_ = true;
    const std::uint64_t before = called_;
    if (config_.completion == CompletionMode::mask) {
      mask_.take([this](std::uint32_t slot) { call(slot); });
    } else {
      const std::uint64_t complete = counter_.load(std::memory_order_acquire);
      while (pending() > 0 && walked_ < complete) {
        const std::uint64_t place = walked_++;
        const Listed& listed = listed_[slot_of(place)];
        if (listed.busy && listed.place == place) call(slot_of(place));
      }
    }
    advancing_ = false;
    return static_cast<std::size_t>(called_ - before);
  }

  /// Callbacks that have not been called.
  [[nodiscard]] std::uint64_t pending() const { return listed_count_ - called_; }
  /// Descriptors injected since the beginning.
  [[nodiscard]] std::uint64_t injected() const { return injected_; }

  // ---- The adapter's side: one thread.

  /// The oldest descriptor that has not been taken; null: there is none, or with a counter as many
  /// transfers as there are slots are incomplete.
  [[nodiscard]] const Descriptor* front() {
    if (taken_ == tail_seen_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (taken_ == tail_seen_) return nullptr;
    }
    if (config_.completion == CompletionMode::counter && taken_ - counted_ == config_.slots) {
      return nullptr;
    }
    const Descriptor& front = slots_[slot_of(taken_)].read();
    if (config_.completion == CompletionMode::counter) {
      transfers_[slot_of(taken_)].callback = (front.flags & Descriptor::kCallback) != 0;
    }
    return &front;
  }
  /// Its payload with kImmediate, until pop().
  [[nodiscard]] const std::byte* immediate() const { return immediate_of(taken_); }
  /// Which descriptor it is, counted from the beginning.
  [[nodiscard]] std::uint64_t front_place() const { return taken_; }
  /// The slot may be used again.
  void pop() {
    ++taken_;
    head_.store(taken_, std::memory_order_release);
  }

  /// A transfer is complete, of which front() has given, with the mask, the completion descriptor;
  /// with the counter, the transfer descriptor, with a callback or not. Once for each (AM-6,
  /// AM-21).
  void complete(std::uint64_t place, Status status) {
    const std::uint32_t slot = slot_of(place);
    if (config_.completion == CompletionMode::mask) {
      statuses_[slot].write(status);
      mask_.set(slot);
      return;
    }
    // Without a callback, the place in the list may be that of an earlier transfer.
    if (transfers_[slot].callback) statuses_[slot].write(status);
    transfers_[slot].complete = true;
    while (transfers_[slot_of(counted_)].complete) {
      transfers_[slot_of(counted_++)].complete = false;
    }
    counter_.store(counted_, std::memory_order_release);
  }

  [[nodiscard]] std::uint32_t slot_of(std::uint64_t place) const {
    return static_cast<std::uint32_t>(place & (config_.slots - 1));
  }

 private:
  static constexpr std::size_t kCacheLine = 64;
  using Slot = typename S::template Cell<Descriptor>;
  using StatusCell = typename S::template Cell<Status>;
  using Position = typename S::template Atomic<std::uint64_t>;

  struct Listed {
    Callback callback;
    std::uint64_t place = 0;
    bool busy = false;
  };

  struct Transfer {
    bool callback = false;
    bool complete = false;
  };

  [[nodiscard]] bool is_idle() const {
    if (config_.completion == CompletionMode::mask) return !mask_.any();
    return pending() == 0 || walked_ >= counter_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] bool has_free(unsigned needed) {
    if (injected_ + needed - head_seen_ <= config_.slots) return true;
    head_seen_ = head_.load(std::memory_order_acquire);
    return injected_ + needed - head_seen_ <= config_.slots;
  }

  void list(std::uint64_t place, const Callback& callback) {
    if (pending() == 0) walked_ = place;
    listed_[slot_of(place)] = {.callback = callback, .place = place, .busy = true};
    ++listed_count_;
  }

  void call(std::uint32_t slot) {
    Listed& listed = listed_[slot];
    assert(listed.busy);
    const Callback callback = listed.callback;
    const Status status = statuses_[slot].read();
    ++called_;
    listed.busy = false;  // the callback may want the place (AM-11, AM-23)
    callback.function(callback.context, callback.cookie, status);
  }

  [[nodiscard]] std::byte* immediate_of(std::uint64_t place) {
    return immediates_.data() + std::size_t{slot_of(place)} * config_.immediate_bytes;
  }
  [[nodiscard]] const std::byte* immediate_of(std::uint64_t place) const {
    return immediates_.data() + std::size_t{slot_of(place)} * config_.immediate_bytes;
  }

  void assert_one_producer() {
#ifndef NDEBUG
    static thread_local char me;
    if (producer_ == nullptr) producer_ = &me;
    assert(producer_ == &me && "an injection FIFO has one producer (AM-30)");
#endif
  }

  FifoConfig config_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<StatusCell[]> statuses_;  ///< by place of the list
  std::vector<Listed> listed_;
  std::vector<std::byte> immediates_;
  CompletionMask<S> mask_;

  // The application's.
  alignas(kCacheLine) Position tail_{0};
  std::uint64_t injected_ = 0;
  std::uint64_t head_seen_ = 0;
  std::uint64_t listed_count_ = 0;
  std::uint64_t called_ = 0;
  std::uint64_t walked_ = 0;  ///< counter: the next place to look at while callbacks are pending
  bool advancing_ = false;
#ifndef NDEBUG
  const char* producer_ = nullptr;
#endif

  // The adapter's.
  alignas(kCacheLine) Position head_{0};
  Position counter_{0};  ///< transfers that are complete, as are all before them
  std::uint64_t taken_ = 0;
  std::uint64_t tail_seen_ = 0;
  std::uint64_t counted_ = 0;
  std::vector<Transfer> transfers_;  ///< counter: from counted_ on
};

}  // namespace rockhopper::ami
