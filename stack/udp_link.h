// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <rte_ether.h>
#include <rte_mempool.h>

#include "stack/counter.h"
#include "stack/error.h"
#include "stack/host_config.h"
#include "stack/identification.h"
#include "stack/ip_address.h"
#include "stack/link.h"
#include "stack/udp_receiver.h"
#include "stack/udp_sender.h"

namespace rockhopper::stack {

struct UdpLinkConfig {
  /// Addresses of this network namespace's interfaces, none twice. The link has sockets for each.
  std::vector<IpAddress> addresses{};
  rte_mempool* pool = nullptr;  ///< for what arrives, with room for a frame of `mtu`; not owned
  std::uint16_t mtu = 1500;     ///< largest IP packet in bytes
  std::uint64_t seed = 1;       ///< of the source port
  const IdentificationRules* identification = nullptr;  ///< null: it is 0
};

/// RoCEv2 through ordinary UDP sockets on port 4791, which needs no right and no device: the kernel
/// finds the way. Above it are frames as from any link, whose headers UdpSender takes off and
/// UdpReceiver makes up.
///
/// What is no RoCEv2 datagram from an own address is dropped and counted: ARP and neighbour
/// discovery are the kernel's. One thread.
class UdpLink final : public Link {
 public:
  /// Errors: `invalid_argument` without addresses, else those of UdpReceiver and UdpSender.
  [[nodiscard]] static Expected<std::unique_ptr<UdpLink>> open(const UdpLinkConfig& config);

  /// What the host above it has to know.
  [[nodiscard]] KernelSocket socket_end() const { return sender_->socket_end(); }

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] rte_ether_addr mac() const override;
  [[nodiscard]] std::uint16_t mtu() const override { return mtu_; }

  [[nodiscard]] const UdpSenderCounters& sent() const { return sender_->counters(); }
  [[nodiscard]] const UdpReceiverCounters& received() const { return receiver_->counters(); }
  /// Any thread.
  void visit_counters(CounterVisitor visit, void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(CounterTextVisitor visit, void* context);

 private:
  UdpLink(std::uint16_t mtu, std::unique_ptr<UdpReceiver> receiver,
          std::unique_ptr<UdpSender> sender);

  const std::uint16_t mtu_;
  std::unique_ptr<UdpReceiver> receiver_;
  std::unique_ptr<UdpSender> sender_;
};

}  // namespace rockhopper::stack
