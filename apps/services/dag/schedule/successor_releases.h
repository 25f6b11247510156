// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/services/dag/schedule/node_record.h"

namespace rockhopper::dag {

/// Which successors of a node that has ended have been told so, by FETCH_ADD -1 of their
/// dependencies (DG-34), which are to be told now, and which when a time has passed. Of those that
/// are ready by that, some have an affinity and have to be looked at.
class SuccessorReleases {
 public:
  /// FETCH_ADDs under way together.
  static constexpr std::size_t kBatch = 64;

  /// The node has ended; nobody has been told. The links must stay while it is used.
  void begin(std::span<const NodeLink> successors);

  [[nodiscard]] const NodeLink& link(std::uint32_t successor) const {
    return successors_[successor];
  }
  /// Returns whom to tell next, up to kBatch; none while a batch is under way.
  [[nodiscard]] std::span<const std::uint32_t> next() const;
  /// Nobody has to be told now, or is being told.
  [[nodiscard]] bool is_idle() const { return told_ + batch_ == due_.size() && batch_ == 0; }
  /// next() are being told.
  void on_posted() { batch_ = next().size(); }
  /// What the FETCH_ADDs of the batch have found, in that order. Calls `on_ready(link)` for each
  /// successor that is ready now and has no affinity.
  template <typename OnReady>
  void on_found(std::span<const std::uint64_t> found, const OnReady& on_ready);
  [[nodiscard]] std::size_t under_way() const { return batch_; }

  /// Returns a ready successor that has to be looked at; nothing if there is none.
  [[nodiscard]] const NodeLink* directed() const {
    return directed_.empty() ? nullptr : &link(directed_.back());
  }
  /// That one has been looked at.
  void drop_directed() { directed_.pop_back(); }

  /// Returns after how much time since the node's end the next one is to be told; nothing if all
  /// others have been.
  [[nodiscard]] std::optional<std::uint64_t> next_delay_ns() const;
  /// So much time has passed since the node's end. Requires is_idle().
  void on_time(std::uint64_t passed_ns);

 private:
  std::span<const NodeLink> successors_;
  std::vector<std::uint32_t> due_;       ///< of successors_: to be told now, or told
  std::vector<std::uint32_t> later_;     ///< when their time has come, the next one last
  std::vector<std::uint32_t> directed_;  ///< ready, and to be looked at
  std::size_t told_ = 0;                 ///< of due_, from the first one on
  std::size_t batch_ = 0;                ///< behind these, under way
};

template <typename OnReady>
void SuccessorReleases::on_found(std::span<const std::uint64_t> found, const OnReady& on_ready) {
  for (std::size_t i = 0; i < batch_; ++i) {
    if (found[i] != 1) continue;
    const std::uint32_t successor = due_[told_ + i];
    if (link(successor).directed) {
      directed_.push_back(successor);
    } else {
      on_ready(link(successor));
    }
  }
  told_ += batch_;
  batch_ = 0;
}

}  // namespace rockhopper::dag
