// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/control_channel.h"
#include "apps/common/fields.h"
#include "apps/common/latency_histogram.h"
#include "apps/common/measuring_options.h"
#include "apps/common/version.h"
#include "apps/common/watch.h"

namespace rockhopper::apps {

/// What the two ends of a measurement say to each other by TCP: one JSON object a line. The client
/// speaks first.
///
///   client {"hello": {"version": V, "agreement": {...}, "side": {...}}}
///   server {"welcome": the same}: its queue pairs are in RTS
///   client {"start": {run}}
///   server {"started": {}}: receives are posted, and memory is ready
///   client {"stop": {...}}
///   server {"stopped": {...}}: the data has been checked
///   client {"end": {"results": [...]}}
///   server {"ended": {}}
///
/// Either end sends {"error": "why"} instead when it gives up.
template <typename Agreement, typename Side, std::uint64_t kProtocol>
struct Greeting {
  Agreement agreement{};
  Side side{};

  void describe(Fields& fields) {
    fields.constant("version", kProtocol);
    fields.object("agreement", agreement);
    fields.object("side", side);
  }
};

/// A run's result, for --json and for the table.
struct ResultLine {
  nlohmann::json json;
  std::string row;
};

/// The members of --json that tell about latencies, in microseconds.
[[nodiscard]] nlohmann::json latency_json(const LatencySummary& latency);

/// What both ends of a measurement do alike. `Run` is one run as both ends know it.
template <typename Run>
class MeasuringEnd {
 public:
  MeasuringEnd(const MeasuringEnd&) = delete;
  MeasuringEnd& operator=(const MeasuringEnd&) = delete;
  virtual ~MeasuringEnd() = default;

 protected:
  /// References must outlive it. `background` goes on while this end waits for the other.
  MeasuringEnd(const MeasuringOptions& options, Background& background)
      : options_(options), background_(background) {}

  /// The rest of a connection: waits for the link, agrees with the peer and connects to it.
  [[nodiscard]] virtual Expected<void> greet() = 0;
  /// The reason of a failure if there is a better one than what has failed.
  [[nodiscard]] virtual Error cause(Error error) const { return error; }
  /// Members of the report that are the program's own; "program" is one.
  [[nodiscard]] virtual nlohmann::json details() const = 0;

  /// What `work` fails with, of which the peer is told.
  template <typename Work>
  [[nodiscard]] Expected<void> with_peer(TcpConnection connection, Work work) {
    channel_.emplace(std::move(connection), background_);
    Expected<void> result = greet().and_then(work);
    if (result) return result;
    const Error error = cause(result.error());
    channel_->send_error(error);
    return tl::make_unexpected(error);
  }
  void set_watch(std::function<Expected<void>()> check) {
    watch_.emplace(std::move(check), static_cast<std::uint64_t>(options_.timeout_s * 1e9));
  }
  [[nodiscard]] nlohmann::json report(const char* role, const nlohmann::json& results) const {
    nlohmann::json report = details();
    report.update({{"version", kVersion}, {"role", role}, {"results", results}});
    return report;
  }

  const MeasuringOptions& options_;
  Background& background_;
  std::optional<ControlChannel> channel_;
  std::optional<Watch> watch_;
};

/// The end that decides about the workload and measures it.
template <typename Run>
class MeasuringClient : public MeasuringEnd<Run> {
 public:
  /// Runs all that the options ask for and prints the tables. Tells the server of a failure.
  [[nodiscard]] Expected<void> run() {
    const auto timeout_ms = static_cast<std::uint32_t>(options_.endpoint.connect_timeout_s * 1000);
    ROCKHOPPER_TRY(auto connection, TcpConnection::connect(options_.host, options_.port, timeout_ms,
                                                           this->background_));
    return this->with_peer(std::move(connection), [this] { return run_all(); });
  }
  /// One object about all results so far.
  [[nodiscard]] nlohmann::json report() const {
    return MeasuringEnd<Run>::report("client", results_);
  }

 protected:
  MeasuringClient(const MeasuringOptions& options, Background& background, std::vector<Run> runs,
                  std::uint64_t seed)
      : MeasuringEnd<Run>(options, background), runs_(std::move(runs)), seed_(seed) {}

  /// What stands above the rows of runs like this one; `first` if nothing stands above that.
  [[nodiscard]] virtual std::string title(const Run& run, bool first) const = 0;
  [[nodiscard]] virtual Expected<ResultLine> measure(const Run& run) = 0;

