// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "apps/common/page_memory.h"
#include "apps/rh_perf/backend.h"

namespace rockhopper::apps::perf {

/// Any RDMA device through libibverbs, for comparison and as a peer.
class VerbsBackend final : public Backend {
 public:
  /// `device`: its name; empty: the first. `gid_index`: in its GID table; none: the first RoCEv2
  /// entry of the peer's family, else IPv4 before IPv6, link-local ones last.
  /// `connect_timeout_ms`: how long the port may take to become active.
  [[nodiscard]] static Expected<std::unique_ptr<VerbsBackend>> open(
      const std::string& device, std::optional<unsigned> gid_index,
      std::uint32_t connect_timeout_ms);

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::uint32_t path_mtu_max() const override;
  [[nodiscard]] std::uint16_t outstanding_reads_max() const override;
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
  /// The device moves packets by itself.
  bool turn() override { return false; }
  [[nodiscard]] int wait_ms() const override { return 20; }

 private:
  struct Deleter {
    void operator()(ibv_context* context) const { (void)ibv_close_device(context); }
    void operator()(ibv_pd* pd) const { (void)ibv_dealloc_pd(pd); }
    void operator()(ibv_mr* mr) const { (void)ibv_dereg_mr(mr); }
    void operator()(ibv_cq* cq) const { (void)ibv_destroy_cq(cq); }
    void operator()(ibv_qp* qp) const { (void)ibv_destroy_qp(qp); }
  };
  template <typename T>
  using Handle = std::unique_ptr<T, Deleter>;

  VerbsBackend() = default;
  [[nodiscard]] Expected<void> choose_gid(std::optional<bool> ipv4);
  [[nodiscard]] Expected<void> create_queue_pair(const Agreement& agreement);
  [[nodiscard]] ibv_sge sge(std::uint64_t offset, std::uint32_t length) const;

  Handle<ibv_context> context_;
  ibv_port_attr port_{};
  ibv_device_attr device_{};
  std::optional<unsigned> gid_index_;
  PageMemory memory_;  // before the region, which must go first
  Handle<ibv_pd> pd_;
  Handle<ibv_mr> mr_;
  Handle<ibv_cq> cq_;
  std::vector<Handle<ibv_qp>> qps_;
  Side side_;
  std::uint32_t remote_key_ = 0;
  std::uint32_t inline_bytes_ = 0;
  std::uint32_t idle_polls_ = 0;
  std::uint32_t connect_timeout_ms_ = 0;
};

}  // namespace rockhopper::apps::perf
