// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/client.h"

#include <fmt/format.h>

#include "apps/rh_perf/lock_words.h"
#include "apps/rh_perf/messages.h"
#include "apps/rh_perf/report.h"

namespace rockhopper::apps::perf {

Client::Client(Backend& backend, const Options& options, std::uint64_t seed)
    : MeasuringClient(options, pump_, plan(options), seed),
      backend_(backend),
      perf_options_(options),
      pump_(backend) {}

/// What the server has agreed to, and the server's end.
Expected<Side> Client::agree() {
  agreement_ = propose(perf_options_, backend_);
  agreement_.size_max = size_max();
  ROCKHOPPER_TRY(layout_, Layout::make(agreement_));
  ROCKHOPPER_TRY(auto side, backend_.prepare(agreement_, layout_->bytes(), std::nullopt));
  ROCKHOPPER_TRY(channel_->send("hello", fields_to_json(PerfGreeting{agreement_, side})));
  ROCKHOPPER_TRY(auto welcome, channel_->receive<PerfGreeting>("welcome"));
  const Agreement& agreed = welcome.agreement;
  if (agreed.transport != agreement_.transport || agreed.lock_mode != agreement_.lock_mode ||
      agreed.qps != agreement_.qps || agreed.size_max != agreement_.size_max ||
      agreed.path_mtu > agreement_.path_mtu ||
      agreed.outstanding_reads > agreement_.outstanding_reads ||
      (agreed.selective_repeat && !agreement_.selective_repeat)) {
    return fail(ErrorCode::io, "the server agreed to something that was not asked for");
  }
  if (options_.path_mtu && agreed.path_mtu != *options_.path_mtu) {
    return fail(ErrorCode::unsupported, "the server's link has path MTU {}, not {}",
                agreed.path_mtu, *options_.path_mtu);
  }
  agreement_.path_mtu = agreed.path_mtu;
  agreement_.selective_repeat = agreed.selective_repeat;
  agreement_.outstanding_reads = agreed.outstanding_reads;
  ROCKHOPPER_TRY(check_side(welcome.side, agreement_, *layout_));
  return std::move(welcome.side);
}

Expected<void> Client::greet() {
  ROCKHOPPER_TRY(backend_.wait_for_link());
  ROCKHOPPER_TRY(auto remote, agree());
  ROCKHOPPER_TRY(backend_.connect(agreement_, remote));
  set_watch([this]() -> Expected<void> {
    if (!backend_.link_alive()) return fail(ErrorCode::io, "the link went down: the peer has gone");
    return channel_->check();
  });
  traffic_ = std::make_unique<Traffic>(backend_, agreement_, *layout_, remote, *watch_);
  pump_.set_traffic(traffic_.get());
  return {};
}

Expected<void> Client::begin(const RunSpec& spec) {
  ROCKHOPPER_TRY(traffic_->start(spec));
  return start(spec);
}

Expected<ResultLine> Client::measure(const RunSpec& spec) {
  ROCKHOPPER_TRY(begin(spec));
  ROCKHOPPER_TRY(auto measurement,
                 spec.kind == RunKind::latency
                     ? run_latency(*traffic_, spec)
                     : run_bandwidth(*traffic_, spec, perf_options_.cq_moderation));
  ROCKHOPPER_TRY(auto stopped, stop());
  Result result{spec, measurement, perf_options_.validate};
  if (perf_options_.validate && is_atomic(spec.operation)) {
    ROCKHOPPER_TRY(check_words(spec, stopped));
  }
  if (spec.operation == Operation::lock) {
    ROCKHOPPER_TRY(result.locks, lock_statistics_from_json(stopped));
  }
  if (spec.bidirectional) {
    ROCKHOPPER_TRY(auto other, fields_from_json<BothWays>(stopped));
    add(result.measurement, other.measurement);
  }
  if (perf_options_.validate) ROCKHOPPER_TRY(validate(spec));
  return ResultLine{result_json(result), table_row(result, options_.report_gbits)};
}

Expected<void> Client::check_words(const RunSpec& spec, const nlohmann::json& stopped) {
  ROCKHOPPER_TRY(auto words, words_from_json(stopped, agreement_));
  if (spec.operation == Operation::lock) {
    std::uint64_t scopes = 0;
    for (std::uint16_t qp = 0; qp < agreement_.qps; ++qp) {
      scopes += traffic_->posted(qp);
    }
    return check_lock_words(words, scopes);
  }
  for (std::uint16_t qp = 0; qp < agreement_.qps; ++qp) {
    if (words[qp] == traffic_->posted(qp)) continue;
    return fail(ErrorCode::io,
                "invalid data: {} atomics ({}) were executed on queue pair {}, not {}", words[qp],
                name_of(spec.operation), qp, traffic_->posted(qp));
  }
  return {};
}

Expected<void> Client::validate(const RunSpec& spec) {
  RunSpec pass = spec;
  pass.kind = RunKind::validation;
  pass.bidirectional = false;
  ROCKHOPPER_TRY(begin(pass));
  ROCKHOPPER_TRY(run_validation(*traffic_, pass));
  ROCKHOPPER_TRY(stop());
  return {};
}

std::string Client::title(const RunSpec& spec, bool) const {
  const std::string rule(87, '-');
  return fmt::format(
      "{}\n {}{} {} Test: {}, {} {}{}, {}path MTU {}, {}{}\n{}\n{}", rule, title_of(spec.operation),
      agreement_.lock_mode == LockMode::none ? ""
                                             : fmt::format(" {}", title_of(agreement_.lock_mode)),
      spec.kind == RunKind::latency ? "Latency" : "BW", title_of(agreement_.transport),
      agreement_.qps, agreement_.transport == Transport::dc ? "target" : "QP",
      agreement_.qps == 1 ? "" : "s",
      spec.kind == RunKind::latency ? "" : fmt::format("window {}, ", agreement_.window),
      agreement_.path_mtu, backend_.name(), spec.bidirectional ? ", bidirectional" : "", rule,
      table_header(spec.kind, options_.report_gbits));
}

nlohmann::json Client::details() const {
  return {{"program", "rh-perf"},
          {"backend", backend_.name()},
          {"transport", title_of(agreement_.transport)},
          {"lock_mode", name_of(agreement_.lock_mode)},
          {"qps", agreement_.qps},
          {"window", agreement_.window},
          {"path_mtu", agreement_.path_mtu},
          {"recovery",
           roce::to_string(agreement_.selective_repeat ? roce::RecoveryAlgorithm::selective_repeat
                                                       : roce::RecoveryAlgorithm::go_back_n)},
          {"bidirectional", perf_options_.bidirectional},
          {"seed", seed_}};
}

}  // namespace rockhopper::apps::perf
