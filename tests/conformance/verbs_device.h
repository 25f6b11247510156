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
  template <auto kDestroy>
  struct Destroy {
    template <typename T>
    void operator()(T* object) const {
      (void)kDestroy(object);
    }
  };
  struct Region : RegionMemory {
    std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>> registration;
    std::uint32_t lkey = 0;
    std::uint32_t rkey = 0;
  };

  void open_device(const std::string& name);
  [[nodiscard]] std::uint8_t gid_index(const ibv_gid& gid) const;
  [[nodiscard]] ibv_ah_attr address_vector(const std::string& peer) const;
  void add_region(const RegionSpec& spec);
  void create_queue_pair(const QueuePairSpec& spec);
  void bring_up(const QueuePairSpec& spec);
  void modify(ibv_qp_attr& attributes, int mask);
  [[nodiscard]] std::vector<ibv_sge> sges(const std::vector<Element>& elements);
  void take(ibv_cq* cq, bool receive, std::vector<Completed>& out);

  std::string name_;
  std::vector<std::string> addresses_;
  std::unique_ptr<ibv_context, Destroy<ibv_close_device>> context_;
  std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>> pd_;
  std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>> other_pd_;
  std::vector<Region> regions_;
  std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>> send_cq_;
  std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>> recv_cq_;
  std::unique_ptr<ibv_ah, Destroy<ibv_destroy_ah>> ah_;
  std::unique_ptr<ibv_srq, Destroy<ibv_destroy_srq>> srq_;
  std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>> qp_;
  std::uint32_t peer_qpn_ = 0;
  std::uint32_t srq_limit_ = 0;     ///< still to be set
  std::uint32_t srq_receives_ = 0;  ///< posted until then
};

}  // namespace rockhopper::conformance
