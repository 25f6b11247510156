// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/server.h"

#include <algorithm>

#include <fmt/format.h>

namespace rockhopper::apps::messages {

Server::Server(Node& node, const Options& options)
    : MeasuringServer(options, node), node_(node), ami_options_(options) {}

Expected<void> Server::greet() {
  ROCKHOPPER_TRY(node_.wait_for_link());
  const Offer offer{static_cast<std::uint16_t>(node_.path_mtu_max())};
  ROCKHOPPER_TRY(channel_->send("offer", fields_to_json(offer)));
  ROCKHOPPER_TRY(auto hello, channel_->receive<Hello>("hello"));
  const Agreement& agreement = hello.agreement;
  if (agreement.transport != options_.transport) {
    return fail(ErrorCode::invalid_argument, "the client has --transport {}, the server {}",
                name_of(agreement.transport), name_of(options_.transport));
  }
  if (agreement.path_mtu > offer.path_mtu) {
    return fail(ErrorCode::unsupported, "the client wants a path MTU of {}, more than {}",
                agreement.path_mtu, offer.path_mtu);
  }
  ROCKHOPPER_TRY(auto side, node_.prepare(agreement, kServerId, hello.side.gid.is_ipv4()));
  target_ = std::make_unique<Target>(node_);
  ROCKHOPPER_TRY(node_.connect(hello.side, kClientId));
  set_watch([this] { return look(); });
  return channel_->send("welcome", fields_to_json(Welcome{side}));
}

Expected<RunSpec> Server::run_from_json(const nlohmann::json& json) const {
  ROCKHOPPER_TRY(auto spec, fields_from_json<RunSpec>(json));
  if (spec.size <= std::max<std::uint32_t>(node_.agreement().size_max, sizeof(std::uint64_t))) {
    return spec;
  }
  return bad_message("size: is above what was agreed on");
}

Expected<void> Server::prepare(const RunSpec& spec) {
  instructions_.reset();
  target_->begin(spec);
  node_.set_work(target_.get());
  return {};
}

Expected<nlohmann::json> Server::serve(const RunSpec& spec) {
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
  node_.set_work(nullptr);
  handled_ += target_->handled();
  ROCKHOPPER_TRY(target_->finish(*instructions_));
  return nlohmann::json{{"handled", target_->handled()}};
}

Expected<void> Server::look() {
  ROCKHOPPER_TRY(look_for_stop());
  if (!stop() || instructions_) return {};
  ROCKHOPPER_TRY(auto told, fields_from_json<Stop>(*stop()));
  instructions_ = told.instructions;
  watch_->set_impatient(true);  // what has been sent is on its way
  return {};
}

std::string Server::served(const RunSpec& spec) const {
  return fmt::format("served {}, {} bytes{}", name_of(spec.operation), spec.size,
                     node_.agreement().check ? ": data is right" : "");
}

nlohmann::json Server::details() const {
  return {{"program", "rh-ami"},
          {"transport", name_of(options_.transport)},
          {"mode", name_of(ami_options_.completion)},
          {"threads", ami_options_.threads},
          {"handled", handled_},
          {"counters", node_.counters()}};
}

}  // namespace rockhopper::apps::messages
