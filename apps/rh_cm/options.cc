// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_cm/options.h"

#include <map>

#include "roce/qp_attributes.h"

namespace rockhopper::apps::cm {
namespace {

/// What the stock programs do without options.
struct Defaults {
  std::uint16_t port;
  std::uint64_t count;
  std::uint32_t size;
};

Defaults defaults_of(Play play) {
  switch (play) {
    case Play::rping:
      return {.port = 7174, .count = 0, .size = 64};
    case Play::ucmatose:
      return {.port = 7471, .count = 10, .size = 100};
    case Play::udaddy:
      return {.port = 7174, .count = 10, .size = 100};
    case Play::mckey:
      return {.port = 0, .count = 10, .size = 100};
    case Play::rdma_client:
      break;
  }
  return {.port = 7471, .count = 1, .size = 16};
}

constexpr std::uint32_t kRpingSizeMin = 16;
constexpr std::uint32_t kSizeMax = 1u << 30;

}  // namespace

std::string to_string(Play play) {
  switch (play) {
    case Play::rping:
      return "rping";
    case Play::ucmatose:
      return "ucmatose";
    case Play::udaddy:
      return "udaddy";
    case Play::mckey:
      return "mckey";
    case Play::rdma_client:
      break;
  }
  return "rdma_client";
}

std::uint16_t Options::service_port() const { return port.value_or(defaults_of(play).port); }
std::uint64_t Options::message_count() const { return count.value_or(defaults_of(play).count); }
std::uint32_t Options::message_size() const { return size.value_or(defaults_of(play).size); }

void add_options(OptionSet app, Options& options) {
  app.add_option("host", options.host,
                 "RDMA address of the server (IPv4 or IPv6); without it, be the server. mckey: "
                 "the multicast group")
      .type_name("ADDR");
  static const std::map<std::string, Play> kPlays = {{"rping", Play::rping},
                                                     {"ucmatose", Play::ucmatose},
                                                     {"udaddy", Play::udaddy},
                                                     {"mckey", Play::mckey},
                                                     {"rdma_client", Play::rdma_client},
                                                     {"rdma_server", Play::rdma_client}};
  app.add_option_function(
         "--as", [&options](const std::string& name) { options.play = kPlays.at(name); },
         "whose part to play, and so which stock program can be the peer: rping, ucmatose, udaddy, "
         "mckey, rdma_client (rdma_server is the same)")
      .one_of_keys(kPlays)
      .type_name("PROGRAM")
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
  app.add_option("-m,--mtu", options.path_mtu, "path MTU. Default: the link's largest")
      .one_of({256, 512, 1024, 2048, 4096})
      .type_name("BYTES");
  app.add_option("-a,--ack-timeout", options.ack_timeout,
                 "local ACK timeout code: 4.096 us * 2^code")
      .range(1, 31);
  app.add_option("--response-timeout", options.response_timeout,
                 "code for how long the peer's connection manager has to answer")
      .range(8, 31);
  app.add_option("--cm-retries", options.max_retries,
                 "times that a connection manager's message is sent again")
      .range(0, 15);
  app.add_option("--timeout", options.timeout_s,
                 "give up when nothing comes for so long; a server waits for its first client "
                 "without end")
      .range(0.1, 86400.0)
      .type_name("SECONDS");
  app.add_flag("--json", options.json, "print one JSON object instead of text");
  add_endpoint_options(app, options.endpoint, "-d,--device");
}

Expected<void> check(const Options& options) {
  if (options.play == Play::mckey) {
    const auto group = stack::IpAddress::parse(options.host);
    if (!group || !group->is_multicast()) {
      return fail(ErrorCode::invalid_argument,
                  "mckey needs a multicast group, such as 239.1.2.3 or ff0e::7, not \"{}\"",
                  options.host);
    }
    if (options.sender && options.connections != 1) {
      return fail(ErrorCode::invalid_argument, "--connections goes with receivers of mckey only");
    }
  } else if (options.sender) {
    return fail(ErrorCode::invalid_argument, "--sender goes with --as mckey only");
  } else if (options.role() == Role::client && !stack::IpAddress::parse(options.host)) {
    return fail(ErrorCode::invalid_argument,
                "{} is no IP address; give the server's RDMA address, such as 10.42.0.1",
                options.host);
  }
  if (options.play == Play::rping && options.message_size() < kRpingSizeMin) {
    return fail(ErrorCode::invalid_argument, "rping needs --size {} or more", kRpingSizeMin);
  }
  if (options.uc && options.play != Play::ucmatose) {
    return fail(ErrorCode::invalid_argument, "--uc goes with --as ucmatose only");
  }
  if (options.play != Play::rping && options.message_count() > roce::kMaxQpWr) {
    return fail(ErrorCode::invalid_argument, "--count: at most {} messages, all posted at once",
                roce::kMaxQpWr);
  }
  const std::uint64_t bytes = std::uint64_t{options.message_size()} * options.message_count();
  if (options.play != Play::rping && bytes > kSizeMax) {
    return fail(ErrorCode::invalid_argument, "--size times --count: at most {} bytes", kSizeMax);
  }
  return {};
}

}  // namespace rockhopper::apps::cm
