// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/load.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_dag/board_reader.h"
#include "apps/rh_dag/records.h"
#include "apps/rh_dag/run_digest.h"
#include "apps/rh_dag/run_requests.h"
#include "apps/services/dag/graph/digest_task.h"

namespace rockhopper::apps::dag_node {
namespace {

/// Between looks at the board.
constexpr std::uint64_t kLoadLookNs = 2 * kNsPerMs;

class Load {
 public:
  Load(const LoadOptions& options, const Loaded& loaded, const Site& site)
      : options_(options), loaded_(loaded), site_(site) {}

  [[nodiscard]] Expected<void> run() {
    ROCKHOPPER_TRY(connect());
    begin_ns_ = steady_now_ns();
    ROCKHOPPER_TRY(requests_->submit(
        loaded_.graph,
        {.name = loaded_.run, .priority = options_.priority, .attempts = options_.attempts}));
    ROCKHOPPER_TRY(wait_while([](dag::RunPhase phase) {
      return phase == dag::RunPhase::none || phase == dag::RunPhase::checking;
    }));
    checked_ns_ = steady_now_ns();
    auto result = options_.wait ? finish() : verdict();
    if (result) print();
    return result;
  }

  void close() {
    board_.reset();
    if (records_ == nullptr) return;
    records_->close();
    if (site_.connect.endpoint.stats_s > 0) records_->connection().print_statistics(stderr);
  }

 private:
  [[nodiscard]] Expected<void> connect() {
    ROCKHOPPER_TRY(auto placement, site_.connect.make_home_placement());
    ROCKHOPPER_TRY(records_, Records::open(site_.connect, site_.config, site_.arguments,
                                           std::move(placement), options_.window));
    requests_.emplace(*records_, site_.connect.home);
    return open_board();
  }

  [[nodiscard]] Expected<void> open_board() {
    board_.reset();
    ROCKHOPPER_TRY(board_, BoardReader::create(records_->connection(), site_.connect.home));
    return {};
  }

  /// A home that has fenced us is connected to again: it has the run still.
  [[nodiscard]] Expected<Board> read_board() {
    auto board = board_->read();
    if (board || board.error().code != ErrorCode::io) return board;
    ROCKHOPPER_TRY(records_->reconnect(site_.connect.home));
    ROCKHOPPER_TRY(open_board());
    return board_->read();
  }

  [[nodiscard]] Expected<void> look() {
    ROCKHOPPER_TRY(auto board, read_board());
    const dag::RunSlot* slot = find_run(board, loaded_.run);
    if (slot == nullptr) {
      return fail(ErrorCode::not_found, "run {} is not there any more", loaded_.run);
    }
    slot_ = *slot;
    return {};
  }

  template <typename Condition>
  [[nodiscard]] Expected<void> wait_while(const Condition& condition) {
    Progress progress("nodes");
    for (;;) {
      ROCKHOPPER_TRY(look());
      if (!condition(slot_.phase)) return {};
      progress.update(std::min<std::uint64_t>(slot_.completed, slot_.nodes), slot_.nodes);
      const std::uint64_t next_ns = steady_now_ns() + kLoadLookNs;
      while (steady_now_ns() < next_ns) {
        if (stop_requested()) return tl::make_unexpected(interrupted());
        (void)records_->connection().turn();
      }
    }
  }

  /// Of a run that goes on, or is complete.
  [[nodiscard]] Expected<void> verdict() const {
    const std::string_view text = dag::text_of(slot_.text);
    switch (slot_.phase) {
      case dag::RunPhase::running:
      case dag::RunPhase::complete:
        return {};
      case dag::RunPhase::refused:
        return fail(ErrorCode::invalid_argument, "run {} was refused: {}", loaded_.run, text);
      case dag::RunPhase::failed:
      case dag::RunPhase::ending:
        return fail(ErrorCode::invalid_state, "run {} has failed: {}", loaded_.run, text);
      default:
        return fail(ErrorCode::invalid_state, "run {} was {}", loaded_.run,
                    dag::to_string(slot_.phase));
    }
  }

  [[nodiscard]] Expected<void> finish() {
    ROCKHOPPER_TRY(wait_while([](dag::RunPhase phase) { return !has_ended(phase); }));
    ended_ns_ = steady_now_ns();
    ROCKHOPPER_TRY(verdict());
    {
      Progress progress("outputs");
      ROCKHOPPER_TRY(digest_,
                     read_digest(*records_, loaded_.graph, loaded_.run, [&](std::uint64_t done) {
                       progress.update(done, loaded_.graph.size());
                     }));
    }
    if (options_.drop) return requests_->drop(slot_);
    return {};
  }

  void print() const {
    const auto seconds = [](std::uint64_t from_ns, std::uint64_t to_ns) {
      return static_cast<double>(to_ns - from_ns) * 1e-9;
    };
    nlohmann::json json{{"program", "rh-dag"},
                        {"run", loaded_.run},
                        {"nodes", loaded_.graph.size()},
                        {"edges", loaded_.graph.edges()},
                        {"phase", dag::to_string(slot_.phase)},
                        {"load_seconds", seconds(begin_ns_, checked_ns_)}};
    if (digest_) {
      json["run_seconds"] = seconds(checked_ns_, ended_ns_);
      json["lost"] = slot_.lost;
      json["retried"] = slot_.retried;
      json["output_bytes"] = digest_->output_bytes;
      json["digest"] = dag::to_hex(digest_->digest);
    }
    if (site_.connect.json) {
      fmt::print("{}\n", json.dump());
    } else if (!digest_) {
      fmt::print("{}: {} tasks, {}\n", loaded_.run, loaded_.graph.size(),
                 dag::to_string(slot_.phase));
    } else {
      fmt::print("{}: {} tasks in {:.3f} s, {} bytes written, {} repeated\ndigest {}\n",
                 loaded_.run, loaded_.graph.size(), seconds(checked_ns_, ended_ns_),
                 digest_->output_bytes, slot_.lost + slot_.retried, dag::to_hex(digest_->digest));
    }
  }

  const LoadOptions& options_;
  const Loaded& loaded_;
  const Site& site_;
  std::unique_ptr<Records> records_;
  std::optional<RunRequests> requests_;
  std::unique_ptr<BoardReader> board_;
  dag::RunSlot slot_;
  std::uint64_t begin_ns_ = 0;
  std::uint64_t checked_ns_ = 0;
  std::uint64_t ended_ns_ = 0;
  std::optional<RunDigest> digest_;
};

}  // namespace

Expected<void> load(const LoadOptions& options, const Loaded& loaded, const Site& site) {
  Load work(options, loaded, site);
  auto result = work.run();
  work.close();
  return result;
}

}  // namespace rockhopper::apps::dag_node
