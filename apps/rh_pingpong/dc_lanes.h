// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <vector>

#include "apps/common/dc_endpoint.h"
#include "apps/rh_pingpong/options.h"
#include "roce/engine.h"

namespace rockhopper::apps::pingpong {

/// Dynamic connections in the place of queue pairs: one initiator for all lanes, of which each has
/// a stream, and a target for each lane. The targets share an SRQ.
class DcLanes {
 public:
  /// Completions of both directions go to `cq`. The queues must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<DcLanes>> create(roce::Engine& engine,
                                                                 const Options& options,
                                                                 roce::ProtectionDomain pd,
                                                                 roce::CompletionQueue& cq,
                                                                 roce::SharedReceiveQueue& srq);
  ~DcLanes();
  DcLanes(const DcLanes&) = delete;
  DcLanes& operator=(const DcLanes&) = delete;

  /// Where the peer's lane of that index sends to.
  [[nodiscard]] const dc::Dct& target(std::size_t lane) const { return *targets_.at(lane); }
  [[nodiscard]] roce::PostResult post_send(std::size_t lane, const roce::SendWr& request);
  void print_statistics(std::FILE* out) const { endpoint_.print_statistics(out); }

 private:
  DcLanes() = default;

  [[nodiscard]] Expected<void> create_initiator(const Options& options, roce::ProtectionDomain pd,
                                                roce::CompletionQueue& cq);
  [[nodiscard]] Expected<void> create_target(const Options& options, roce::ProtectionDomain pd,
                                             roce::CompletionQueue& cq,
                                             roce::SharedReceiveQueue& srq);

  DcEndpoint endpoint_;
  dc::Dci* initiator_ = nullptr;
  std::vector<dc::Dct*> targets_;
};

}  // namespace rockhopper::apps::pingpong
