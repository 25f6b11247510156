// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "apps/common/endpoint.h"
#include "apps/common/tcp.h"
#include "apps/rh_pingpong/content.h"
#include "apps/rh_pingpong/dc_lanes.h"
#include "apps/rh_pingpong/exchange.h"
#include "apps/rh_pingpong/message_slots.h"
#include "apps/rh_pingpong/options.h"
#include "roce/engine.h"

namespace rockhopper::apps::pingpong {

struct Result {
  Destinations local;
  Destinations remote;
  double seconds = 0;
  std::uint64_t messages_checked = 0;
};

/// One run, as ibv_rc_pingpong and its sisters do it: the client sends, the server sends back, one
/// message under way at a time in each queue pair.
class Session final : private roce::CompletionHandler {
 public:
  Session(Endpoint& endpoint, const Options& options);
  ~Session() override;

  [[nodiscard]] Expected<Result> run();
  /// Those counters that are its own and not 0, a line each on standard error.
  void print_statistics() const;

 private:
  /// A queue pair, or with DC a target of either end, and what is under way in it.
  struct Lane {
    roce::QueuePair* qp = nullptr;
    roce::AddressHandle* ah = nullptr;  ///< of the peer, with UD and DC
    std::uint32_t pending = 0;          ///< completions awaited before the next message: their bits
    std::uint32_t received = 0;         ///< the slot of the last message received
    std::uint32_t sending = 0;          ///< the slot that is being sent from
    std::uint64_t messages_sent = 0;
    std::uint64_t messages_received = 0;
  };

  [[nodiscard]] Expected<void> create_objects();
  [[nodiscard]] Expected<void> create_memory();
  [[nodiscard]] Expected<void> create_queue_pair();
  [[nodiscard]] Expected<void> create_dc_lanes();
  void add_lane(wire::Qpn number, std::uint64_t access_key, roce::QueuePair* qp);
  [[nodiscard]] Expected<void> connect_as_client();
  [[nodiscard]] Expected<void> connect_as_server();
  [[nodiscard]] Expected<stack::IpAddress> choose_gid(const Destination* remote) const;
  void set_local_gid(const stack::IpAddress& gid);
  void print(const char* whose, const Destinations& destinations) const;
  /// To RTR and RTS, towards result_.remote.
  [[nodiscard]] Expected<void> connect_queue_pairs();
  [[nodiscard]] Expected<void> connect_lane(std::size_t index);
  [[nodiscard]] Expected<void> connect_queue_pair(std::size_t index);
  [[nodiscard]] roce::AddressVector address_vector(std::size_t index) const;
  [[nodiscard]] Expected<void> exchange_messages();
  [[nodiscard]] Expected<void> handle(const roce::Completion& completion);
  [[nodiscard]] Expected<void> take_message(std::size_t index, const roce::Completion& completion);
  [[nodiscard]] Expected<void> send_message(std::size_t index);
  [[nodiscard]] Expected<void> post_receives();
  void release(std::uint32_t slot);
  [[nodiscard]] Expected<void> check_alive();
  /// Fails with what the peer has told by TCP since then.
  [[nodiscard]] Expected<void> hear_peer();
  /// The error, or what the peer knows of it, who is told.
  [[nodiscard]] tl::unexpected<Error> give_up(Error error);
  [[nodiscard]] Terms terms() const {
    return {options_.transport, options_.size, options_.iterations};
  }
  /// Stays to acknowledge the peer's last message again should the first acknowledgement be lost.
  void linger();
  void await_event();
  void on_completion_event(roce::CompletionQueue& cq) override;

  /// A received message, behind what the service puts before it.
  [[nodiscard]] std::span<std::byte> received_bytes(std::uint32_t slot) const {
    return receive_slots_.at(slot).subspan(grh_bytes());
  }
  [[nodiscard]] bool is_ud() const { return transport_.qp_type == roce::QpType::ud; }
  [[nodiscard]] bool is_dc() const { return options_.transport == Transport::dc; }
  [[nodiscard]] std::uint32_t grh_bytes() const { return is_ud() ? roce::kGrhBytes : 0; }
  [[nodiscard]] bool is_client() const { return options_.role() == Role::client; }
  /// With several queue pairs, some send once more than their share.
  [[nodiscard]] bool finished() const {
    return sent_ >= options_.iterations && received_ >= options_.iterations;
  }
  /// What tells a message's content from others': the lane, and how many it has had before.
  /// ibv_srq_pingpong has one buffer for all queue pairs, so any of them may send back what another
  /// received: there all are alike.
  [[nodiscard]] std::uint64_t message_number(std::size_t lane, std::uint64_t count) const {
    return options_.transport == Transport::srq ? 0 : count * lanes_.size() + lane;
  }

  Endpoint& endpoint_;
  const Options& options_;
  const TransportInfo transport_;
  MessageSlots send_slots_;  ///< a client's messages, by lane
  MessageSlots receive_slots_;
  FreeSlots free_slots_;
  roce::ProtectionDomain pd_{};
  roce::MemoryRegion send_region_{};
  roce::MemoryRegion receive_region_{};
  std::unique_ptr<roce::CompletionQueue> cq_;
  roce::SharedReceiveQueue* srq_ = nullptr;
  std::unique_ptr<DcLanes> dc_;
  std::vector<Lane> lanes_;
  std::unordered_map<std::uint32_t, std::size_t> lane_of_;  ///< by the number that receives
  std::optional<TcpConnection> connection_;
  std::optional<Content> content_;
  Result result_;

  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint32_t receives_posted_ = 0;
  std::uint64_t last_progress_ns_ = 0;
  std::uint64_t next_check_ns_ = 0;
  bool event_ = false;
  bool peer_has_told_ = false;  ///< why the run fails
};

}  // namespace rockhopper::apps::pingpong
