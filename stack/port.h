// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mempool.h>

#include "stack/counter.h"
#include "stack/error.h"
#include "stack/flow_rule.h"
#include "stack/interrupt_gate.h"
#include "stack/link.h"
#include "stack/mbuf_pool.h"
#include "stack/memif_reconnection.h"

namespace rockhopper::stack {

/// Largest MTU that a port takes.
inline constexpr std::uint16_t kMtuMax = 9000;

struct PortConfig {
  /// A device to plug, as "net_memif0,role=server,socket=/path,id=0" or a PCI address; or the name
  /// of one that the EAL has found already. Empty: `port_id` names the port.
  std::string devargs{};
  std::uint16_t port_id = 0;

  std::uint16_t queues = 1;             ///< pairs of a receive and a transmit queue
  std::uint16_t rx_descriptors = 1024;  ///< a queue; the driver's limits prevail
  std::uint16_t tx_descriptors = 1024;
  std::uint16_t mtu = 1500;  ///< largest IP packet in bytes, 576 to kMtuMax
  /// Mbufs of the port's pool. 0: enough for the rings of all queues, caches and 4096 in flight.
  std::uint32_t pool_size = 0;
  std::uint16_t pool_cache = 256;
  /// Bytes of packet data an mbuf holds. 0: a whole frame of `mtu`, so that none is chained.
  std::uint16_t data_room = 0;
  /// A pool to receive into instead of one of the port's own; not owned. For ports that pass
  /// packets on to each other: mbufs of a port's own pool must not outlive it in another port's
  /// ring.
  rte_mempool* shared_pool = nullptr;
  bool checksum_offload = true;  ///< use the IPv4 header checksum of the device when offered
  bool promiscuous = false;
};

/// Names the port as people do: by its number, or as in PortConfig::devargs. Fails for a number
/// that no port can have.
[[nodiscard]] Expected<void> set_device(PortConfig& config, const std::string& device);

class MemifGuard;
class Port;

/// Which frames to group addresses a port receives.
enum class MulticastFilter : std::uint8_t {
  none,  ///< the driver has no say in it: virtual devices pass everything
  all,   ///< all
  list,  ///< those of Port::set_multicast_macs()
};
[[nodiscard]] const char* to_string(MulticastFilter filter);

struct PortQueueCounters {
  Counter rx_packets;
  Counter rx_bytes;
  Counter tx_packets;
  Counter tx_bytes;
  Counter tx_backpressure;  ///< packets handed back because the device took no more, each once
  Counter tx_oversize;      ///< longer than the MTU; freed
  Counter tx_rejected;      ///< impossible offload request; freed
  Counter tx_linearised;    ///< chains copied into one buffer for the driver
  Counter tx_no_mbuf;       ///< packets handed back because there was no buffer for such a copy
};

/// One pair of queues of a port. An lcore owns it.
class PortQueue final : public Link {
 public:
  PortQueue(Port& port, std::uint16_t index);

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] rte_ether_addr mac() const override;
  [[nodiscard]] std::uint16_t mtu() const override;
  [[nodiscard]] const PortQueueCounters& counters() const { return counters_; }

 private:
  enum class Fit : std::uint8_t { ok, rejected, no_mbuf };
  /// Puts a linear copy in place of a chain that the driver cannot send.
  [[nodiscard]] Fit fit(rte_mbuf*& packet);
  [[nodiscard]] std::uint16_t transmit(rte_mbuf** packets, std::uint16_t count);

  Port& port_;
  std::uint16_t index_;
  PortQueueCounters counters_;
  std::uint16_t held_ = 0;  ///< packets that were handed back at last
};

/// A port of any ethdev driver: configured, started, and closed at the end. The device is unplugged
/// too if it was plugged here. Control functions are for one thread at a time; each queue belongs
/// to one lcore. A memif port outlives its peer, however that ends, and takes the next one; bursts
/// share the interrupt_gate.h. A memif client may start before its server, and connects again when
/// the server has gone and come back, as long as queue 0 or wait_for_link() is polled with real
/// time.
class Port {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Port>> open(const PortConfig& config);
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  ~Port();

