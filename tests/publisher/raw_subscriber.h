// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/publisher/message.h"
#include "roce/completion_queue.h"
#include "tests/publisher/world.h"

namespace rockhopper::sim {

/// A subscriber with verbs alone: queue pair, SENDs and READs of whatever it likes, as any program
/// on any RNIC may be.
class RawSubscriber {
 public:
  RawSubscriber(World& world, std::string name);
  RawSubscriber(const RawSubscriber&) = delete;
  RawSubscriber& operator=(const RawSubscriber&) = delete;
  ~RawSubscriber();

  /// The next answer of the publisher, or other message.
  [[nodiscard]] std::optional<publisher::ControlMessage> ask(
      const publisher::ControlMessage& message);
  [[nodiscard]] std::optional<publisher::ControlMessage> receive();
  void send(std::span<const std::byte> bytes);
  /// The key for a store; key 0 if it is refused.
  [[nodiscard]] roce::MemoryKey subscribe(const std::string& store);
  /// What a READ of `length` bytes brings, or how it fails. Connects anew first if it has to.
  struct Read {
    roce::WcStatus status = roce::WcStatus::general_err;
    std::vector<std::byte> bytes;
  };
  [[nodiscard]] Read read(roce::MemoryKey key, std::uint64_t addr, std::uint32_t length);
  [[nodiscard]] bool broken() const { return qps_[1]->state() == roce::QpState::err; }
  /// A new connection under the same name: the keys of the old one are gone.
  void reconnect();
  [[nodiscard]] publisher::SubscriberId id() const { return id_; }

 private:
  static constexpr std::uint32_t kBytes = 65536;
  void connect();
  void disconnect();
  [[nodiscard]] std::optional<roce::Completion> completion(roce::CompletionQueue& cq);

  World& world_;
  std::string name_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<roce::CompletionQueue> recv_cq_;
  std::vector<std::byte> memory_;
  roce::MemoryKey key_{};
  std::array<roce::QueuePair*, 2> qps_{};
  publisher::SubscriberId id_{};
};

}  // namespace rockhopper::sim
