// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <vector>

#include "apps/rh_perf/cas_locks.h"
#include "apps/rh_perf/endpoint_backend.h"

namespace rockhopper::apps::perf {

/// Reliable connections: a queue pair for each of the agreement's.
class RcBackend final : public EndpointBackend {
 public:
  RcBackend(std::unique_ptr<Endpoint> endpoint, const LocalOptions& options)
      : EndpointBackend(std::move(endpoint), options) {}
  ~RcBackend() override;

  [[nodiscard]] bool selective_repeat() const override { return true; }
  [[nodiscard]] Expected<void> connect(const Agreement& agreement, const Side& remote) override;
  [[nodiscard]] std::size_t post_sends(std::uint16_t qp,
                                       std::span<const SendRequest> requests) override;
  [[nodiscard]] std::size_t post_receives(std::uint16_t qp,
                                          std::span<const ReceiveRequest> requests) override;
  [[nodiscard]] std::size_t poll(std::span<Done> out) override;

  /// Requires prepare().
  [[nodiscard]] roce::QueuePair& queue_pair(std::size_t index) { return *qps_[index]; }

 private:
  [[nodiscard]] Expected<void> create_queues(const Agreement& agreement) override;
  [[nodiscard]] Expected<void> create_queue_pair(const Agreement& agreement);

  std::vector<roce::QueuePair*> qps_;
  LockMode lock_mode_ = LockMode::none;
  std::unique_ptr<CasLocks> cas_locks_;  ///< of LockMode::cas
};

}  // namespace rockhopper::apps::perf
