// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/run_digest.h"

#include <optional>
#include <string_view>
#include <vector>

#include "apps/common/signals.h"
#include "apps/rh_dag/run_output.h"
#include "apps/services/dag/graph/digest_task.h"

namespace rockhopper::apps::dag_node {
namespace {

/// The results' contexts: a node, and whether it is its output that is read.
constexpr std::uint64_t kOutput = std::uint64_t{1} << 40;
constexpr std::uint64_t kNode = std::uint64_t{1} << 33;

class Reading {
 public:
  Reading(dag::Client& client, const dag::Graph& graph, const std::string& run)
      : client_(client), graph_(graph), prefix_(run + '/'), digests_(graph.size()) {}

  /// Begins as many as there is room for.
  void start() {
    while (!failure_ && (!again_.empty() || next_ < graph_.size())) {
      const dag::NodeIndex node = again_.empty() ? next_ : again_.back();
      key_.assign(prefix_).append(graph_.key(node));
      const auto started = client_.read(std::as_bytes(std::span(key_)), kNode | node);
      // Whoever has the connection makes it anew.
      if (started == dag::Started::no_room || started == dag::Started::unreachable) return;
      if (started != dag::Started::yes) return fail_with(node, dag::Status::invalid);
      if (again_.empty()) {
        ++next_;
      } else {
        again_.pop_back();
      }
    }
  }

  /// Those whose records have been read.
  void start_outputs() {
    while (!failure_ && !waiting_.empty()) {
      const auto& [node, pointer] = waiting_.back();
      const auto started = client_.read(client_.own(pointer), kNode | kOutput | node);
      if (started == dag::Started::no_room || started == dag::Started::unreachable) return;
      if (started != dag::Started::yes) return fail_with(node, dag::Status::invalid);
      waiting_.pop_back();
    }
  }

  void on_result(const dag::Result& result) {
    const auto node = static_cast<dag::NodeIndex>(result.context);
    if (failure_) return;
    if (result.status == dag::Status::unreachable) return again_.push_back(node);
    if (result.status != dag::Status::ok) return fail_with(node, result.status);
    if ((result.context & kOutput) == 0) return follow(node, result);
    sha256_.add(result.data);
    digests_[node] = sha256_.finish();
    output_bytes_ += result.data.size();
    ++done_;
  }

  [[nodiscard]] std::uint64_t done() const { return done_; }
  [[nodiscard]] bool ended() const { return failure_ || done_ == graph_.size(); }
  [[nodiscard]] Expected<RunDigest> finish() const {
    if (failure_) return tl::make_unexpected(*failure_);
    dag::GraphDigest digest;
    for (const dag::NodeIndex node : graph_.by_key()) {
      digest.add(graph_.key(node), digests_[node]);
    }
    return RunDigest{.digest = digest.finish(), .output_bytes = output_bytes_};
  }

 private:
  /// The record says where the output is.
  void follow(dag::NodeIndex node, const dag::Result& result) {
    const auto output = output_of(result.control);
    if (!output) {
      failure_ = Error{ErrorCode::invalid_state,
                       fmt::format("node {} has no output", dag::key_text(graph_.key(node)))};
      return;
    }
    waiting_.push_back({node, *output});
  }

  struct Waiting {
    dag::NodeIndex node;
    dag::Pointer output;
  };

  void fail_with(dag::NodeIndex node, dag::Status status) {
    failure_ = Error{ErrorCode::invalid_state,
                     fmt::format("the output of {} cannot be read: {}",
                                 dag::key_text(graph_.key(node)), dag::to_string(status))};
  }

  dag::Client& client_;
  const dag::Graph& graph_;
  std::string prefix_;
  std::string key_;
  std::vector<dag::Digest> digests_;
  std::vector<Waiting> waiting_;
  dag::Sha256 sha256_;
  std::vector<dag::NodeIndex> again_;  ///< as the connection was lost
  dag::NodeIndex next_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t output_bytes_ = 0;
  std::optional<Error> failure_;
};

}  // namespace

Expected<RunDigest> read_digest(Records& records, const dag::Graph& graph, const std::string& run,
                                const std::function<void(std::uint64_t)>& on_node) {
  Reading reading(records.client(), graph, run);
  records.set_taker([&](const dag::Result& result) { reading.on_result(result); });
  Expected<void> result;
  while (!reading.ended() && result) {
    result = records.reconnect();
    if (stop_requested()) result = tl::make_unexpected(interrupted());
    // Outputs first, so that few records wait for theirs.
    reading.start_outputs();
    reading.start();
    (void)records.connection().turn();
    on_node(reading.done());
  }
  records.set_taker({});
  ROCKHOPPER_TRY(result);
  return reading.finish();
}

}  // namespace rockhopper::apps::dag_node
