// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "apps/common/endpoint.h"
#include "apps/common/page_memory.h"
#include "apps/common/tcp.h"
#include "apps/pingpong/content.h"
#include "apps/pingpong/exchange.h"
#include "apps/pingpong/options.h"
#include "roce/engine.h"

namespace rockhopper::apps::pingpong {

struct Result {
  Destination local;
  Destination remote;
  double seconds = 0;
  std::uint64_t messages_checked = 0;
};

/// One run over one queue pair, as ibv_rc_pingpong and its sisters do it: the client sends, the
/// server sends back, one message under way at a time.
class Session final : private roce::CompletionHandler {
 public:
  Session(Endpoint& endpoint, const Options& options);
  ~Session() override;

  [[nodiscard]] Expected<Result> run();

 private:
  [[nodiscard]] Expected<void> create_objects();
  [[nodiscard]] Expected<void> create_queue_pair();
  [[nodiscard]] Expected<void> connect_as_client();
  [[nodiscard]] Expected<void> connect_as_server();
  [[nodiscard]] Expected<stack::IpAddress> choose_gid(const Destination* remote) const;
  /// To RTR and RTS, towards result_.remote.
  [[nodiscard]] Expected<void> connect_queue_pair();
  [[nodiscard]] Expected<void> exchange_messages();
  [[nodiscard]] Expected<void> handle(const roce::Completion& completion);
  [[nodiscard]] Expected<void> take_message(const roce::Completion& completion);
  [[nodiscard]] Expected<void> send_message();
  [[nodiscard]] Expected<void> post_receives();
  [[nodiscard]] Expected<void> check_alive();
  /// Stays to acknowledge the peer's last message again should the first acknowledgement be lost.
  void linger();
  void await_event();
  void on_completion_event(roce::CompletionQueue& cq) override;

  /// Received messages, behind what the service puts before them.
  [[nodiscard]] std::span<std::byte> received_bytes() {
    return receive_memory_.bytes().subspan(grh_bytes());
  }
  [[nodiscard]] bool is_ud() const { return options_.transport == roce::QpType::ud; }
  [[nodiscard]] std::uint32_t grh_bytes() const { return is_ud() ? roce::kGrhBytes : 0; }
  [[nodiscard]] bool is_client() const { return options_.role() == Role::client; }
  [[nodiscard]] bool finished() const {
    return sent_ == options_.iterations && received_ == options_.iterations;
  }

  Endpoint& endpoint_;
  const Options& options_;
  PageMemory send_memory_;
  PageMemory receive_memory_;
  roce::ProtectionDomain pd_{};
  roce::MemoryRegion send_region_{};
  roce::MemoryRegion receive_region_{};
  std::unique_ptr<roce::CompletionQueue> cq_;
  roce::QueuePair* qp_ = nullptr;
  roce::AddressHandle* ah_ = nullptr;  ///< of the peer, with UD
  std::optional<TcpConnection> connection_;
  std::optional<Content> content_;
  Result result_;

  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint32_t receives_posted_ = 0;
  std::uint32_t pending_ = 0;  ///< completions awaited before the next message: wr_id bits
  std::uint64_t last_progress_ns_ = 0;
  bool event_ = false;
};

}  // namespace rockhopper::apps::pingpong
