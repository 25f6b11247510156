// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_pingpong/options.h"

#include <fmt/format.h>

#include "apps/common/measuring_options.h"
#include "roce/qp_attributes.h"

namespace rockhopper::apps::pingpong {
namespace {

constexpr int kSizeMax = 1 << 30;
/// That of ibv_srq_pingpong.
constexpr std::uint32_t kDefaultQueuePairs = 16;

Expected<void> check(const Options& options) {
  return refuse_if({
      {!info(options.transport).shares_receives && options.queue_pairs > 1,
       fmt::format("--num-qp {} needs --transport srq or dc", options.queue_pairs)},
      {options.transport != Transport::dc && !options.initiator.are_default(),
       "--streams and --handshake are for --transport dc"},
      {options.initiator.streams > options.queue_pairs,
       fmt::format("--streams {} needs --num-qp of as much or more", options.initiator.streams)},
      {options.queue_pairs > options.rx_depth,
       fmt::format("--num-qp {} needs --rx-depth of as much or more", options.queue_pairs)},
      {options.transport == Transport::ud && options.size > options.path_mtu,
       fmt::format("a datagram is one packet: --size {} needs --mtu of as much or more",
                   options.size)},
  });
}

}  // namespace

void add_options(const OptionSet& app, Options& options) {
  app.add_option("host", options.host,
                 "server to connect to (its TCP address); without it, be the server");
  app.add_option("-p,--port", options.port, "TCP port to exchange addresses on");
  app.add_option(
         "--transport rc|uc|ud|srq|dc", options.transport,
         "service of the queue pairs, and so which stock tool can be the peer. srq: several of RC "
         "that share their receives. dc: dynamic connections (docs/dc.md), between two rh-pingpong")
      .default_text("");
  const Option queue_pairs =
      app.add_option("-q,--num-qp", options.queue_pairs,
                     "srq: number of queue pairs (16); dc: of each end's targets (1)")
          .range(1, static_cast<int>(kMaxQueuePairs));
  add_initiator_options(app, options.initiator);
  const Option size =
      app.add_option("-s,--size", options.size, "bytes of a message").range(1, kSizeMax);
  add_path_mtu_option(app, options.path_mtu, "path MTU");
  const Option rx_depth = app.add_option("-r,--rx-depth", options.rx_depth,
                                         "receives posted at a time (dc: 4 for each target)")
                              .range(1, static_cast<int>(roce::kMaxQpWr));
  app.add_option("-n,--iters", options.iterations, "number of exchanges")
      .range(std::uint64_t{1}, kIterationsMax);
  app.add_option("-l,--sl", options.service_level,
                 "service level: the 802.1p priority of tagged frames (--trust pcp)")
      .range(0, 7);
  app.add_flag("-e,--events", options.events, "sleep until completion events (default: poll)");
  app.add_option("-g,--gid-idx INDEX", options.gid_index,
                 "own address: 0 is the first --ip. Default: 0; a server answers in the client's "
                 "address family");
  app.add_flag("-c,--chk", options.check,
               "validate what is received, compatible with ibv_rc_pingpong -c");
  app.add_ignored_option("-i,--ib-port N",
                         "accepted for compatibility; a RoCE endpoint has one port");
  add_ack_timeout_option(app, "--ack-timeout", options.ack_timeout);
  add_seconds_option(app, "--timeout", options.timeout_s,
                     "give up when the peer has shown no sign of life for so long");
  app.add_flag("--json", options.json, "print one JSON object instead of text");
  add_endpoint_options(app, options.endpoint, "-d,--ib-dev,--device");
  app.check([&options, size, queue_pairs, rx_depth]() -> Expected<void> {
    const Transport transport = options.transport;
    if (transport == Transport::ud && !size.given()) options.size = options.path_mtu;
    if (transport == Transport::srq && !queue_pairs.given()) {
      options.queue_pairs = kDefaultQueuePairs;
    }
    if (transport == Transport::dc && !rx_depth.given()) options.rx_depth = 4 * options.queue_pairs;
    return check(options);
  });
}

}  // namespace rockhopper::apps::pingpong
