// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/server.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "apps/common/version.h"
#include "apps/rh_perf/messages.h"
#include "apps/rh_perf/workload.h"

namespace rockhopper::apps::perf {
Server::Server(Backend& backend, const Options& options)
    : backend_(backend), options_(options), pump_(backend) {}

Expected<void> Server::run() {
  ROCKHOPPER_TRY(auto listener, TcpListener::open(options_.port));
  if (options_.port == 0) fmt::print(stderr, "listening on TCP port {}\n", listener.port());
  ROCKHOPPER_TRY(auto connection, listener.accept(pump_));
  channel_.emplace(std::move(connection), pump_);
  auto result = greet().and_then([this] { return serve(); });
  if (!result && pump_.error()) result = tl::make_unexpected(*pump_.error());
  if (!result) channel_->send_error(result.error());
  return result;
}

Expected<void> Server::greet() {
  ROCKHOPPER_TRY(backend_.wait_for_link());
  ROCKHOPPER_TRY(auto hello, channel_->receive("hello"));
  if (hello.value("version", 0) != kProtocolVersion) {
    return fail(ErrorCode::unsupported, "the client speaks another version of the protocol");
  }
  ROCKHOPPER_TRY(agreement_, agreement_from_json(hello.value("agreement", nlohmann::json())));
  if (agreement_.transport != options_.transport) {
    return fail(ErrorCode::invalid_argument, "the client has --transport {}, the server {}",
                to_string(agreement_.transport), to_string(options_.transport));
  }
  if (agreement_.lock_mode == LockMode::target && !backend_.has_locks()) {
    return fail(ErrorCode::unsupported,
                "--op lock: the server's {} executes no locks; --lock-mode cas does without",
                backend_.name());
  }
  ROCKHOPPER_TRY(auto remote, side_from_json(hello.value("side", nlohmann::json()), agreement_));
  ROCKHOPPER_TRY(layout_, Layout::make(agreement_));
  if (remote.bytes != layout_->bytes()) {
    return fail(ErrorCode::io,
                "the client's memory has {} bytes, not {}; are both ends of the "
                "same version?",
                remote.bytes, layout_->bytes());
  }
  agreement_.path_mtu =
      std::min(agreement_.path_mtu, static_cast<std::uint16_t>(backend_.path_mtu_max()));
  agreement_.selective_repeat = agreement_.selective_repeat && backend_.selective_repeat();
  agreement_.outstanding_reads =
      std::min(agreement_.outstanding_reads, backend_.outstanding_reads_max());
  ROCKHOPPER_TRY(auto side, backend_.prepare(agreement_, layout_->bytes(), remote.gid.is_ipv4()));
  ROCKHOPPER_TRY(backend_.connect(agreement_, remote));
  watch_ = std::make_unique<Watch>([this] { return look_for_stop(); },
                                   static_cast<std::uint64_t>(options_.timeout_s * 1e9));
  traffic_ = std::make_unique<Traffic>(backend_, agreement_, *layout_, remote, *watch_);
  pump_.set_traffic(traffic_.get());
  return channel_->send("welcome", {{"agreement", to_json(agreement_)}, {"side", to_json(side)}});
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
    ROCKHOPPER_TRY(auto spec, run_spec_from_json(message.body, agreement_));
    if (spec.operation == Operation::lock && spec.bidirectional && !backend_.has_locks()) {
      return fail(ErrorCode::unsupported, "--bidirectional: the server's {} asks for no locks",
                  backend_.name());
    }
    ROCKHOPPER_TRY(serve_run(spec));
    if (spec.kind == RunKind::validation && !options_.json) {
      fmt::print("served {}, {} bytes: data is right\n", title(spec.operation), spec.size);
      (void)std::fflush(stdout);
    }
  }
}

Expected<void> Server::serve_run(const RunSpec& spec) {
  stop_ = false;
  ROCKHOPPER_TRY(traffic_->start(spec));
  ROCKHOPPER_TRY(channel_->send("started", nlohmann::json::object()));
  nlohmann::json answer = nlohmann::json::object();
  if (spec.bidirectional && spec.kind == RunKind::bandwidth) {
    ROCKHOPPER_TRY(auto measurement, run_bandwidth(*traffic_, spec, options_.cq_moderation));
    answer["measurement"] = to_json(measurement);
  }
  ROCKHOPPER_TRY(serve_until_stop(spec));
  // All that the client knows to be done has left its completion here by now.
  for (bool more = true; more;) {
    ROCKHOPPER_TRY(more, traffic_->poll());
  }
  if (spec.kind == RunKind::validation) {
    ROCKHOPPER_TRY(traffic_->check_validation());
  } else if (is_atomic(spec.operation)) {
    answer["words"] = traffic_->target_words();
    if (spec.operation == Operation::lock) answer["locks"] = backend_.lock_statistics();
  }
  return channel_->send("stopped", answer);
}

Expected<void> Server::serve_until_stop(const RunSpec& spec) {
  PongServer pong(*traffic_, spec);
  while (!stop_) {
    ROCKHOPPER_TRY(traffic_->poll());
    if (spec.kind != RunKind::latency) continue;
    ROCKHOPPER_TRY(pong.turn());
  }
  return traffic_->drain();
}

Expected<void> Server::look_for_stop() {
  ROCKHOPPER_TRY(auto message, channel_->poll());
  if (!message) return {};
  if (message->type != "stop" || stop_) {
    return fail(ErrorCode::io, "the client sent \"{}\" in the middle of a run", message->type);
  }
  stop_ = true;
  return {};
}

nlohmann::json Server::report() const {
  return {{"program", "rh-perf"},
          {"version", kVersion},
          {"role", "server"},
          {"backend", backend_.name()},
          {"results", results_}};
}

}  // namespace rockhopper::apps::perf
