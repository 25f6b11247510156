// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/services/publisher/store.h"

namespace rockhopper::publisher {

/// The one writer of a store that has the latest message of each key: a slot for each, in memory of
/// the caller's. As Store otherwise.
///
/// In the control block of such a store (apps/services/publisher/slot.h) tail_seq counts the
/// changes, tail_pos is the bytes of slots in use, head_pos the bytes of one slot, and head_seq
/// nothing.
class ConflatedStore final : public AnyStore {
 public:
  static constexpr std::uint32_t kMaxKeys = 1u << 20;

  struct Config {
    std::uint16_t id = 0;
    std::uint64_t epoch = 0;        ///< as StoreConfig::epoch
    std::uint32_t keys = 1024;      ///< slots, 1 to kMaxKeys
    std::uint32_t message_max = 0;  ///< bytes
  };

  /// Bytes of memory for such a store; 0 if there cannot be one.
  [[nodiscard]] static std::uint64_t bytes_for(const Config& config);
  /// `memory`: bytes_for() it, aligned to 64 bytes.
  [[nodiscard]] static Expected<std::unique_ptr<ConflatedStore>> create(std::span<std::byte> memory,
                                                                        const Config& config);

  /// Takes the place of the key's message so far.
  [[nodiscard]] Published publish(std::uint64_t key, std::span<const std::byte> payload,
                                  std::uint16_t type, std::uint64_t time_ns);

  [[nodiscard]] std::size_t keys() const { return keys_; }
  /// Returns the sequence number of the next change; the first one has 0.
  [[nodiscard]] std::uint64_t next_sequence() const { return change_; }

  [[nodiscard]] StoreKind kind() const override { return StoreKind::conflated; }
  [[nodiscard]] std::uint16_t id() const override { return config_.id; }
  [[nodiscard]] std::uint64_t epoch() const override { return config_.epoch; }
  [[nodiscard]] std::span<std::byte> memory() const override { return memory_; }
  [[nodiscard]] std::uint32_t message_max() const override { return config_.message_max; }
  [[nodiscard]] const StoreCounters& counters() const { return counters_; }

 private:
  /// Which slot a key has; in a hash table that is half full at most.
  struct Place {
    std::uint64_t key = 0;
    std::uint32_t slot = 0;
    bool used = false;
  };

  ConflatedStore(std::span<std::byte> memory, const Config& config);
  [[nodiscard]] ControlBlock& control() const {
    return *reinterpret_cast<ControlBlock*>(memory_.data());
  }
  [[nodiscard]] Place& place_of(std::uint64_t key);

  std::span<std::byte> memory_;
  Config config_;
  std::uint64_t slot_bytes_;
  std::vector<Place> table_;
  std::uint32_t keys_ = 0;
  std::uint64_t change_ = 0;
  StoreCounters counters_;
};

}  // namespace rockhopper::publisher
