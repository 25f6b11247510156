// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <infiniband/verbs.h>

#include "tests/conformance/device.h"
#include "tests/conformance/region_memory.h"

namespace rockhopper::conformance {

/// Any RDMA device of Linux as the device of a script, through libibverbs.
class VerbsDevice final : public Device {
 public:
  /// `name` as ibv_devices lists it. The addresses are those of its RoCEv2 GIDs that scripts use.
  VerbsDevice(const std::string& name, std::vector<std::string> addresses);
  ~VerbsDevice() override;

  [[nodiscard]] std::vector<std::string> addresses() const override { return addresses_; }
  [[nodiscard]] std::string mac() const override { return ""; }
  [[nodiscard]] Opened open(const QueuePairSpec& qp, const std::vector<RegionSpec>& regions,
                            const std::vector<WindowSpec>& windows) override;
  void close() override;
  [[nodiscard]] Posted post_send(const SendSpec& spec) override;
  [[nodiscard]] bool post_recv(std::uint64_t wr_id, const std::vector<Element>& elements,
                               const std::string& srq) override;
  [[nodiscard]] std::vector<Completed> poll() override;
  [[nodiscard]] std::vector<std::string> events() override;
  void modify_state(const std::string& state) override;
  [[nodiscard]] std::string state() override;
  void deregister(const std::string& region) override;
  [[nodiscard]] std::vector<std::uint8_t> memory(const std::string& region) override;
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> counters() override;

 private:
  struct Destroy {
    void operator()(ibv_context* one) const { (void)ibv_close_device(one); }
    void operator()(ibv_pd* one) const { (void)ibv_dealloc_pd(one); }
    void operator()(ibv_mr* one) const { (void)ibv_dereg_mr(one); }
    void operator()(ibv_mw* one) const { (void)ibv_dealloc_mw(one); }
    void operator()(ibv_cq* one) const { (void)ibv_destroy_cq(one); }
    void operator()(ibv_ah* one) const { (void)ibv_destroy_ah(one); }
    void operator()(ibv_xrcd* one) const { (void)ibv_close_xrcd(one); }
    void operator()(ibv_srq* one) const { (void)ibv_destroy_srq(one); }
    void operator()(ibv_qp* one) const { (void)ibv_destroy_qp(one); }
  };
  template <typename T>
  using Owned = std::unique_ptr<T, Destroy>;
  struct Region : RegionMemory {
    Owned<ibv_mr> registration;
    std::uint32_t lkey = 0;
    std::uint32_t rkey = 0;
  };

  void open_device(const std::string& name);
  [[nodiscard]] std::uint8_t gid_index(const ibv_gid& gid) const;
  [[nodiscard]] ibv_ah_attr address_vector(const std::string& destination) const;
  void add_region(const RegionSpec& spec);
  void create_queue_pair(const QueuePairSpec& spec);
  void create_srqs(const QueuePairSpec& spec);
  void add_srq(const std::string& name, ibv_pd* pd, ibv_xrcd* xrcd);
  [[nodiscard]] Owned<ibv_qp> new_queue_pair(const QueuePairSpec& spec);
  [[nodiscard]] Owned<ibv_ah> address_handle(const std::string& destination);
  void join_group(const QueuePairSpec& spec);
  void bring_up(ibv_qp& qp, const QueuePairSpec& spec);
  void modify(ibv_qp& qp, ibv_qp_attr& attributes, int mask);
  [[nodiscard]] Posted post_bind(const SendSpec& spec, ibv_send_wr wr);
  [[nodiscard]] std::vector<ibv_sge> sges(const std::vector<Element>& elements);
  void take(ibv_cq* cq, bool receive, std::vector<Completed>& out);

  std::string name_;
  std::vector<std::string> addresses_;
  Owned<ibv_context> context_;
  Owned<ibv_pd> pd_;
  Owned<ibv_pd> other_pd_;
  std::vector<Region> regions_;
  Owned<ibv_cq> send_cq_;
  Owned<ibv_cq> recv_cq_;
  Owned<ibv_ah> ah_;                    ///< UD: of the peer
  Owned<ibv_ah> group_ah_;              ///< of the group that the queue pair is attached to
  std::vector<Owned<ibv_xrcd>> xrcds_;  ///< of an XRC target
  std::vector<std::pair<std::string, Owned<ibv_srq>>> srqs_;
  std::vector<std::pair<std::string, Owned<ibv_mw>>> windows_;
  Owned<ibv_qp> qp_;
  Owned<ibv_qp> other_qp_;  ///< where there are windows, which it may bind too
  std::uint32_t peer_qpn_ = 0;
  std::uint32_t srq_limit_ = 0;     ///< still to be set
  std::uint32_t srq_receives_ = 0;  ///< posted until then
};

}  // namespace rockhopper::conformance
