// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "apps/common/endpoint.h"
#include "apps/common/page_memory.h"
#include "apps/rh_perf/backend.h"
#include "roce/lock/region.h"
#include "roce/lock/scope_builder.h"

namespace rockhopper::apps::perf {

/// What this end's transports have in common on an Endpoint: memory, completions, work requests.
class EndpointBackend : public Backend {
 public:
  /// This end's affair alone.
  struct LocalOptions {
    std::optional<unsigned> gid_index;  ///< none: the first own address of the peer's family
    roce::CongestionConfig congestion{};
    std::uint16_t pkey_index = 0;
    bool adaptive_timeout = false;
  };
  ~EndpointBackend() override;

  [[nodiscard]] std::string name() const override { return "rockhopper " + endpoint_->port_name(); }
  [[nodiscard]] std::uint32_t path_mtu_max() const override {
    return endpoint_->engine().max_path_mtu();
  }
  [[nodiscard]] std::uint16_t outstanding_reads_max() const override { return roce::kMaxRdAtomic; }
  [[nodiscard]] bool has_locks() const override { return true; }
  [[nodiscard]] Expected<void> wait_for_link() override { return endpoint_->wait_for_link(); }
  [[nodiscard]] Expected<Side> prepare(const Agreement& agreement, std::size_t bytes,
                                       std::optional<bool> ipv4) final;
  [[nodiscard]] std::span<std::byte> memory() override { return memory_.bytes(); }
  [[nodiscard]] std::size_t poll(std::span<Done> out) override;
  [[nodiscard]] bool link_alive() override { return endpoint_->link_alive(); }
  [[nodiscard]] std::uint64_t packets() const override;
  [[nodiscard]] LockStatistics lock_statistics() const override;
  void print_statistics() override { endpoint_->print_statistics(stderr); }
  bool turn() override { return endpoint_->turn(); }
  [[nodiscard]] std::string link_name() const override { return endpoint_->link_name(); }

  [[nodiscard]] Endpoint& endpoint() { return *endpoint_; }

 protected:
  EndpointBackend(std::unique_ptr<Endpoint> endpoint, const LocalOptions& options);

  static constexpr std::uint32_t kRemoteAccess =
      roce::kAccessRemoteWrite | roce::kAccessRemoteRead | roce::kAccessRemoteAtomic;

  /// What carries the requests, and its addresses into side_.qps. Memory and completion queue are
  /// there.
  [[nodiscard]] virtual Expected<void> create_queues(const Agreement& agreement) = 0;
  /// A receive has failed, and what it was for will be sent anew.
  [[nodiscard]] virtual bool comes_again(const roce::Completion& /*failed*/) const { return false; }

  /// Gives each request to `post(roce::SendWr&)` until it refuses one; how many it took.
  template <typename Post>
  [[nodiscard]] std::size_t post_each(std::span<const SendRequest> requests, Post&& post) const {
    std::size_t posted = 0;
    for (const SendRequest& request : requests) {
      const roce::Sge element = sge(request.local_offset, request.length);
      roce::SendWr wr = work_request(request);
      wr.sg_list = {&element, 1};
      if (post(wr) != roce::PostResult::ok) break;
      ++posted;
    }
    return posted;
  }
  /// The same for scopes: `post(ScopeBuilder&, std::uint64_t id)`. The queue pair's index is the
  /// owner's name.
  template <typename Post>
  [[nodiscard]] std::size_t post_scopes(std::uint16_t qp, std::span<const SendRequest> requests,
                                        Post&& post) const {
    std::size_t posted = 0;
    for (const SendRequest& request : requests) {
      roce::lock::ScopeBuilder scope = make_scope(qp, request);
      if (post(scope, request.id) != roce::PostResult::ok) break;
      ++posted;
    }
    return posted;
  }
  /// The same for receives: `queue` is a queue pair or an SRQ.
  template <typename Queue>
  [[nodiscard]] std::size_t post_each(std::span<const ReceiveRequest> requests,
                                      Queue& queue) const {
    std::size_t posted = 0;
    for (const ReceiveRequest& request : requests) {
      const roce::Sge element = sge(request.local_offset, request.length);
      if (queue.post_recv({request.id, {&element, 1}}) != roce::PostResult::ok) break;
      ++posted;
    }
    return posted;
  }

  [[nodiscard]] roce::Engine& engine() const { return endpoint_->engine(); }
  [[nodiscard]] const LocalOptions& options() const { return options_; }
  [[nodiscard]] roce::ProtectionDomain pd() const { return pd_; }
  [[nodiscard]] roce::CompletionQueue* cq() const { return cq_.get(); }
  [[nodiscard]] Side& side() { return side_; }
  void set_remote_key(std::uint32_t rkey) { remote_key_ = static_cast<roce::MemoryKey>(rkey); }

 private:
  [[nodiscard]] roce::Sge sge(std::uint64_t offset, std::uint32_t length) const {
    return {region_.iova + offset, length, region_.key};
  }
  /// Without its scatter/gather list.
  [[nodiscard]] roce::SendWr work_request(const SendRequest& request) const;
  [[nodiscard]] roce::lock::ScopeBuilder make_scope(std::uint16_t qp,
                                                    const SendRequest& request) const;

  std::unique_ptr<roce::lock::Region> locks_;  ///< outlives the engine; null: it serves none
  std::unique_ptr<Endpoint> endpoint_;
  LocalOptions options_;
  PageMemory memory_;
  roce::ProtectionDomain pd_{};
  roce::MemoryRegion region_{};
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::array<roce::Completion, kBatch> completions_;  ///< of one poll
  Side side_;
  roce::MemoryKey remote_key_{};
  std::uint32_t inline_bytes_ = 0;
};

}  // namespace rockhopper::apps::perf
