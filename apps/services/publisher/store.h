// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "apps/services/publisher/counters.h"
#include "apps/services/publisher/layout.h"
#include "apps/services/publisher/record.h"
#include "apps/services/publisher/store_tail.h"
#include "stack/error.h"

namespace rockhopper::publisher {

struct StoreConfig {
  std::uint16_t id = 0;
  /// Tells this incarnation from earlier ones (PB-27): unpredictable, or at least never the same
  /// again in its low 32 bits, which must not be 0.
  std::uint64_t epoch = 0;
  /// The longest message, bytes: at most publisher::message_max() of the ring. 0: that one. Readers
  /// need a buffer for one such message at least.
  std::uint32_t message_max = 0;
};

/// What became of a message.
enum class Published : std::uint8_t {
  yes,
  too_long,  ///< longer than message_max (PB-31)
  no_slot,   ///< conflated: all slots have other keys
};
[[nodiscard]] std::string_view to_string(Published published);

/// A store as a publisher serves it, whatever its kind.
class AnyStore {
 public:
  AnyStore() = default;
  AnyStore(const AnyStore&) = delete;
  AnyStore& operator=(const AnyStore&) = delete;
  virtual ~AnyStore() = default;

  [[nodiscard]] virtual StoreKind kind() const = 0;
  [[nodiscard]] virtual std::uint16_t id() const = 0;
  [[nodiscard]] virtual std::uint64_t epoch() const = 0;
  /// The whole store, control block first.
  [[nodiscard]] virtual std::span<std::byte> memory() const = 0;
  [[nodiscard]] virtual std::uint32_t message_max() const = 0;
  /// Says that the publisher lives (PB-19). Any thread, one at a time; need not be the writer's.
  void heartbeat(std::uint64_t now_ns);
  /// What its writer shows at this moment. Any thread (PB-29).
  [[nodiscard]] StoreTail tail() const;
};

/// The one writer of a store that is a cyclic buffer of messages (PB-4), in memory of the caller's
/// that may be registered and READ meanwhile. Writing knows nothing of readers: no lock, no system
/// call, no allocation, nothing that depends on subscribers (PB-7, PB-8, PB-24). Belongs to one
/// thread, which need not be an engine's.
class Store final : public AnyStore {
 public:
  /// Makes an empty store of `memory`: store_bytes() of a power of two from kRingMin to kRingMax,
  /// aligned to 64 bytes. The memory stays the caller's, and must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<Store>> create(std::span<std::byte> memory,
                                                               const StoreConfig& config);

  struct Recovered;
  /// Goes on with a store that an earlier writer left in `memory`, such as a mapped file. All
  /// records that are intact stay. If there are all that it had published, the epoch and the
  /// numbering go on, and subscribers need not notice. If some at the end are torn, they are cut
  /// off; as their numbers will be given again, the rest is sealed under config.epoch. Fails if
  /// it is no such store, of another id, size or layout. (PB-27)
  [[nodiscard]] static Expected<Recovered> recover(std::span<std::byte> memory,
                                                   const StoreConfig& config);

  /// append() and commit() in one.
  [[nodiscard]] Published publish(std::span<const std::byte> payload, std::uint16_t type,
                                  std::uint64_t time_ns);
  /// Writes a message that is not shown yet. Its number is next_sequence() as it was before.
  /// `type` and `time_ns` are the application's; late joiners look for times, which should not
  /// fall. What is older and in the way goes, announced before it is overwritten (PB-22). When a
  /// batch takes half the ring it is shown meanwhile.
  [[nodiscard]] Published append(std::span<const std::byte> payload, std::uint16_t type,
                                 std::uint64_t time_ns);
  /// Shows all that has been appended, in one step.
  void commit();

  /// Returns the sequence number of the next message; the first one of a store has 0.
  [[nodiscard]] std::uint64_t next_sequence() const { return sequence_; }
  /// Returns that of the oldest message that is intact; next_sequence() if there is none.
  [[nodiscard]] std::uint64_t oldest_sequence() const { return head_sequence_; }
  [[nodiscard]] std::uint64_t ring_bytes() const { return mask_ + 1; }

  [[nodiscard]] StoreKind kind() const override { return StoreKind::log; }
  [[nodiscard]] std::uint16_t id() const override { return config_.id; }
  [[nodiscard]] std::uint64_t epoch() const override { return config_.epoch; }
  [[nodiscard]] std::span<std::byte> memory() const override { return memory_; }
  [[nodiscard]] std::uint32_t message_max() const override { return config_.message_max; }

  /// Any thread.
  [[nodiscard]] const StoreCounters& counters() const { return counters_; }

 private:
  Store(std::span<std::byte> memory, const StoreConfig& config);

  [[nodiscard]] ControlBlock& control() const {
    return *reinterpret_cast<ControlBlock*>(memory_.data());
  }
  [[nodiscard]] std::byte* at(std::uint64_t position) const { return ring_ + (position & mask_); }
  [[nodiscard]] std::uint64_t to_end(std::uint64_t position) const {
    return mask_ + 1 - (position & mask_);
  }
  [[nodiscard]] RecordHeader header(std::uint16_t type, std::uint64_t time_ns) const;
  [[nodiscard]] Record::Parsed record_at(std::uint64_t position) const;
  void prefetch_behind(std::uint64_t position);
  void write_control();
  void evict_before(std::uint64_t position);
  void pad();
  void resume(std::uint64_t head_position, std::uint64_t head_sequence);
  void seal_again();

  std::span<std::byte> memory_;
  std::byte* ring_;
  std::uint64_t mask_;
  StoreConfig config_;
  std::uint64_t position_ = 0;  ///< where the next record goes
  std::uint64_t sequence_ = 0;
  std::uint64_t head_position_ = 0;
  std::uint64_t head_sequence_ = 0;
  std::uint64_t committed_position_ = 0;
  std::uint64_t prefetched_ = 0;  ///< position up to which lines have been asked for
  StoreCounters counters_;
};

struct Store::Recovered {
  std::unique_ptr<Store> store;
  std::uint64_t messages = 0;  ///< that are there
  std::uint64_t cut = 0;       ///< that were published, and are torn
};

}  // namespace rockhopper::publisher
