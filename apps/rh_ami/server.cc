// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/server.h"

#include <cstdio>

#include <fmt/format.h>

#include "apps/common/version.h"

namespace rockhopper::apps::messages {

Server::Server(Node& node, const Options& options) : node_(node), options_(options) {}

Expected<void> Server::run() {
  ROCKHOPPER_TRY(auto listener, TcpListener::open(options_.port));
  if (options_.port == 0) fmt::print(stderr, "listening on TCP port {}\n", listener.port());
  ROCKHOPPER_TRY(auto connection, listener.accept(node_));
  channel_.emplace(std::move(connection), node_);
  auto result = greet().and_then([this] { return serve(); });
  node_.set_work(nullptr);
  if (!result) channel_->send_error(result.error());
  return result;
}

Expected<void> Server::greet() {
  ROCKHOPPER_TRY(node_.wait_for_link());
  const nlohmann::json offer{{"version", kProtocolVersion}, {"path_mtu", node_.path_mtu_max()}};
  ROCKHOPPER_TRY(channel_->send("offer", offer));
  ROCKHOPPER_TRY(auto hello, channel_->receive("hello"));
  ROCKHOPPER_TRY(auto agreement, agreement_from_json(hello.value("agreement", nlohmann::json())));
  if (agreement.transport != options_.transport) {
    return fail(ErrorCode::invalid_argument, "the client has --transport {}, the server {}",
                to_string(agreement.transport), to_string(options_.transport));
  }
  if (agreement.path_mtu > node_.path_mtu_max()) {
    return fail(ErrorCode::unsupported, "the client wants a path MTU of {}, more than {}",
                agreement.path_mtu, node_.path_mtu_max());
  }
  ROCKHOPPER_TRY(auto remote, side_from_json(hello.value("side", nlohmann::json())));
  ROCKHOPPER_TRY(auto side, node_.prepare(agreement, kServerId, remote.gid.is_ipv4()));
  target_ = std::make_unique<Target>(node_);
  ROCKHOPPER_TRY(node_.connect(remote, kClientId));
  watch_ = std::make_unique<Watch>([this] { return look_for_stop(); },
                                   static_cast<std::uint64_t>(options_.timeout_s * 1e9));
  return channel_->send("welcome", {{"side", to_json(side)}});
}

Expected<void> Server::serve() {
  for (;;) {
    ROCKHOPPER_TRY(auto message, channel_->receive_any());
    if (message.type == "end") {
      results_ = message.body.value("results", nlohmann::json::array());
      return channel_->send("ended", nlohmann::json::object());
    }
    if (message.type != "start") {
      return fail(ErrorCode::io, "the client sent \"{}\" where \"start\" was due", message.type);
    }
    ROCKHOPPER_TRY(auto spec, run_spec_from_json(message.body, node_.agreement()));
    ROCKHOPPER_TRY(serve_run(spec));
    if (!options_.json) {
      fmt::print("served {}, {} bytes{}\n", to_string(spec.operation), spec.size,
                 node_.agreement().check ? ": data is right" : "");
      (void)std::fflush(stdout);
    }
  }
}

Expected<void> Server::serve_run(const RunSpec& spec) {
  instructions_.reset();
  target_->begin(spec);
  node_.set_work(target_.get());
  ROCKHOPPER_TRY(channel_->send("started", nlohmann::json::object()));
  ROCKHOPPER_TRY(serve_until_stop(spec));
  node_.set_work(nullptr);
  handled_ += target_->handled();
  ROCKHOPPER_TRY(target_->finish(*instructions_));
  return channel_->send("stopped", {{"handled", target_->handled()}});
}

Expected<void> Server::serve_until_stop(const RunSpec& spec) {
  const bool messages = spec.operation == Operation::am_lat || spec.operation == Operation::am_bw;
  std::uint64_t seen = 0;
  watch_->set_impatient(false);
  while (!instructions_ || (messages && target_->handled() < *instructions_)) {
    (void)node_.turn();
    ROCKHOPPER_TRY(watch_->turn(target_->handled() != seen));
    seen = target_->handled();
  }
  if (messages && target_->handled() != *instructions_) {
    return fail(ErrorCode::io, "{} messages were sent, {} have been handled", *instructions_,
                target_->handled());
  }
  return {};
}

Expected<void> Server::look_for_stop() {
  ROCKHOPPER_TRY(auto message, channel_->poll());
  if (!message) return {};
  if (message->type != "stop" || instructions_) {
    return fail(ErrorCode::io, "the client sent \"{}\" in the middle of a run", message->type);
  }
  ROCKHOPPER_TRY(instructions_, number_from_json(message->body, "instructions"));
  watch_->set_impatient(true);  // what has been sent is on its way
  return {};
}

nlohmann::json Server::report() const {
  return {{"program", "rh-ami"},
          {"version", kVersion},
          {"role", "server"},
          {"transport", to_string(options_.transport)},
          {"mode", to_string(options_.completion)},
          {"threads", options_.threads},
          {"handled", handled_},
          {"counters", node_.counters()},
          {"results", results_}};
}

}  // namespace rockhopper::apps::messages
