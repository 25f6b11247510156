// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "apps/common/endpoint.h"
#include "apps/common/page_memory.h"
#include "apps/perf/backend.h"

namespace rockhopper::apps::perf {

/// Rockhopper's own transport on an Endpoint.
class RockhopperBackend final : public Backend {
 public:
  /// This end's affair alone.
  struct QueuePairOptions {
    roce::CongestionAlgorithm congestion = roce::CongestionAlgorithm::none;  ///< with its defaults
    std::uint16_t pkey_index = 0;
    bool adaptive_timeout = false;
  };
  /// `gid_index`: which own address to use; none: the first of the peer's family.
  RockhopperBackend(std::unique_ptr<Endpoint> endpoint, std::optional<unsigned> gid_index,
                    const QueuePairOptions& options);
  ~RockhopperBackend() override;

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::uint32_t path_mtu_max() const override;
  [[nodiscard]] std::uint16_t outstanding_reads_max() const override;
  [[nodiscard]] bool selective_repeat() const override { return true; }
  [[nodiscard]] Expected<void> wait_for_link() override;
  [[nodiscard]] Expected<Side> prepare(const Agreement& agreement, std::size_t bytes,
                                       std::optional<bool> ipv4) override;
  [[nodiscard]] Expected<void> connect(const Agreement& agreement, const Side& remote) override;
  [[nodiscard]] std::span<std::byte> memory() override { return memory_.bytes(); }
  [[nodiscard]] std::size_t post_sends(std::uint16_t qp,
                                       std::span<const SendRequest> requests) override;
  [[nodiscard]] std::size_t post_receives(std::uint16_t qp,
                                          std::span<const ReceiveRequest> requests) override;
  [[nodiscard]] std::size_t poll(std::span<Done> out) override;
  [[nodiscard]] bool link_alive() override { return endpoint_->link_alive(); }
  void print_statistics() override { endpoint_->print_statistics(stderr); }
  bool turn() override { return endpoint_->turn(); }

  [[nodiscard]] Endpoint& endpoint() { return *endpoint_; }
  /// Requires prepare().
  [[nodiscard]] roce::QueuePair& queue_pair(std::size_t index) { return *qps_[index]; }

 private:
  [[nodiscard]] Expected<void> create_queue_pair(const Agreement& agreement);
  [[nodiscard]] roce::Sge sge(std::uint64_t offset, std::uint32_t length) const;

  std::unique_ptr<Endpoint> endpoint_;
  std::optional<unsigned> gid_index_;
  QueuePairOptions options_;
  PageMemory memory_;
  roce::ProtectionDomain pd_{};
  roce::MemoryRegion region_{};
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::array<roce::Completion, kBatch> completions_;  ///< of one poll
  std::vector<roce::QueuePair*> qps_;
  Side side_;
  roce::MemoryKey remote_key_{};
  std::uint32_t inline_bytes_ = 0;
};

}  // namespace rockhopper::apps::perf
