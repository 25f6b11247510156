// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/services/publisher/slot.h"
#include "apps/services/publisher/store_reader.h"

namespace rockhopper::publisher {

/// Reads a conflated store: when something has changed, all slots that are in use, and delivers
/// those that are newer than what it has. Of a key that changes often it misses what is not the
/// latest, which is what such a store is for; nothing is lost.
class ConflatedReader final : public StoreReader {
 public:
  [[nodiscard]] static std::uint64_t buffer_bytes(const StoreInfo& info,
                                                  const ReaderConfig& config);

  /// `listener` must outlive it. Of config.start, sequence numbers are those of changes.
  ConflatedReader(const ReaderConfig& config, Listener& listener);

  [[nodiscard]] std::span<const ReadRequest> next_round(std::uint64_t now_ns) override;
  void on_round(std::uint64_t now_ns) override;
  [[nodiscard]] Expected<void> open(const StoreInfo& info, std::uint64_t now_ns) override;

 private:
  [[nodiscard]] std::optional<ControlBlock> take_control();
  void restart(const ControlBlock& control);
  void expect(std::uint64_t position) override;
  void begin_scan();
  void take_slots();
  void take(const Slot& slot, std::size_t index);

  std::uint64_t slot_bytes_ = 0;
  std::vector<std::uint64_t> wanted_;  ///< of each slot: the least change that is new
  std::uint64_t changes_ = 0;          ///< of the store, as the last control block says
  std::uint64_t used_bytes_ = 0;       ///< of slots
  std::uint64_t read_changes_ = 0;     ///< all before are read
  std::uint64_t read_bytes_ = 0;       ///< of slots that have been
  bool scanning_ = false;
  std::uint64_t scan_changes_ = 0;  ///< all before are read when the slots have been gone through
  std::uint64_t scan_at_ = 0;       ///< bytes of slots behind us
  bool scan_whole_ = true;          ///< none of them was being written

  std::size_t slots_bytes_ = 0;  ///< of the round's READ of slots
};

}  // namespace rockhopper::publisher
