// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/client.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "apps/common/version.h"
#include "apps/rh_perf/lock_words.h"
#include "apps/rh_perf/messages.h"

namespace rockhopper::apps::perf {
Client::Client(Backend& backend, const Options& options, std::uint64_t seed)
    : backend_(backend), options_(options), seed_(seed), pump_(backend) {}

Expected<void> Client::run() {
  auto result = connect().and_then([this] { return run_all(); });
  // The first cause: a failed completion met while waiting for the server.
  if (!result && pump_.error()) result = tl::make_unexpected(*pump_.error());
  if (!result && channel_) channel_->send_error(result.error());
  return result;
}

Expected<void> Client::connect() {
  const auto timeout_ms = static_cast<std::uint32_t>(options_.endpoint.connect_timeout_s * 1000);
  ROCKHOPPER_TRY(auto connection,
                 TcpConnection::connect(options_.host, options_.port, timeout_ms, pump_));
  channel_.emplace(std::move(connection), pump_);
  ROCKHOPPER_TRY(backend_.wait_for_link());

  agreement_ = propose(options_, backend_);
  for (const RunSpec& spec : plan(options_)) {
    agreement_.size_max = std::max(agreement_.size_max, spec.size);
  }
  ROCKHOPPER_TRY(layout_, Layout::make(agreement_));
  return greet();
}

Expected<void> Client::greet() {
  ROCKHOPPER_TRY(side_, backend_.prepare(agreement_, layout_->bytes(), std::nullopt));
  const nlohmann::json hello{
      {"version", kProtocolVersion}, {"agreement", to_json(agreement_)}, {"side", to_json(side_)}};
  ROCKHOPPER_TRY(channel_->send("hello", hello));
  ROCKHOPPER_TRY(auto welcome, channel_->receive("welcome"));
  ROCKHOPPER_TRY(auto agreed, agreement_from_json(welcome.value("agreement", nlohmann::json())));
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
  ROCKHOPPER_TRY(auto remote, side_from_json(welcome.value("side", nlohmann::json()), agreement_));
  if (remote.bytes != layout_->bytes()) {
    return fail(ErrorCode::io,
                "the server's memory has {} bytes, not {}; are both ends of the "
                "same version?",
                remote.bytes, layout_->bytes());
  }
  ROCKHOPPER_TRY(backend_.connect(agreement_, remote));
  watch_ = std::make_unique<Watch>(
      [this]() -> Expected<void> {
        if (!backend_.link_alive()) {
          return fail(ErrorCode::io, "the link went down: the peer has gone");
        }
        return channel_->check();
      },
      static_cast<std::uint64_t>(options_.timeout_s * 1e9));
  traffic_ = std::make_unique<Traffic>(backend_, agreement_, *layout_, remote, *watch_);
  pump_.set_traffic(traffic_.get());
  return {};
}

Expected<void> Client::run_all() {
  std::optional<RunSpec> last;
  std::uint64_t number = 0;
  for (RunSpec spec : plan(options_)) {
    spec.seed = seed_ + number++;
    if (!options_.json && (!last || last->operation != spec.operation)) print_title(spec);
    last = spec;
    ROCKHOPPER_TRY(auto measurement, measure(spec));
    if (options_.validate) ROCKHOPPER_TRY(validate(spec));
    results_.push_back({spec, measurement, options_.validate, lock_statistics_});
    if (!options_.json) {
      fmt::print("{}\n", table_row(results_.back(), options_.report_gbits));
      (void)std::fflush(stdout);
    }
  }
  ROCKHOPPER_TRY(channel_->send("end", {{"results", report()["results"]}}));
  ROCKHOPPER_TRY(channel_->receive("ended"));
  return {};
}

Expected<void> Client::start(const RunSpec& spec) {
  ROCKHOPPER_TRY(traffic_->start(spec));
  ROCKHOPPER_TRY(channel_->send("start", to_json(spec)));
  ROCKHOPPER_TRY(channel_->receive("started"));
  return {};
}

Expected<nlohmann::json> Client::stop() {
  ROCKHOPPER_TRY(channel_->send("stop", nlohmann::json::object()));
  return channel_->receive("stopped");
}

Expected<Measurement> Client::measure(const RunSpec& spec) {
  ROCKHOPPER_TRY(start(spec));
  ROCKHOPPER_TRY(auto measurement, spec.kind == RunKind::latency
                                       ? run_latency(*traffic_, spec)
                                       : run_bandwidth(*traffic_, spec, options_.cq_moderation));
  ROCKHOPPER_TRY(auto stopped, stop());
  if (options_.validate && is_atomic(spec.operation)) ROCKHOPPER_TRY(check_words(spec, stopped));
  if (spec.operation == Operation::lock) {
    ROCKHOPPER_TRY(lock_statistics_, lock_statistics_from_json(stopped));
  }
  if (spec.bidirectional) {
    ROCKHOPPER_TRY(auto other,
                   measurement_from_json(stopped.value("measurement", nlohmann::json())));
    // The sum of both rates, over the time that the sum of both counts takes at it.
    const double rate = operations_per_s(measurement) + operations_per_s(other);
    measurement.operations += other.operations;
    measurement.seconds = static_cast<double>(measurement.operations) / rate;
    measurement.peak_operations_per_s += other.peak_operations_per_s;
    measurement.packets_per_operation = 0;  // whose packets they are nobody knows
  }
  return measurement;
}

Expected<void> Client::check_words(const RunSpec& spec, const nlohmann::json& stopped) {
  ROCKHOPPER_TRY(auto words, words_from_json(stopped, agreement_));
  if (spec.operation == Operation::lock) {
    std::uint64_t scopes = 0;
    for (std::uint16_t qp = 0; qp < agreement_.qps; ++qp) scopes += traffic_->posted(qp);
    return check_lock_words(words, scopes);
  }
  for (std::uint16_t qp = 0; qp < agreement_.qps; ++qp) {
    if (words[qp] == traffic_->posted(qp)) continue;
    return fail(ErrorCode::io,
                "invalid data: {} atomics ({}) were executed on queue pair {}, not {}", words[qp],
                to_string(spec.operation), qp, traffic_->posted(qp));
  }
  return {};
}

Expected<void> Client::validate(const RunSpec& spec) {
  RunSpec pass = spec;
  pass.kind = RunKind::validation;
  pass.bidirectional = false;
  ROCKHOPPER_TRY(start(pass));
  ROCKHOPPER_TRY(run_validation(*traffic_, pass));
  ROCKHOPPER_TRY(stop());
  return {};
}

void Client::print_title(const RunSpec& spec) const {
  const std::string rule(87, '-');
  fmt::print(
      "{}\n {}{} {} Test: {}, {} {}{}, {}path MTU {}, {}{}\n{}\n{}\n", rule, title(spec.operation),
      agreement_.lock_mode == LockMode::none ? "" : fmt::format(" {}", title(agreement_.lock_mode)),
      spec.kind == RunKind::latency ? "Latency" : "BW", title(agreement_.transport), agreement_.qps,
      agreement_.transport == Transport::dc ? "target" : "QP", agreement_.qps == 1 ? "" : "s",
      spec.kind == RunKind::latency ? "" : fmt::format("window {}, ", agreement_.window),
      agreement_.path_mtu, backend_.name(), spec.bidirectional ? ", bidirectional" : "", rule,
      table_header(spec.kind, options_.report_gbits));
}

nlohmann::json Client::report() const {
  nlohmann::json results = nlohmann::json::array();
  for (const Result& result : results_) results.push_back(result_json(result));
  return {{"program", "rh-perf"},
          {"version", kVersion},
          {"role", "client"},
          {"backend", backend_.name()},
          {"transport", title(agreement_.transport)},
          {"lock_mode", to_string(agreement_.lock_mode)},
          {"qps", agreement_.qps},
          {"window", agreement_.window},
          {"path_mtu", agreement_.path_mtu},
          {"recovery",
           roce::to_string(agreement_.selective_repeat ? roce::RecoveryAlgorithm::selective_repeat
                                                       : roce::RecoveryAlgorithm::go_back_n)},
          {"bidirectional", options_.bidirectional},
          {"seed", seed_},
          {"results", std::move(results)}};
}

}  // namespace rockhopper::apps::perf
