// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Making and ending the connections that a program wants.
#include <algorithm>

#include "apps/rh_cm/programs.h"

namespace rockhopper::apps::cm {

using roce::cm::Event;
using roce::cm::EventType;
using roce::cm::State;

namespace {

constexpr std::uint32_t kConnectionBacklog = 128;

Expected<void> post_receives(CmChannel& channel, std::uint64_t count) {
  for (std::uint64_t index = 0; index < count; ++index) {
    ROCKHOPPER_TRY(channel.post_receive(index));
  }
  return {};
}

Expected<void> accept_one(Node& node, const Event& request, const CmChannelInit& init,
                          std::uint64_t receives, Channels& channels) {
  roce::cm::Connection& connection = *request.connection;
  const auto header = roce::cm::IpServiceHeader::parse(request.private_data.view());
  if (!header || channels.size() == node.options().connections) {
    auto rejected = node.manager().reject(connection);
    node.manager().release(connection);
    return rejected;
  }
  ROCKHOPPER_TRY(auto channel, CmChannel::create(node, init));
  ROCKHOPPER_TRY(post_receives(*channel, receives));
  ROCKHOPPER_TRY(node.manager().accept(connection, channel->qp(), node.qp_parameters()));
  channel->connection = &connection;
  channels.push_back(std::move(channel));
  return {};
}

/// Stays until nothing of them can arrive any more, as the peer may ask again whether they are
/// over; it may also have left.
void linger(Node& node, const Channels& channels) {
  const auto over = [](const auto& channel) {
    return channel->connection->state() == State::closed;
  };
  (void)node.wait([&] { return std::all_of(channels.begin(), channels.end(), over); },
                  "the end of TIMEWAIT");
}

}  // namespace

Expected<Channels> connect_channels(Node& node, const CmChannelInit& init, std::uint64_t receives) {
  ROCKHOPPER_TRY(auto path, node.path_to_server());
  Channels channels;
  for (std::uint32_t i = 0; i < node.options().connections; ++i) {
    ROCKHOPPER_TRY(auto channel, CmChannel::create(node, init));
    ROCKHOPPER_TRY(post_receives(*channel, receives));
    const auto header = node.ip_header(path);
    ROCKHOPPER_TRY(channel->connection,
                   node.manager().connect(channel->qp(), {.path = path,
                                                          .pkey_index = node.pkey_index(),
                                                          .service_id = node.service_id(),
                                                          .path_mtu = node.options().path_mtu,
                                                          .private_data = header,
                                                          .qp = node.qp_parameters()}));
    channels.push_back(std::move(channel));
  }
  for (std::size_t established = 0; established < channels.size(); ++established) {
    ROCKHOPPER_TRY(auto event, node.wait_event("the server's answer"));
    if (event.type != EventType::established) return tl::make_unexpected(describe(event));
  }
  return channels;
}

Expected<Channels> accept_channels(Node& node, const CmChannelInit& init, std::uint64_t receives) {
  ROCKHOPPER_TRY(node.listen(kConnectionBacklog));
  Channels channels;
  std::size_t established = 0;
  while (established < node.options().connections) {
    ROCKHOPPER_TRY(auto event, node.wait_event("a client", channels.empty()));
    if (event.type == EventType::connect_request) {
      ROCKHOPPER_TRY(accept_one(node, event, init, receives, channels));
    } else if (event.type == EventType::established) {
      ++established;
    } else {
      return tl::make_unexpected(describe(event));
    }
  }
  node.manager().stop_listening(node.service_id());
  return channels;
}

Expected<void> disconnect_channels(Node& node, const Channels& channels) {
  for (const auto& channel : channels) {
    if (channel->connection->state() == State::closed) continue;
    ROCKHOPPER_TRY(node.manager().disconnect(*channel->connection));
  }
  linger(node, channels);
  return {};
}

Expected<void> await_disconnects(Node& node, const Channels& channels) {
  const auto left = [](const auto& channel) {
    return channel->connection->state() != State::established;
  };
  ROCKHOPPER_TRY(node.wait([&] { return std::all_of(channels.begin(), channels.end(), left); },
                           "the peer to disconnect"));
  linger(node, channels);
  return {};
}

}  // namespace rockhopper::apps::cm
