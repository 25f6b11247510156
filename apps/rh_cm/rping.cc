// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_cm/programs.h"
#include "roce/wire/bytes.h"

namespace rockhopper::apps::cm {

using roce::WrOpcode;
using roce::cm::Event;
using roce::cm::EventType;

namespace {

constexpr std::uint32_t kDepth = 4;

/// What the client tells the server before each step: where its buffer is. What the server sends
/// has the same length and no meaning.
struct BufferInfo {
  static constexpr std::uint32_t kSize = 16;
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;

  static BufferInfo parse(std::span<const std::byte> bytes) {
    const auto* p = reinterpret_cast<const std::uint8_t*>(bytes.data());
    return {.address = wire::load_be64(p),
            .rkey = wire::load_be32(p + 8),
            .length = wire::load_be32(p + 12)};
  }
  void emit(std::span<std::byte> bytes) const {
    auto* p = reinterpret_cast<std::uint8_t*>(bytes.data());
    wire::store_be64(p, address);
    wire::store_be32(p + 8, rkey);
    wire::store_be32(p + 12, length);
  }
};

/// The text of ping `number`, as rping makes it: a prefix, letters and other characters that begin
/// one further each time, and a zero.
void fill_ping(std::span<std::byte> out, std::uint64_t number) {
  constexpr unsigned kFirst = 65;
  constexpr unsigned kCharacters = 58;
  const std::string prefix = fmt::format("rdma-ping-{}: ", number);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = i < prefix.size()
                 ? static_cast<std::byte>(prefix[i])
                 : static_cast<std::byte>(kFirst + (number + i - prefix.size()) % kCharacters);
  }
  out.back() = std::byte{0};
}

/// Sends and waits for the completion. False: the connection has ended.
Expected<bool> perform(CmChannel& channel, const roce::SendWr& request, std::span<std::byte> bytes,
                       std::string_view what) {
  ROCKHOPPER_TRY(channel.post(request, bytes));
  ROCKHOPPER_TRY(auto completion, channel.wait_completion(channel.send_cq(), what));
  return completion.has_value();
}

class Server {
 public:
  Server(Node& node, CmChannel& channel, Result& result)
      : node_(node), channel_(channel), result_(result) {}

  /// Serves one client until it disconnects.
  Expected<void> run() {
    while (true) {
      for (const WrOpcode step : {WrOpcode::rdma_read, WrOpcode::rdma_write}) {
        auto going_on = serve(step);
        // librdmacm's clients go without waiting for the DREP: their DREQ may be lost, and is not
        // repeated then.
        if (!going_on && going_on.error().code == ErrorCode::timeout && has_served_all()) return {};
        if (!going_on) return tl::make_unexpected(going_on.error());
        if (!*going_on) return {};
      }
    }
  }

 private:
  [[nodiscard]] bool has_served_all() const {
    const auto& count = node_.options().count;
    return count && *count != 0 && result_.messages - first_ >= *count;
  }

  Expected<bool> serve(WrOpcode step) {
    ROCKHOPPER_TRY(auto received,
                   channel_.wait_completion(channel_.recv_cq(), "the client's next ping"));
    if (!received) return false;
    if (received->byte_len != BufferInfo::kSize) {
      return fail(ErrorCode::io, "the client's message has {} bytes, not {}", received->byte_len,
                  BufferInfo::kSize);
    }
    const BufferInfo info = BufferInfo::parse(channel_.receive_slot(0));
    ROCKHOPPER_TRY(channel_.post_receive(0));
    if (info.length == 0 || info.length > channel_.rdma().size()) {
      return fail(ErrorCode::io, "the client pings with {} bytes; give this end --size {}",
                  info.length, info.length);
    }
    const std::span<std::byte> ping = channel_.rdma().first(info.length);
    auto moved = perform(
        channel_, {.opcode = step, .remote_addr = info.address, .rkey = roce::MemoryKey{info.rkey}},
        ping, step == WrOpcode::rdma_read ? "the READ" : "the WRITE");
    if (!moved || !*moved) return moved;
    if (step == WrOpcode::rdma_read && node_.options().verify) {
      std::vector<std::byte> expected(ping.size());
      fill_ping(expected, result_.messages - first_);
      if (!std::equal(ping.begin(), ping.end(), expected.begin())) {
        return fail(ErrorCode::io, "ping {}: the data are not rping's", result_.messages);
      }
      ++result_.checked;
    }
    // A client may leave with this message, whose ACK can be lost: the ping is done before it.
    if (step == WrOpcode::rdma_write) ++result_.messages;
    return perform(channel_, {.opcode = WrOpcode::send}, channel_.send_slot(0), "a SEND");
  }

