// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/page_memory.h"
#include "apps/common/service_node.h"
#include "apps/rh_ami/application.h"
#include "apps/rh_ami/protocol.h"
#include "apps/services/ami/adapter.h"
#include "apps/services/ami/context.h"

namespace rockhopper::apps::messages {

/// One end: an endpoint, an adapter with one lane and one peer, registered memory, and the turns of
/// all of them.
class Node final : public ServiceNode {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Node>> create(const Options& options,
                                                              const EndpointConfig& config,
                                                              const stack::Arguments& arguments);
  ~Node() override;

  /// Adapter, lane, context and memory. `ipv4`: the peer's address family, if it is known. Once.
  [[nodiscard]] Expected<Side> prepare(const Agreement& agreement, ami::EndpointId self,
                                       std::optional<bool> ipv4);
  /// To the peer. The handlers have been set: messages are received from now on.
  [[nodiscard]] Expected<void> connect(const Side& remote, ami::EndpointId peer);

  /// `work` has the application's turns from now on, and what had them before is the caller's.
  void set_work(Work* work) { application_.set(work, *this); }
  /// Ends what has not gone to the transport as canceled.
  void close() { adapter_->close(*lane_); }
  /// The transport has given the peer up.
  [[nodiscard]] bool peer_failed() const { return adapter_->counters().peers_failed.value() > 0; }

  [[nodiscard]] ami::Context& context() { return *context_; }
  [[nodiscard]] const Agreement& agreement() const { return agreement_; }
  [[nodiscard]] std::size_t immediate_bytes() const { return lane_->config.fifo.immediate_bytes; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] std::span<std::byte> memory() { return memory_.bytes(); }
  /// What instructions name.
  [[nodiscard]] ami::Local local(std::size_t offset, std::uint32_t length) const;
  [[nodiscard]] ami::Remote remote(std::size_t offset) const;
  /// The peer's memory, by another way than the link; empty: it cannot be looked at.
  [[nodiscard]] std::span<const std::byte> peer_memory() const { return peer_memory_.bytes(); }

  /// The adapter's counters, by name.
  [[nodiscard]] nlohmann::json counters() const;

 private:
  Node(const Options& options, std::unique_ptr<Endpoint> endpoint);
  /// Descriptors, and the application unless it has its own thread.
  [[nodiscard]] bool progress(std::uint64_t now_ns) override;
  [[nodiscard]] Expected<void> make_lane(ami::EndpointId self);
  [[nodiscard]] Expected<void> make_memory();
  [[nodiscard]] Expected<void> make_queue_pair();
  [[nodiscard]] Expected<void> connect_queue_pair(const Side& remote);
  void open_peer_memory(const Side& remote);

  const Options& options_;
  Agreement agreement_;
  Layout layout_;
  PageMemory memory_;
  PageMemory peer_memory_;
  Side side_;
  std::uint64_t remote_address_ = 0;
  roce::MemoryKey remote_key_{};
  ami::EndpointId peer_ = 0;
  roce::MemoryRegion region_{};
  std::unique_ptr<ami::Adapter> adapter_;
  ami::Lane* lane_ = nullptr;
  roce::QueuePair* qp_ = nullptr;
  std::unique_ptr<ami::Context> context_;
  bool open_ = false;
  Application application_;  ///< its thread ends first
};

}  // namespace rockhopper::apps::messages
