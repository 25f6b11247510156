// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/services/publisher/counters.h"
#include "apps/services/publisher/multicast_group.h"
#include "roce/owned.h"

namespace rockhopper::publisher {

/// A member of a publisher's multicast group: takes the datagrams that have come from the publisher
/// and tells copies of messages by store. Anybody can send to a group. What has not the publisher's
/// address, queue pair and Q_Key is dropped here; what has is checked by the reader as any record.
/// Belongs to the engine's thread.
class MulticastReceiver {
 public:
  struct Config {
    std::uint32_t buffers =
        1024;  ///< datagrams that can wait, 1 or more; what comes beyond is lost
    std::uint16_t pkey_index = 0;
  };
  /// `engine` and `counters` must outlive it, and it must end before `pd` does.
  [[nodiscard]] static Expected<std::unique_ptr<MulticastReceiver>> create(
      roce::Engine& engine, roce::ProtectionDomain pd, const MulticastGroup& group,
      const Config& config, SubscriberCounters& counters);
  MulticastReceiver(const MulticastReceiver&) = delete;
  MulticastReceiver& operator=(const MulticastReceiver&) = delete;

  [[nodiscard]] const MulticastGroup& group() const { return group_; }

  /// Calls `take` with the store's id and the bytes of each copy. True if anything has come.
  template <typename Take>
  bool poll(const Take& take) {
    std::array<roce::Completion, 64> completions;
    const std::size_t count = cq_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      const auto copy = check(completions[i]);
      if (copy) take(copy->store_id, copy->bytes);
      post(static_cast<std::uint32_t>(completions[i].wr_id));
    }
    return count > 0;
  }

 private:
  struct Copy {
    std::uint16_t store_id = 0;
    std::span<const std::byte> bytes;
  };

  MulticastReceiver(roce::Engine& engine, const MulticastGroup& group, SubscriberCounters& counters)
      : engine_(engine), group_(group), counters_(counters) {}
  [[nodiscard]] Expected<void> set_up(roce::ProtectionDomain pd, const Config& config);
  [[nodiscard]] std::size_t buffer_bytes() const;
  [[nodiscard]] std::optional<Copy> check(const roce::Completion& completion);
  void post(std::uint32_t buffer);

  roce::Engine& engine_;
  MulticastGroup group_;
  SubscriberCounters& counters_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::vector<std::byte> bytes_;
  roce::OwnedRegion region_;  ///< of these
  roce::Owned<roce::QueuePair> qp_;
};

}  // namespace rockhopper::publisher