  Node& node_;
  CmChannel& channel_;
  Result& result_;
  const std::uint64_t first_ = result_.messages;  ///< of this client
};

Expected<void> serve_client(Node& node, const Event& request, Result& result) {
  ROCKHOPPER_TRY(auto channel,
                 CmChannel::create(node, {.depth = kDepth,
                                          .receive_bytes = BufferInfo::kSize,
                                          .send_bytes = BufferInfo::kSize,
                                          .rdma_bytes = node.options().message_size()}));
  ROCKHOPPER_TRY(channel->post_receive(0));
  ROCKHOPPER_TRY(node.manager().accept(*request.connection, channel->qp(), node.qp_parameters()));
  channel->connection = request.connection;
  ++result.connections;
  const std::uint64_t start_ns = steady_now_ns();
  auto served = Server(node, *channel, result).run();
  result.seconds += static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  if (!served) return served;
  Channels channels;
  channels.push_back(std::move(channel));
  return disconnect_channels(node, channels);
}

Expected<Result> run_server(Node& node) {
  constexpr std::uint32_t kServerBacklog = 3;
  ROCKHOPPER_TRY(node.listen(kServerBacklog));
  Result result;
  do {
    auto event = node.wait_event("a client", true);
    if (!event) {
      // How a persistent server ends.
      if (node.options().persistent && stop_requested() && result.connections > 0) return result;
      return tl::make_unexpected(event.error());
    }
    if (event->type != EventType::connect_request) continue;
    auto served = serve_client(node, *event, result);
    if (!served && !node.options().persistent) return tl::make_unexpected(served.error());
    if (!served) fmt::print(stderr, "client {}: {}\n", result.connections, served.error().message);
  } while (node.options().persistent || result.connections == 0);
  return result;
}

class Client {
 public:
  Client(Node& node, CmChannel& channel) : node_(node), channel_(channel) {}

  /// False: the server has disconnected.
  Expected<bool> ping(std::uint64_t number) {
    const std::uint32_t size = node_.options().message_size();
    const std::span<std::byte> source = channel_.rdma().first(size);
    const std::span<std::byte> sink = channel_.rdma().last(size);
    fill_ping(source, number);
    for (const std::span<std::byte> buffer : {source, sink}) {
      BufferInfo{.address = reinterpret_cast<std::uintptr_t>(buffer.data()),
                 .rkey = static_cast<std::uint32_t>(channel_.key()),
                 .length = size}
          .emit(channel_.send_slot(0));
      auto sent = perform(channel_, {.opcode = WrOpcode::send}, channel_.send_slot(0), "a SEND");
      if (!sent || !*sent) return sent;
      ROCKHOPPER_TRY(auto received,
                     channel_.wait_completion(channel_.recv_cq(), "the server to go on"));
      if (!received) return false;
      ROCKHOPPER_TRY(channel_.post_receive(0));
    }
    if (node_.options().verify && !std::equal(source.begin(), source.end(), sink.begin())) {
      return fail(ErrorCode::io, "ping {}: what came back is not what was sent", number);
    }
    return true;
  }

 private:
  Node& node_;
  CmChannel& channel_;
};

Expected<Result> run_client(Node& node) {
  const Options& options = node.options();
  ROCKHOPPER_TRY(auto channels, connect_channels(node,
                                                 {.depth = kDepth,
                                                  .receive_bytes = BufferInfo::kSize,
                                                  .send_bytes = BufferInfo::kSize,
                                                  .rdma_bytes = 2 * options.message_size()},
                                                 1));
  Result result{.connections = 1};
  Client client(node, *channels.front());
  Progress progress("pings");
  const std::uint64_t start_ns = steady_now_ns();
  const std::uint64_t count = options.message_count();
  while ((count == 0 || result.messages < count) && !stop_requested()) {
    auto done = client.ping(result.messages);
    if (!done && stop_requested() && count == 0) break;
    if (!done) return tl::make_unexpected(done.error());
    if (!*done) return fail(ErrorCode::io, "the server left after {} pings", result.messages);
    ++result.messages;
    progress.update(result.messages, count);
  }
  result.seconds = static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  result.checked = options.verify ? result.messages : 0;
  if (count != 0 && result.messages < count) return tl::make_unexpected(interrupted());
  if (auto ended = disconnect_channels(node, channels); !ended && !stop_requested()) {
    return tl::make_unexpected(ended.error());
  }
  return result;
}

}  // namespace

Expected<Result> run_rping(Node& node) {
  return node.options().role() == Role::server ? run_server(node) : run_client(node);
}

}  // namespace rockhopper::apps::cm
