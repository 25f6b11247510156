// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_cm/options.h"

#include <array>

#include <fmt/format.h>

#include "roce/qp_attributes.h"

namespace rockhopper::apps::cm {
namespace {

/// What the stock programs do without options.
struct Defaults {
  std::uint16_t port;
  std::uint64_t count;
  std::uint32_t size;
};
constexpr std::array kDefaults = {
    Defaults{.port = 7174, .count = 0, .size = 64},    // rping
    Defaults{.port = 7471, .count = 10, .size = 100},  // ucmatose
    Defaults{.port = 7174, .count = 10, .size = 100},  // udaddy
    Defaults{.port = 0, .count = 10, .size = 100},     // mckey
    Defaults{.port = 7471, .count = 1, .size = 16},    // rdma_client
};

const Defaults& defaults_of(Play play) { return kDefaults[static_cast<std::size_t>(play)]; }

constexpr std::uint32_t kRpingSizeMin = 16;
constexpr std::uint32_t kSizeMax = 1u << 30;

Expected<void> check(const Options& options) {
  const bool mckey = options.play == Play::mckey;
  const bool rping = options.play == Play::rping;
  const auto address = stack::IpAddress::parse(options.host);
  const bool client = !mckey && options.role() == Role::client;
  const std::uint64_t bytes = std::uint64_t{options.message_size()} * options.message_count();
  return refuse_if({
      {mckey && !(address && address->is_multicast()),
       fmt::format("mckey needs a multicast group, such as 239.1.2.3 or ff0e::7, not \"{}\"",
                   options.host)},
      {mckey && options.sender && options.connections != 1,
       "--connections goes with receivers of mckey only"},
      {!mckey && options.sender, "--sender goes with --as mckey only"},
      {client && !address,
       fmt::format("{} is no IP address; give the server's RDMA address, such as 10.42.0.1",
                   options.host)},
      {rping && options.message_size() < kRpingSizeMin,
       fmt::format("rping needs --size {} or more", kRpingSizeMin)},
      {options.uc && options.play != Play::ucmatose, "--uc goes with --as ucmatose only"},
      {!rping && options.message_count() > roce::kMaxQpWr,
       fmt::format("--count: at most {} messages, all posted at once", roce::kMaxQpWr)},
      {!rping && bytes > kSizeMax, fmt::format("--size times --count: at most {} bytes", kSizeMax)},
  });
}

}  // namespace

std::uint16_t Options::service_port() const { return port.value_or(defaults_of(play).port); }
std::uint64_t Options::message_count() const { return count.value_or(defaults_of(play).count); }
std::uint32_t Options::message_size() const { return size.value_or(defaults_of(play).size); }

void add_options(const OptionSet& app, Options& options) {
  app.add_option("host ADDR", options.host,
                 "RDMA address of the server (IPv4 or IPv6); without it, be the server. mckey: the "
                 "multicast group");
  app.add_option_function(
         "--as PROGRAM",
         [&options](const std::string& name) {
           options.play = parse_name<Play>(name).value_or(Play::rdma_client);
         },
         "whose part to play, and so which stock program can be the peer: rping, ucmatose, udaddy, "
         "mckey, rdma_client (rdma_server is the same)")
      .one_of({"mckey", "rdma_client", "rdma_server", "rping", "ucmatose", "udaddy"})
      .default_text("rping");
  app.add_option("-p,--port", options.port,
                 "port of the service ID. Default: 7174 for rping and udaddy, else 7471");
  app.add_option("-c,--connections", options.connections,
                 "ucmatose, udaddy: number of connections; receiving mckey: queue pairs that each "
                 "get all messages")
      .range(1, 4096);
  app.add_option("-C,--count", options.count,
                 "rping: number of pings, without end by default; ucmatose, udaddy: messages of "
                 "each connection and direction, 10 by default");
  app.add_option("-S,--size", options.size, "bytes of a message. Default: 64 for rping, else 100")
      .range(std::uint32_t{0}, kSizeMax);
  app.add_flag("-V,--verify", options.verify,
               "check what is received. Of ucmatose, udaddy and rdma_client only rh-cm sends "
               "something that can be checked");
  app.add_flag("-P,--persistent", options.persistent,
               "rping server: go on with the next client when one has left");
  app.add_flag("--sender", options.sender, "mckey: send to the group instead of receiving");
  app.add_flag("--uc", options.uc, "ucmatose: queue pairs of UC (both ends rh-cm)");
  add_path_mtu_option(app, options.path_mtu, "path MTU. Default: the link's largest");
  add_ack_timeout_option(app, "-a,--ack-timeout", options.ack_timeout);
  app.add_option("--response-timeout", options.response_timeout,
                 "code for how long the peer's connection manager has to answer")
      .range(8, 31);
  app.add_option("--cm-retries", options.max_retries,
                 "times that a connection manager's message is sent again")
      .range(0, 15);
  add_seconds_option(app, "--timeout", options.timeout_s,
                     "give up when nothing comes for so long; a server waits for its first client "
                     "without end");
  app.add_flag("--json", options.json, "print one JSON object instead of text");
  add_endpoint_options(app, options.endpoint);
  app.check([&options] { return check(options); });
}

}  // namespace rockhopper::apps::cm
