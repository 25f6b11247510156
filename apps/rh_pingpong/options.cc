// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_pingpong/options.h"

#include <map>
#include <string>

#include "roce/qp_attributes.h"

namespace rockhopper::apps::pingpong {
namespace {

constexpr int kSizeMax = 1 << 30;
/// That of ibv_srq_pingpong.
constexpr std::uint32_t kDefaultQueuePairs = 16;

}  // namespace

void add_options(OptionSet app, Options& options) {
  app.add_option("host", options.host,
                 "server to connect to (its TCP address); without it, be the server");
  app.add_option("-p,--port", options.port, "TCP port to exchange addresses on");
  static const std::map<std::string, Transport> kTransports = {{"rc", Transport::rc},
                                                               {"uc", Transport::uc},
                                                               {"ud", Transport::ud},
                                                               {"srq", Transport::srq},
                                                               {"dc", Transport::dc}};
  app.add_option_function(
         "--transport",
         [&options](const std::string& name) { options.transport = kTransports.at(name); },
         "service of the queue pairs, and so which stock tool can be the peer. srq: several of RC "
         "that share their receives. dc: dynamic connections (docs/dc.md), between two rh-pingpong")
      .one_of_keys(kTransports)
      .type_name("rc|uc|ud|srq|dc");
  const Option queue_pairs =
      app.add_option("-q,--num-qp", options.queue_pairs,
                     "srq: number of queue pairs (16); dc: of each end's targets (1)")
          .range(1, static_cast<int>(kMaxQueuePairs));
  add_initiator_options(app, options.initiator);
  const Option size =
      app.add_option("-s,--size", options.size, "bytes of a message").range(1, kSizeMax);
  app.add_option("-m,--mtu", options.path_mtu, "path MTU")
      .one_of({256, 512, 1024, 2048, 4096})
      .type_name("BYTES");
  const Option rx_depth = app.add_option("-r,--rx-depth", options.rx_depth,
                                         "receives posted at a time (dc: 4 for each target)")
                              .range(1, static_cast<int>(roce::kMaxQpWr));
  app.add_option("-n,--iters", options.iterations, "number of exchanges").positive();
  app.add_option("-l,--sl", options.service_level,
                 "service level: the 802.1p priority of tagged frames (--trust pcp)")
      .range(0, 7);
  app.add_flag("-e,--events", options.events, "sleep until completion events (default: poll)");
  app.add_option("-g,--gid-idx", options.gid_index,
                 "own address: 0 is the first --ip. Default: 0; a server answers in the client's "
                 "address family")
      .type_name("INDEX");
  app.add_flag("-c,--chk", options.check,
               "validate what is received, compatible with ibv_rc_pingpong -c");
  app.add_ignored_option("-i,--ib-port", "accepted for compatibility; a RoCE endpoint has one port")
      .type_name("N");
  app.add_option("--ack-timeout", options.ack_timeout, "local ACK timeout code: 4.096 us * 2^code")
      .range(1, 31);
  app.add_option("--timeout", options.timeout_s,
                 "give up when the peer has shown no sign of life for so long")
      .range(0.1, 86400.0)
      .type_name("SECONDS");
  app.add_flag("--json", options.json, "print one JSON object instead of text");
  app.on_complete([&options, size, queue_pairs, rx_depth] {
    if (options.transport == Transport::ud && !size.given()) {
      options.size = options.path_mtu;
    }
    if (options.transport == Transport::srq && !queue_pairs.given()) {
      options.queue_pairs = kDefaultQueuePairs;
    }
    if (options.transport == Transport::dc && !rx_depth.given()) {
      options.rx_depth = 4 * options.queue_pairs;
    }
  });
  add_endpoint_options(app, options.endpoint, "-d,--ib-dev,--device");
}

}  // namespace rockhopper::apps::pingpong
