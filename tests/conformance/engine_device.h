// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "roce/engine.h"
#include "roce/shared_receive_queue.h"
#include "stack/host.h"
#include "stack/ip_address.h"
#include "tests/conformance/device.h"
#include "tests/conformance/region_memory.h"

namespace rockhopper::conformance {

/// Rockhopper as the device of a script. Who owns the engine moves its packets.
class EngineDevice final : public Device {
 public:
  struct Config {
    roce::Engine* engine = nullptr;  ///< not owned
    stack::Host* host = nullptr;     ///< not owned
    rte_ether_addr mac{};
    std::vector<stack::IpAddress> addresses;  ///< of the host
  };

  explicit EngineDevice(Config config);
  ~EngineDevice() override;

  [[nodiscard]] std::vector<std::string> addresses() const override;
  [[nodiscard]] std::string mac() const override;
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
  struct Region : RegionMemory {
    roce::MemoryRegion registration;
    bool registered = false;
  };

  void add_region(const RegionSpec& spec);
  void create_queue_pair(const QueuePairSpec& spec);
  void create_srqs(const QueuePairSpec& spec);
  [[nodiscard]] roce::SharedReceiveQueue* create_srq(roce::ProtectionDomain pd,
                                                     roce::XrcDomain xrcd);
  [[nodiscard]] roce::QpInit queue_pair_init(const QueuePairSpec& spec);
  [[nodiscard]] Posted post_bind(const SendSpec& spec, roce::SendWr wr);
  [[nodiscard]] roce::AddressVector address_vector(const QueuePairSpec& spec);
  void join_group(const QueuePairSpec& spec, roce::AddressVector av);
  static void bring_up(roce::QueuePair& qp, const QueuePairSpec& spec,
                       const roce::AddressVector& av);
  [[nodiscard]] std::vector<roce::Sge> sges(const std::vector<Element>& elements);
  void take(roce::CompletionQueue& cq, bool receive, std::vector<Completed>& out);

  Config config_;
  roce::ProtectionDomain pd_;
  roce::ProtectionDomain other_pd_;
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<roce::CompletionQueue> recv_cq_;
  /// Of an XRC target: see OpenedSrq. Else the one that there is.
  std::vector<std::pair<std::string, roce::SharedReceiveQueue*>> srqs_;
  std::vector<roce::XrcDomain> xrcds_;
  roce::QueuePair* qp_ = nullptr;
  roce::QueuePair* other_qp_ = nullptr;  ///< where there are windows
  roce::AddressHandle* ah_ = nullptr;
  roce::AddressHandle* group_ah_ = nullptr;
  wire::Qpn peer_qpn_{};
  std::uint32_t srq_limit_ = 0;  ///< still to be set
  std::string peer_address_;
  std::vector<Region> regions_;
  std::vector<std::pair<std::string, roce::MemoryWindow>> windows_;
};

}  // namespace rockhopper::conformance
