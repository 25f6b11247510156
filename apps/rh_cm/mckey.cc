// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>

#include <fmt/format.h>

#include "apps/common/pattern.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_cm/programs.h"

namespace rockhopper::apps::cm {
namespace {

constexpr std::uint64_t kMckeySeed = 0x6d63;
/// Until the last datagrams have left the port.
constexpr double kLingerS = 0.2;

Expected<std::unique_ptr<CmChannel>> make_channel(Node& node) {
  const Options& options = node.options();
  return CmChannel::create(
      node,
      {.qp_type = roce::QpType::ud,
       .depth = static_cast<std::uint32_t>(std::max<std::uint64_t>(options.message_count(), 1)),
       .receive_bytes = options.message_size(),
       .send_bytes = options.message_size()});
}

Expected<Result> send_all(Node& node) {
  ROCKHOPPER_TRY(auto path, node.path_to_server());
  ROCKHOPPER_TRY(auto channel, make_channel(node));
  ROCKHOPPER_TRY(auto ah, node.engine().create_ah(channel->pd(), path));
  const std::uint64_t start_ns = steady_now_ns();
  const std::uint64_t count = node.options().message_count();
  for (std::uint64_t index = 0; index < count; ++index) {
    const std::span<std::byte> message = channel->send_slot(index);
    fill_pattern(message, kMckeySeed, index);
    ROCKHOPPER_TRY(channel->post({.opcode = roce::WrOpcode::send_with_imm,
                                  .imm_data = channel->qp().number().value,
                                  .ah = ah,
                                  .remote_qpn = wire::kMulticastQpn,
                                  .remote_qkey = roce::cm::kUdpQkey},
                                 message));
  }
  for (std::uint64_t index = 0; index < count; ++index) {
    ROCKHOPPER_TRY(channel->wait_completion(channel->send_cq(), "our datagrams to go"));
  }
  node.linger(kLingerS);
  node.engine().destroy_ah(ah);
  return Result{.connections = 1,
                .seconds = static_cast<double>(steady_now_ns() - start_ns) * 1e-9};
}

Expected<void> check_content(Node& node, CmChannel& channel, const roce::Completion& completion,
                             Result& result) {
  if (!node.options().verify) return {};
  const auto payload = channel.receive_slot(completion.wr_id).subspan(roce::kGrhBytes);
  // In order, as nothing on this way reorders; lost ones are missed by the timeout.
  const auto wrong = find_pattern_mismatch(payload, kMckeySeed, completion.wr_id);
  if (wrong) {
    return fail(ErrorCode::io, "datagram {}: byte {} is not what rh-cm sends", completion.wr_id,
                *wrong);
  }
  ++result.checked;
  return {};
}

Expected<Result> receive_all(Node& node) {
  const stack::IpAddress group = node.options().server();
  const std::uint64_t count = node.options().message_count();
  Channels channels;
  while (channels.size() < node.options().connections) {
    ROCKHOPPER_TRY(auto channel, make_channel(node));
    for (std::uint64_t index = 0; index < count; ++index) {
      ROCKHOPPER_TRY(channel->post_receive(index));
    }
    ROCKHOPPER_TRY(node.engine().attach_multicast(channel->qp(), group));
    channels.push_back(std::move(channel));
  }
  fmt::print(stderr, "receiving what is sent to {}\n", group.to_string());
  Result result{.connections = channels.size()};
  std::uint64_t start_ns = steady_now_ns();
  for (const auto& channel : channels) {
    for (std::uint64_t index = 0; index < count; ++index) {
      ROCKHOPPER_TRY(auto received,
                     channel->wait_completion(channel->recv_cq(), "datagrams to the group",
                                              result.messages == 0));
      if (!received) return fail(ErrorCode::io, "the queue pair failed");
      if (result.messages++ == 0) start_ns = steady_now_ns();
      ROCKHOPPER_TRY(check_content(node, *channel, *received, result));
    }
  }
  result.seconds = static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  for (const auto& channel : channels) {
    ROCKHOPPER_TRY(node.engine().detach_multicast(channel->qp(), group));
  }
  node.linger(kLingerS);  // so that the routers hear of it
  return result;
}

}  // namespace

Expected<Result> run_mckey(Node& node) {
  if (node.options().message_size() > node.engine().max_path_mtu()) {
    return fail(ErrorCode::invalid_argument, "a datagram of this link has at most {} bytes, not {}",
                node.engine().max_path_mtu(), node.options().message_size());
  }
  return node.options().sender ? send_all(node) : receive_all(node);
}

}  // namespace rockhopper::apps::cm