  [[nodiscard]] PortQueue& queue(std::uint16_t index);
  [[nodiscard]] std::uint16_t queue_count() const;

  /// Makes the device put such packets into the rule's queue, over IPv4 and IPv6, whatever its RSS
  /// would do. `unsupported` when the device cannot: then software has to (ShardLink). The rules
  /// end with the port. Control path only.
  [[nodiscard]] Expected<void> add_flow_rule(const FlowRule& rule);

  /// Receives frames to these group addresses and no others, where the device has such a list; else
  /// the port stays as it starts, receiving those to all groups. Says which; so does the log.
  /// Control path only.
  MulticastFilter set_multicast_macs(std::span<const rte_ether_addr> macs);
  /// Receives those to all groups, as after the start. Control path only.
  void receive_all_multicast();

  [[nodiscard]] std::uint16_t port_id() const { return port_id_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& driver() const { return driver_; }
  /// The link's rate in bits/s; 0 while it is down, and of virtual devices, which make it up.
  [[nodiscard]] std::uint64_t link_rate() const;
  [[nodiscard]] rte_ether_addr mac() const { return mac_; }
  [[nodiscard]] std::uint16_t mtu() const { return mtu_; }
  [[nodiscard]] rte_mempool* pool() const {
    return shared_pool_ != nullptr ? shared_pool_ : pool_.get();
  }
  /// The device fills in IPv4 header checksums of packets marked RTE_MBUF_F_TX_IP_CKSUM.
  [[nodiscard]] bool ipv4_checksum_offload() const { return ipv4_checksum_offload_; }

  /// Does not wait. A memif or vhost port is up when its peer has connected.
  [[nodiscard]] bool link_up() const;
  /// Polls link_up() once a millisecond of real time; false after `timeout_ms`. Control path only.
  [[nodiscard]] bool wait_for_link(std::uint32_t timeout_ms);

  /// The driver's rte_eth_stats under their own names and the sums of the queues' counters. Any
  /// thread. Calls `visit(context, name, value)`.
  void visit_counters(CounterVisitor visit, void* context) const;
  /// What each of them counts, in one line; those of memif devices included.
  static void describe_counters(CounterTextVisitor visit, void* context);
  /// The driver's extended statistics by name. Any thread.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> xstats() const;

 private:
  friend class PortQueue;
  Port();
  [[nodiscard]] Expected<void> attach(const PortConfig& config);
  [[nodiscard]] Expected<void> configure(const PortConfig& config);
  [[nodiscard]] Expected<void> set_up_pool(const PortConfig& config, std::uint32_t rings,
                                           std::uint16_t data_room);
  [[nodiscard]] Expected<void> set_up_queues(const PortConfig& config, std::uint16_t data_room);
  [[nodiscard]] Expected<void> start(const PortConfig& config);
  void set_multicast_filter(MulticastFilter filter);
  [[nodiscard]] int start_device();
  void stop_device();
  /// Runs a call that changes the device's state where the driver can bear it.
  int control(int (*call)(std::uint16_t port_id));
  /// Connects a memif client that has no link, now and then.
  void maintain_link(std::uint64_t now_ns);

  std::uint16_t port_id_ = 0;
  std::uint64_t owner_id_ = RTE_ETH_DEV_NO_OWNER;
  std::string devargs_;  ///< as completed; empty for a device that was there
  std::string name_;
  std::string driver_;
  rte_ether_addr mac_{};
  std::uint16_t mtu_ = 0;
  bool plugged_ = false;  ///< by us, so unplugged by us
  std::atomic<bool> started_{false};
  InterruptGate* gate_ = nullptr;  ///< for drivers that need it
  bool has_flow_rules_ = false;
  MulticastFilter multicast_filter_ = MulticastFilter::none;
  MemifReconnection reconnection_;
  bool ipv4_checksum_offload_ = false;
  bool multi_segment_ = false;          ///< the driver sends chains
  rte_mempool* shared_pool_ = nullptr;  ///< in place of pool_
  MbufPool pool_;
  std::vector<std::unique_ptr<PortQueue>> queues_;
  std::unique_ptr<MemifGuard> guard_;  ///< of a memif device that was plugged here
};

}  // namespace rockhopper::stack
