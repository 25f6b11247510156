// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/common/cm_channel.h"
#include "apps/rh_cm/node.h"

namespace rockhopper::apps::cm {

struct Result {
  std::uint64_t connections = 0;
  std::uint64_t messages = 0;  ///< received; rping: pings
  std::uint64_t checked = 0;   ///< of these, whose content was checked
  double seconds = 0;          ///< from the first connection to the last message
};

/// The part of rping: the server reads the client's buffer, and writes it back.
[[nodiscard]] Expected<Result> run_rping(Node& node);
/// The part of ucmatose: the server sends on each connection, then the client.
[[nodiscard]] Expected<Result> run_ucmatose(Node& node);
/// The part of udaddy: the client sends datagrams to each queue pair it was told of, then the
/// server.
[[nodiscard]] Expected<Result> run_udaddy(Node& node);
/// The part of mckey: one end sends datagrams to a multicast group, the others receive them.
[[nodiscard]] Expected<Result> run_mckey(Node& node);
/// The part of rdma_client and rdma_server: one message there and one back.
[[nodiscard]] Expected<Result> run_rdma_client(Node& node);

using Channels = std::vector<std::unique_ptr<CmChannel>>;

/// Makes the connections of the options, as many as they say, each with its receives posted.
[[nodiscard]] Expected<Channels> connect_channels(Node& node, const CmChannelInit& init,
                                                  std::uint64_t receives);
/// Takes as many from clients; refuses more.
[[nodiscard]] Expected<Channels> accept_channels(Node& node, const CmChannelInit& init,
                                                 std::uint64_t receives);
/// Ends those that the peer has not ended, and stays while something of them can still arrive.
[[nodiscard]] Expected<void> disconnect_channels(Node& node, const Channels& channels);
/// Waits until the peer has ended them all, and stays while something of them can still arrive.
[[nodiscard]] Expected<void> await_disconnects(Node& node, const Channels& channels);

}  // namespace rockhopper::apps::cm
