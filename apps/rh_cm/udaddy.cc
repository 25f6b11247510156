// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <vector>

#include "apps/common/pattern.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_cm/programs.h"

namespace rockhopper::apps::cm {

using roce::cm::Event;
using roce::cm::EventType;

namespace {

constexpr std::uint64_t kUdaddySeed = 0x7564;
constexpr std::uint32_t kLookupBacklog = 128;

/// A datagram queue pair and where its messages go.
struct Peer {
  std::unique_ptr<CmChannel> channel;
  roce::AddressHandle* ah = nullptr;
  wire::Qpn qpn{};
  std::uint32_t qkey = 0;
};

class Run {
 public:
  explicit Run(Node& node) : node_(node), count_(node.options().message_count()) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    for (Peer& peer : peers_) {
      if (peer.ah != nullptr) node_.engine().destroy_ah(peer.ah);
    }
  }

  Expected<Result> as_server() {
    ROCKHOPPER_TRY(answer_lookups());
    ROCKHOPPER_TRY(receive_all());
    ROCKHOPPER_TRY(send_all());
    return finish();
  }

  Expected<Result> as_client() {
    ROCKHOPPER_TRY(resolve_all());
    ROCKHOPPER_TRY(send_all());
    ROCKHOPPER_TRY(receive_all());
    return finish();
  }

 private:
  Result finish() {
    result_.connections = peers_.size();
    result_.seconds = static_cast<double>(steady_now_ns() - start_ns_) * 1e-9;
    return result_;
  }

  Expected<std::unique_ptr<CmChannel>> make_channel() {
    const std::uint32_t size = node_.options().message_size();
    const auto depth = static_cast<std::uint32_t>(std::max<std::uint64_t>(count_, 1));
    ROCKHOPPER_TRY(auto channel, CmChannel::create(node_, {.qp_type = roce::QpType::ud,
                                                           .depth = depth,
                                                           .receive_bytes = size,
                                                           .send_bytes = size}));
    for (std::uint64_t index = 0; index < count_; ++index) {
      ROCKHOPPER_TRY(channel->post_receive(index));
    }
    return channel;
  }

  Expected<void> answer_lookups() {
    ROCKHOPPER_TRY(node_.listen(kLookupBacklog));
    while (peers_.size() < node_.options().connections) {
      ROCKHOPPER_TRY(auto event, node_.wait_event("a client", peers_.empty()));
      if (event.type != EventType::lookup_request) return tl::make_unexpected(describe(event));
      ROCKHOPPER_TRY(auto channel, make_channel());
      ROCKHOPPER_TRY(
          node_.manager().answer(*event.lookup, channel->qp().number(), roce::cm::kUdpQkey));
      peers_.push_back({.channel = std::move(channel), .qkey = roce::cm::kUdpQkey});
    }
    start_ns_ = steady_now_ns();
    return {};
  }

  Expected<void> resolve_all() {
    ROCKHOPPER_TRY(auto path, node_.path_to_server());
    for (std::uint32_t i = 0; i < node_.options().connections; ++i) {
      ROCKHOPPER_TRY(auto channel, make_channel());
      const auto header = node_.ip_header(path);
      ROCKHOPPER_TRY(auto lookup, node_.manager().resolve({.path = path,
                                                           .pkey_index = node_.pkey_index(),
                                                           .service_id = node_.service_id(),
                                                           .private_data = header}));
      lookup->context = peers_.size();
      peers_.push_back({.channel = std::move(channel)});
    }
    for (std::size_t resolved = 0; resolved < peers_.size(); ++resolved) {
      ROCKHOPPER_TRY(auto event, node_.wait_event("the server's answer"));
      if (event.type != EventType::resolved) return tl::make_unexpected(describe(event));
      Peer& peer = peers_[event.lookup->context];
      peer.qpn = event.qpn;
      peer.qkey = event.qkey;
      node_.manager().release(*event.lookup);
      ROCKHOPPER_TRY(make_ah(peer, path));
    }
    start_ns_ = steady_now_ns();
    return {};
  }

  Expected<void> make_ah(Peer& peer, const roce::AddressVector& path) {
    ROCKHOPPER_TRY(peer.ah, node_.engine().create_ah(peer.channel->pd(), path));
    return {};
  }

  Expected<void> send_all() {
    for (Peer& peer : peers_) {
      for (std::uint64_t index = 0; index < count_; ++index) {
        const std::span<std::byte> message = peer.channel->send_slot(index);
        fill_pattern(message, kUdaddySeed, index);
        // The receiver takes our queue pair's number from the immediate data.
        ROCKHOPPER_TRY(peer.channel->post({.opcode = roce::WrOpcode::send_with_imm,
                                           .imm_data = peer.channel->qp().number().value,
                                           .ah = peer.ah,
                                           .remote_qpn = peer.qpn,
                                           .remote_qkey = peer.qkey},
                                          message));
      }
    }
    for (Peer& peer : peers_) {
      for (std::uint64_t index = 0; index < count_; ++index) {
        ROCKHOPPER_TRY(
            peer.channel->wait_completion(peer.channel->send_cq(), "our datagrams to go"));
      }
    }
    return {};
  }

  Expected<void> receive_all() {
    for (Peer& peer : peers_) {
      for (std::uint64_t index = 0; index < count_; ++index) {
        ROCKHOPPER_TRY(auto received, peer.channel->wait_completion(peer.channel->recv_cq(),
                                                                    "the peer's datagrams"));
        if (!received) return fail(ErrorCode::io, "the queue pair failed");
        ROCKHOPPER_TRY(take(peer, *received));
      }
    }
    return {};
  }

  Expected<void> take(Peer& peer, const roce::Completion& completion) {
    const std::span<std::byte> bytes = peer.channel->receive_slot(completion.wr_id);
    if (peer.ah == nullptr) {
      peer.qpn = wire::Qpn::make(completion.imm_data);
      ROCKHOPPER_TRY(make_ah(peer, roce::reply_vector(bytes.first<roce::kGrhBytes>())));
    }
    ++result_.messages;
    if (!node_.options().verify) return {};
    // In order, as nothing on this way reorders; lost ones are missed by the timeout.
    const auto wrong =
        find_pattern_mismatch(bytes.subspan(roce::kGrhBytes), kUdaddySeed, completion.wr_id);
    if (wrong) {
      return fail(ErrorCode::io, "datagram {}: byte {} is not what rh-cm sends", completion.wr_id,
                  *wrong);
    }
    ++result_.checked;
    return {};
  }

  Node& node_;
  const std::uint64_t count_;
  std::vector<Peer> peers_;
  std::uint64_t start_ns_ = 0;
  Result result_;
};

}  // namespace

Expected<Result> run_udaddy(Node& node) {
  if (node.options().message_size() > node.engine().max_path_mtu()) {
    return fail(ErrorCode::invalid_argument, "a datagram of this link has at most {} bytes, not {}",
                node.engine().max_path_mtu(), node.options().message_size());
  }
  Run run(node);
  if (node.options().role() == Role::client) return run.as_client();
  auto result = run.as_server();
  // The answer to a repeated question, should ours have been lost.
  if (result) node.linger(0.2);
  return result;
}

}  // namespace rockhopper::apps::cm
