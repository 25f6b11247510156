// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// One publisher and many subscribers, as two processes over memif:
//   publisher-feed publish [OPTIONS]
//   publisher-feed subscribe [OPTIONS] HOST
// Both print JSON: the publisher a line a window, with the processor time of its writer and of its
// engine apart; the subscribers what all of them together have received, and how old it was.
#include <exception>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/command_line.h"
#include "apps/common/endpoint.h"
#include "apps/common/option_set.h"
#include "apps/common/signals.h"
#include "bench/feed/publisher_side.h"
#include "bench/feed/stamp.h"
#include "bench/feed/subscriber_side.h"
#include "bench/support.h"

namespace {

using namespace rockhopper;
using bench::must;

constexpr std::uint16_t kPathMtu = 4096;

struct Options {
  std::string side;
  std::uint16_t port = 18520;
  double seconds = 1;
  bench::PublisherSideConfig publisher;
  bench::SubscriberSideConfig subscriber;
  double poll_max_us = 1000;
  apps::EndpointOptions endpoint;
};

void add_options(apps::OptionSet app, Options& options) {
  app.add_option("side", options.side, "publish or subscribe")
      .required()
      .one_of({"publish", "subscribe"});
  app.add_option("host", options.subscriber.host, "of the publisher");
  app.add_option("-p,--port", options.port, "TCP port of the publisher");
  app.add_option("--seconds", options.seconds, "of each measurement").range(0.01, 3600.0);
  const apps::OptionSet publisher = app.group("publish");
  publisher.add_option("--bytes", options.publisher.writer.bytes, "of a message")
      .range(sizeof(bench::Stamp), std::size_t{1} << 20);
  publisher.add_option("--burst", options.publisher.writer.burst, "messages shown at once")
      .range(1, 65536);
  publisher
      .add_option("--rate", options.publisher.writer.rate_per_s, "messages a second; 0: all it can")
      .range(0.0, 1e9);
  publisher.add_option("--writer-cpu", options.publisher.writer.cpu,
                       "the writer is a thread on this processor, not a part of the engine's");
  publisher.add_option("--rounds", options.publisher.rounds, "processes of subscribers, in turn")
      .range(1, 1000);
  publisher.add_flag("--alone", options.publisher.alone, "measure before each of them, too");
  publisher.add_option("--ring", options.publisher.ring_bytes,
                       "bytes of the store, a power of two");
  const apps::OptionSet subscriber = app.group("subscribe");
  subscriber
      .add_option("--subscribers", options.subscriber.subscribers, "connections of this process")
      .range(1, 1024);
  subscriber.add_flag("--latency", options.subscriber.latency, "from publishing to delivery");
  subscriber.add_flag("--stop", options.subscriber.stop, "stop the process once all of them read");
  subscriber.add_option("--batch", options.subscriber.reader.batch_bytes, "bytes of a READ")
      .range(4096, 1 << 26);
  subscriber
      .add_option("--poll-max", options.poll_max_us, "longest pause between READs, microseconds")
      .range(0.0, 1e6);
  apps::add_endpoint_options(app, options.endpoint);
}

Expected<apps::EndpointConfig> endpoint_config(const Options& options, bool embedded) {
  const apps::Role role = options.side == "publish" ? apps::Role::server : apps::Role::client;
  if ((role == apps::Role::client) == options.subscriber.host.empty()) {
    return fail(ErrorCode::invalid_argument,
                "a host is what subscribe needs, and publish does not");
  }
  return apps::make_endpoint_config(
      options.endpoint, {.role = role, .use_eal_ports = !embedded, .path_mtu = kPathMtu});
}

void run(Options options, const apps::EndpointConfig& config, const stack::Arguments& arguments) {
  auto endpoint = must(apps::Endpoint::create(config, arguments));
  if (options.side == "publish") {
    options.publisher.port = options.port;
    options.publisher.seconds = options.seconds;
    bench::PublisherSide(options.publisher, std::move(endpoint)).run();
    return;
  }
  options.subscriber.port = options.port;
  options.subscriber.path_mtu = kPathMtu;
  options.subscriber.seconds = options.seconds;
  options.subscriber.reader.poll_max_ns = static_cast<std::uint64_t>(options.poll_max_us * 1e3);
  bench::SubscriberSide side(options.subscriber, std::move(endpoint));
  side.run();
  fmt::print("{}\n", side.report().dump());
}

}  // namespace

int main(int argc, char** argv) {
  apps::CommandLine line(
      argc, argv, {"publisher-feed", "One publisher and many subscribers, and what it costs", ""});
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  auto config = endpoint_config(options, line.arguments().embedded);
  if (!config) return line.usage_error(config.error());
  apps::catch_stop_signals();
  try {
    run(options, *config, line.arguments());
  } catch (const std::exception& error) {
    return line.finish(fail(ErrorCode::io, "{}", error.what()));
  }
  return line.finish({});
}
