// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "apps/common/cm_node.h"
#include "apps/common/page_memory.h"
#include "roce/engine.h"

namespace rockhopper::apps {

struct CmChannelInit {
  roce::QpType qp_type = roce::QpType::rc;
  std::uint32_t depth = 1;          ///< messages posted at once, each way
  std::uint32_t receive_bytes = 0;  ///< of one message
  std::uint32_t send_bytes = 0;     ///< of one message
  std::uint32_t rdma_bytes = 0;     ///< besides, for the peer to read and write
};

/// A queue pair with its completion queues and its memory: a slot for each message that may be
/// under way, so that what has arrived can be looked at later. Not to be moved.
class CmChannel {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<CmChannel>> create(CmNode& node,
                                                                   const CmChannelInit& init);
  ~CmChannel();
  CmChannel(const CmChannel&) = delete;
  CmChannel& operator=(const CmChannel&) = delete;

  [[nodiscard]] roce::QueuePair& qp() { return *qp_; }
  [[nodiscard]] roce::ProtectionDomain pd() const { return pd_; }
  [[nodiscard]] roce::MemoryKey key() const { return region_.key; }
  [[nodiscard]] roce::CompletionQueue& send_cq() { return *send_cq_; }
  [[nodiscard]] roce::CompletionQueue& recv_cq() { return *recv_cq_; }
  /// As received: of UD with the GRH in front.
  [[nodiscard]] std::span<std::byte> receive_slot(std::uint64_t index);
  [[nodiscard]] std::span<std::byte> send_slot(std::uint64_t index);
  [[nodiscard]] std::span<std::byte> rdma() { return memory_.bytes().last(init_.rdma_bytes); }

  /// Posts the receive of that slot.
  [[nodiscard]] Expected<void> post_receive(std::uint64_t index);
  /// Posts `request`, for which one local piece of memory is enough.
  [[nodiscard]] Expected<void> post(roce::SendWr request, std::span<std::byte> bytes);

  /// A peer's: null until connected. Released with the channel.
  roce::cm::Connection* connection = nullptr;

  /// The next completion of `cq`; nothing if the request was flushed, as the connection has ended.
  [[nodiscard]] Expected<std::optional<roce::Completion>> wait_completion(roce::CompletionQueue& cq,
                                                                          std::string_view what,
                                                                          bool forever = false);

 private:
  CmChannel(CmNode& node, const CmChannelInit& init) : node_(node), init_(init) {}
  [[nodiscard]] Expected<void> open();
  [[nodiscard]] std::uint32_t receive_stride() const;

  CmNode& node_;
  const CmChannelInit init_;
  PageMemory memory_;
  roce::ProtectionDomain pd_{};
  roce::MemoryRegion region_{};
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<roce::CompletionQueue> recv_cq_;
  roce::QueuePair* qp_ = nullptr;
};

}  // namespace rockhopper::apps
