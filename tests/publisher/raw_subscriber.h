// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/services/publisher/message.h"
#include "apps/services/publisher/subscriber_route.h"
#include "roce/completion_queue.h"
#include "roce/receive_buffers.h"
#include "tests/publisher/world.h"

namespace rockhopper::sim {

/// A subscriber with verbs alone, over the world's transport: SENDs, and READs of whatever it
/// likes, as any program on any RNIC may be.
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
  static constexpr std::byte kUntouched{0xcc};  ///< what is there before
  [[nodiscard]] Read read(roce::MemoryKey key, std::uint64_t addr, std::uint32_t length);
  [[nodiscard]] bool broken() const { return route_->failed(); }
  /// What it takes to go on after an error: nothing but a word to the initiator with dynamic
  /// connections, else reconnect().
  void recover();
  /// A new connection under the same name: the keys of the old one are gone.
  void reconnect();
  [[nodiscard]] publisher::SubscriberId id() const { return id_; }
  /// With dynamic connections: where the publisher has a target for this subscriber alone.
  [[nodiscard]] const dc::TargetAddress& publisher_address() const { return address_; }
  /// READs at the target of somebody else, with what access key ever.
  [[nodiscard]] Read read_at(const dc::TargetAddress& address, roce::MemoryKey key,
                             std::uint64_t addr, std::uint32_t length);

 private:
  static constexpr std::uint32_t kBytes = 65536;
  [[nodiscard]] roce::Engine& engine() { return world_.network.node(1).engine(); }
  void connect();
  void disconnect();
  [[nodiscard]] std::unique_ptr<publisher::SubscriberRoute> route_to(
      const dc::TargetAddress& address);
  [[nodiscard]] std::optional<roce::Completion> completion();

  World& world_;
  std::string name_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<roce::ReceiveBuffers> receives_;
  std::vector<std::byte> memory_;
  roce::MemoryKey key_{};
  std::array<roce::QueuePair*, 2> qps_{};  ///< the publisher's and ours; without them:
  dc::Dci* initiator_ = nullptr;
  dc::Dct* target_ = nullptr;
  dc::TargetAddress address_{};
  std::unique_ptr<publisher::SubscriberRoute> route_;
  publisher::SubscriberId id_{};
};

}  // namespace rockhopper::sim
