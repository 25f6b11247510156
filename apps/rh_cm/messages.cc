// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// ucmatose and rdma_client: messages over connections, one way and then back.
#include <algorithm>

#include "apps/common/pattern.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_cm/programs.h"

namespace rockhopper::apps::cm {
namespace {

/// What only rh-cm sends: the stock programs send what their memory happens to hold.
constexpr std::uint64_t kMessagesSeed = 0x636d;

Expected<void> send_all(CmChannel& channel, std::uint64_t count) {
  for (std::uint64_t index = 0; index < count; ++index) {
    const std::span<std::byte> message = channel.send_slot(index);
    fill_pattern(message, kMessagesSeed, index);
    ROCKHOPPER_TRY(channel.post({.opcode = roce::WrOpcode::send}, message));
  }
  return {};
}

Expected<void> complete_all(CmChannel& channel, roce::CompletionQueue& cq, std::uint64_t count,
                            const char* what) {
  for (std::uint64_t index = 0; index < count; ++index) {
    ROCKHOPPER_TRY(auto completion, channel.wait_completion(cq, what));
    if (!completion) return fail(ErrorCode::io, "the connection ended before {}", what);
  }
  return {};
}

Expected<void> receive_all(Node& node, CmChannel& channel, std::uint64_t count, Result& result) {
  ROCKHOPPER_TRY(complete_all(channel, channel.recv_cq(), count, "the peer's messages"));
  result.messages += count;
  if (!node.options().verify) return {};
  for (std::uint64_t index = 0; index < count; ++index) {
    const auto wrong = find_pattern_mismatch(channel.receive_slot(index), kMessagesSeed, index);
    if (wrong) {
      return fail(ErrorCode::io, "message {}: byte {} is not what rh-cm sends", index, *wrong);
    }
  }
  result.checked += count;
  return {};
}

/// One after the other, each over all connections.
enum class Step : std::uint8_t { send, complete_sends, receive };

Expected<void> run_steps(Node& node, const Channels& channels, std::uint64_t count,
                         std::initializer_list<Step> steps, Result& result) {
  for (const Step step : steps) {
    for (const auto& channel : channels) {
      ROCKHOPPER_TRY(step == Step::send ? send_all(*channel, count)
                     : step == Step::complete_sends
                         ? complete_all(*channel, channel->send_cq(), count, "our messages' ACKs")
                         : receive_all(node, *channel, count, result));
    }
  }
  return {};
}

/// Both programs; they differ in who sends first and who disconnects.
Expected<Result> run(Node& node, std::uint32_t size, std::uint64_t count,
                     std::initializer_list<Step> steps, bool peer_disconnects) {
  const CmChannelInit init{.qp_type = node.options().uc ? roce::QpType::uc : roce::QpType::rc,
                           .depth = static_cast<std::uint32_t>(std::max<std::uint64_t>(count, 1)),
                           .receive_bytes = size,
                           .send_bytes = size};
  ROCKHOPPER_TRY(auto channels, node.options().role() == Role::server
                                    ? accept_channels(node, init, count)
                                    : connect_channels(node, init, count));
  Result result{.connections = channels.size()};
  const std::uint64_t start_ns = steady_now_ns();
  ROCKHOPPER_TRY(run_steps(node, channels, count, steps, result));
  result.seconds = static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  ROCKHOPPER_TRY(peer_disconnects ? await_disconnects(node, channels)
                                  : disconnect_channels(node, channels));
  return result;
}

}  // namespace

// The clients do not wait for the ACKs of what they send: a server that has got it all may be gone
// before a lost one is made good.

Expected<Result> run_ucmatose(Node& node) {
  const std::uint64_t count =
      node.options().message_size() == 0 ? 0 : node.options().message_count();
  return node.options().role() == Role::server
             ? run(node, node.options().message_size(), count,
                   {Step::send, Step::complete_sends, Step::receive}, false)
             : run(node, node.options().message_size(), count, {Step::receive, Step::send}, true);
}

Expected<Result> run_rdma_client(Node& node) {
  constexpr std::uint32_t kSize = 16;
  return node.options().role() == Role::server
             ? run(node, kSize, 1, {Step::receive, Step::send, Step::complete_sends}, false)
             : run(node, kSize, 1, {Step::send, Step::receive}, false);
}

}  // namespace rockhopper::apps::cm
