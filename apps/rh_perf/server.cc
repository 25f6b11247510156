// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/server.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/rh_perf/messages.h"
#include "apps/rh_perf/workload.h"

namespace rockhopper::apps::perf {

Server::Server(Backend& backend, const Options& options)
    : MeasuringServer(options, pump_), backend_(backend), perf_options_(options), pump_(backend) {}

Expected<void> Server::greet() {
  ROCKHOPPER_TRY(backend_.wait_for_link());
  ROCKHOPPER_TRY(auto hello, channel_->receive<PerfGreeting>("hello"));
  agreement_ = hello.agreement;
  if (agreement_.transport != options_.transport) {
    return fail(ErrorCode::invalid_argument, "the client has --transport {}, the server {}",
                name_of(agreement_.transport), name_of(options_.transport));
  }
  if (agreement_.lock_mode == LockMode::target && !backend_.has_locks()) {
    return fail(ErrorCode::unsupported,
                "--op lock: the server's {} executes no locks; --lock-mode cas does without",
                backend_.name());
  }
  ROCKHOPPER_TRY(layout_, Layout::make(agreement_));
  ROCKHOPPER_TRY(check_side(hello.side, agreement_, *layout_));
  agreement_.path_mtu =
      std::min(agreement_.path_mtu, static_cast<std::uint16_t>(backend_.path_mtu_max()));
  agreement_.selective_repeat = agreement_.selective_repeat && backend_.selective_repeat();
  agreement_.outstanding_reads =
      std::min(agreement_.outstanding_reads, backend_.outstanding_reads_max());
  ROCKHOPPER_TRY(auto side,
                 backend_.prepare(agreement_, layout_->bytes(), hello.side.gid.is_ipv4()));
  ROCKHOPPER_TRY(backend_.connect(agreement_, hello.side));
  set_watch([this] { return look_for_stop(); });
  traffic_ = std::make_unique<Traffic>(backend_, agreement_, *layout_, hello.side, *watch_);
  pump_.set_traffic(traffic_.get());
  return channel_->send("welcome", fields_to_json(PerfGreeting{agreement_, side}));
}

Expected<RunSpec> Server::run_from_json(const nlohmann::json& json) const {
  ROCKHOPPER_TRY(auto spec, run_spec_from_json(json, agreement_));
  if (spec.operation == Operation::lock && spec.bidirectional && !backend_.has_locks()) {
    return fail(ErrorCode::unsupported, "--bidirectional: the server's {} asks for no locks",
                backend_.name());
  }
  return spec;
}

Expected<void> Server::prepare(const RunSpec& spec) { return traffic_->start(spec); }

Expected<nlohmann::json> Server::serve(const RunSpec& spec) {
  nlohmann::json answer = nlohmann::json::object();
  if (spec.bidirectional && spec.kind == RunKind::bandwidth) {
    ROCKHOPPER_TRY(auto measurement, run_bandwidth(*traffic_, spec, perf_options_.cq_moderation));
    answer = fields_to_json(BothWays{measurement});
  }
  PongServer pong(*traffic_, spec);
  while (!stop()) {
    ROCKHOPPER_TRY(traffic_->poll());
    if (spec.kind == RunKind::latency) ROCKHOPPER_TRY(pong.turn());
  }
  ROCKHOPPER_TRY(traffic_->drain());
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
  return answer;
}

std::string Server::served(const RunSpec& spec) const {
  if (spec.kind != RunKind::validation) return {};
  return fmt::format("served {}, {} bytes: data is right", title_of(spec.operation), spec.size);
}

nlohmann::json Server::details() const {
  return {{"program", "rh-perf"}, {"backend", backend_.name()}};
}

}  // namespace rockhopper::apps::perf
