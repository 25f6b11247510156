// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Making and ending the connections that a program wants.
#include <algorithm>

#include "apps/cm/programs.h"

namespace rockhopper::apps::cm {

using roce::cm::Event;
using roce::cm::EventType;
using roce::cm::State;

namespace {

constexpr std::uint32_t kBacklog = 128;

Expected<void> post_receives(CmChannel& channel, std::uint64_t count) {
  for (std::uint64_t index = 0; index < count; ++index) {
    if (auto posted = channel.post_receive(index); !posted) return posted;
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
  auto channel = CmChannel::create(node, init);
  if (!channel) return tl::make_unexpected(channel.error());
  if (auto posted = post_receives(**channel, receives); !posted) return posted;
  auto accepted = node.manager().accept(connection, (*channel)->qp(), node.qp_parameters());
  if (!accepted) return accepted;
  (*channel)->connection = &connection;
  channels.push_back(std::move(*channel));
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
  auto path = node.path_to_server();
  if (!path) return tl::make_unexpected(path.error());
  Channels channels;
  for (std::uint32_t i = 0; i < node.options().connections; ++i) {
    auto channel = CmChannel::create(node, init);
    if (!channel) return tl::make_unexpected(channel.error());
    if (auto posted = post_receives(**channel, receives); !posted) {
      return tl::make_unexpected(posted.error());
    }
    const auto header = node.ip_header(*path);
    auto connection = node.manager().connect((*channel)->qp(), {.path = *path,
                                                                .pkey_index = node.pkey_index(),
                                                                .service_id = node.service_id(),
                                                                .path_mtu = node.options().path_mtu,
                                                                .private_data = header,
                                                                .qp = node.qp_parameters()});
    if (!connection) return tl::make_unexpected(connection.error());
    (*channel)->connection = *connection;
    channels.push_back(std::move(*channel));
  }
  for (std::size_t established = 0; established < channels.size(); ++established) {
    auto event = node.wait_event("the server's answer");
    if (!event) return tl::make_unexpected(event.error());
    if (event->type != EventType::established) return tl::make_unexpected(describe(*event));
  }
  return channels;
}

Expected<Channels> accept_channels(Node& node, const CmChannelInit& init, std::uint64_t receives) {
  if (auto listening = node.listen(kBacklog); !listening) {
    return tl::make_unexpected(listening.error());
  }
  Channels channels;
  std::size_t established = 0;
  while (established < node.options().connections) {
    auto event = node.wait_event("a client", channels.empty());
    if (!event) return tl::make_unexpected(event.error());
    if (event->type == EventType::connect_request) {
      if (auto accepted = accept_one(node, *event, init, receives, channels); !accepted) {
        return tl::make_unexpected(accepted.error());
      }
    } else if (event->type == EventType::established) {
      ++established;
    } else {
      return tl::make_unexpected(describe(*event));
    }
  }
  node.manager().stop_listening(node.service_id());
  return channels;
}

Expected<void> disconnect_channels(Node& node, const Channels& channels) {
  for (const auto& channel : channels) {
    if (channel->connection->state() == State::closed) continue;
    if (auto ended = node.manager().disconnect(*channel->connection); !ended) return ended;
  }
  linger(node, channels);
  return {};
}

Expected<void> await_disconnects(Node& node, const Channels& channels) {
  const auto left = [](const auto& channel) {
    return channel->connection->state() != State::established;
  };
  auto waited = node.wait([&] { return std::all_of(channels.begin(), channels.end(), left); },
                          "the peer to disconnect");
  if (!waited) return waited;
  linger(node, channels);
  return {};
}

}  // namespace rockhopper::apps::cm