  /// The largest message of all runs.
  [[nodiscard]] std::uint32_t size_max() const {
    std::uint32_t largest = 0;
    for (const Run& run : runs_) {
      largest = std::max(largest, run.size);
    }
    return largest;
  }
  /// Has the server make ready for a run.
  [[nodiscard]] Expected<void> start(const Run& run) {
    ROCKHOPPER_TRY(this->channel_->send("start", fields_to_json(run)));
    ROCKHOPPER_TRY(this->channel_->receive("started"));
    return {};
  }
  /// Ends a run; the server's part of its result.
  [[nodiscard]] Expected<nlohmann::json> stop(
      const nlohmann::json& body = nlohmann::json::object()) {
    ROCKHOPPER_TRY(this->channel_->send("stop", body));
    return this->channel_->receive("stopped");
  }

  using MeasuringEnd<Run>::options_;
  const std::vector<Run> runs_;
  const std::uint64_t seed_;

 private:
  [[nodiscard]] Expected<void> run_all() {
    std::uint64_t number = 0;
    for (Run run : runs_) {
      run.seed = seed_ + number;
      if (number == 0 || runs_[number - 1].operation != run.operation) {
        print(title(run, number == 0));
      }
      ++number;
      ROCKHOPPER_TRY(auto line, measure(run));
      results_.push_back(std::move(line.json));
      print(line.row);
    }
    ROCKHOPPER_TRY(this->channel_->send("end", {{"results", results_}}));
    ROCKHOPPER_TRY(this->channel_->receive("ended"));
    return {};
  }
  void print(const std::string& text) const {
    if (options_.json) return;
    fmt::print("{}\n", text);
    (void)std::fflush(stdout);
  }

  nlohmann::json results_ = nlohmann::json::array();
};

/// The end that serves one client's workload.
template <typename Run>
class MeasuringServer : public MeasuringEnd<Run> {
 public:
  /// Waits for a client and serves it to its end. Tells it of a failure here.
  [[nodiscard]] Expected<void> run() {
    ROCKHOPPER_TRY(auto connection, accept_at(options_.port, this->background_));
    return this->with_peer(std::move(connection), [this] { return serve(); });
  }
  /// What the client has reported of its results.
  [[nodiscard]] nlohmann::json report() const {
    return MeasuringEnd<Run>::report("server", results_);
  }

 protected:
  MeasuringServer(const MeasuringOptions& options, Background& background)
      : MeasuringEnd<Run>(options, background) {}

  /// Checks the client's run against what was agreed on.
  [[nodiscard]] virtual Expected<Run> run_from_json(const nlohmann::json& json) const = 0;
  /// Makes memory and receives ready.
  [[nodiscard]] virtual Expected<void> prepare(const Run& run) = 0;
  /// Serves until stop() has a value, and checks the data: what the client is told of it.
  [[nodiscard]] virtual Expected<nlohmann::json> serve(const Run& run) = 0;
  /// What people are told of a run that was served; empty: nothing.
  [[nodiscard]] virtual std::string served(const Run& run) const = 0;

  /// The client's "stop" of this run, once it has come.
  [[nodiscard]] const std::optional<nlohmann::json>& stop() const { return stop_; }
  /// For the watch: a message of the client in the middle of a run can only be "stop".
  [[nodiscard]] Expected<void> look_for_stop() {
    ROCKHOPPER_TRY(auto message, this->channel_->poll());
    if (!message) return {};
    if (message->type != "stop" || stop_) {
      return fail(ErrorCode::io, "the client sent \"{}\" in the middle of a run", message->type);
    }
    stop_ = std::move(message->body);
    return {};
  }

  using MeasuringEnd<Run>::options_;

 private:
  [[nodiscard]] Expected<void> serve() {
    for (;;) {
      ROCKHOPPER_TRY(auto message, this->channel_->receive_any());
      if (message.type == "end") {
        if (message.body.is_object() && message.body.contains("results")) {
          results_ = message.body["results"];
        }
        return this->channel_->send("ended", nlohmann::json::object());
      }
      if (message.type != "start") {
        return fail(ErrorCode::io, "the client sent \"{}\" where \"start\" was due", message.type);
      }
      ROCKHOPPER_TRY(auto run, run_from_json(message.body));
      stop_.reset();
      ROCKHOPPER_TRY(prepare(run));
      ROCKHOPPER_TRY(this->channel_->send("started", nlohmann::json::object()));
      ROCKHOPPER_TRY(auto answer, serve(run));
      ROCKHOPPER_TRY(this->channel_->send("stopped", answer));
      const std::string text = served(run);
      if (text.empty() || options_.json) continue;
      fmt::print("{}\n", text);
      (void)std::fflush(stdout);
    }
  }

  std::optional<nlohmann::json> stop_;
  nlohmann::json results_ = nlohmann::json::array();
};

/// Runs one end of a measurement; with `json` prints its report, unless it has failed.
template <typename Side>
Expected<void> run_side(Side side, bool json) {
  auto result = side.run();
  if (result && json) fmt::print("{}\n", side.report().dump());
  return result;
}

}  // namespace rockhopper::apps
