// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <rte_ether.h>
#include <rte_mempool.h>

#include "stack/counter.h"
#include "stack/error.h"
#include "stack/host_config.h"
#include "stack/ip_address.h"
#include "stack/link.h"

namespace rockhopper::stack {

struct UdpLinkConfig {
  /// Addresses of this network namespace's interfaces, none twice. The link has a socket for each.
  std::vector<IpAddress> addresses{};
  rte_mempool* pool = nullptr;  ///< for what arrives, with room for a frame of `mtu`; not owned
  std::uint16_t mtu = 1500;     ///< largest IP packet in bytes
  std::uint64_t seed = 1;       ///< of the source port
  /// The identification of an IPv4 packet of RoCEv2, which a socket does not tell, from the bytes
  /// of the packet with an identification of 0. Null: it is 0.
  std::uint16_t (*identification)(std::span<const std::uint8_t> packet) = nullptr;
};

#define ROCKHOPPER_UDP_LINK_COUNTERS(X)                                            \
  X(tx_packets, "datagrams given to the kernel")                                   \
  X(tx_bytes, "bytes of these, of whole frames")                                   \
  X(tx_waits, "bursts that ended early: the kernel had no room")                   \
  X(tx_not_roce, "frames dropped: a socket sends RoCEv2 alone")                    \
  X(tx_not_own, "frames dropped: their source is no address of the link")          \
  X(tx_too_long, "frames dropped: more bytes or segments than the link takes")     \
  X(tx_refused, "datagrams that the kernel refused: no route, too long, a filter") \
  X(rx_packets, "datagrams taken from the kernel")                                 \
  X(rx_bytes, "bytes of these, of whole frames")                                   \
  X(rx_identified, "IPv4 packets whose identification followed from their ICRC")   \
  X(rx_too_long, "datagrams dropped: longer than the MTU")                         \
  X(rx_overflows, "datagrams that the kernel dropped: its buffer was full")        \
  X(rx_no_mbuf, "bursts that ended early: no mbuf was left")                       \
  X(rx_errors, "errors of the sockets")

struct UdpLinkCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_UDP_LINK_COUNTERS)
};

/// RoCEv2 through ordinary UDP sockets on port 4791, which needs no right and no device: the kernel
/// finds the way. Above it are frames as from any link. Their Ethernet and IP headers are made up
/// from what the socket tells, so that the ICRC, which covers addresses, ports, lengths and the
/// IPv4 identification, can be checked: the sockets send with DF and an identification of 0, as
/// Host does, and from the port that socket_end() gives to the host, one of those that RNICs use.
///
/// What is no RoCEv2 datagram from an own address is dropped and counted: ARP and neighbour
/// discovery are the kernel's. One thread.
class UdpLink final : public Link {
 public:
  /// Errors: `invalid_argument` without addresses, `busy` where another program, or the kernel's
  /// Soft-RoCE, has the port of an address, `not_found` if no interface has an address.
  [[nodiscard]] static Expected<std::unique_ptr<UdpLink>> open(const UdpLinkConfig& config);
  ~UdpLink() override;

  /// What the host above it has to know.
  [[nodiscard]] KernelSocket socket_end() const;

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] rte_ether_addr mac() const override;
  [[nodiscard]] std::uint16_t mtu() const override { return mtu_; }

  [[nodiscard]] const UdpLinkCounters& counters() const { return counters_; }
  /// Any thread.
  void visit_counters(CounterVisitor visit, void* context) const {
    counters_.visit(visit, context);
  }
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(CounterTextVisitor visit, void* context) {
    UdpLinkCounters::describe(visit, context);
  }

 private:
  struct Socket;
  struct Messages;
  struct Outgoing;

  explicit UdpLink(const UdpLinkConfig& config);
  [[nodiscard]] Expected<void> open_socket(const IpAddress& address);
  /// Gives all sockets one source port that is free.
  [[nodiscard]] Expected<void> choose_source_port(std::uint64_t seed);
  [[nodiscard]] const Socket* socket_of(const IpAddress& address) const;
  [[nodiscard]] Outgoing look_at(const rte_mbuf* frame);
  /// Makes the next message, of that frame.
  void describe(const rte_mbuf* frame, const Outgoing& out);
  /// Returns how many of the described frames are done with: the kernel took or refused them.
  [[nodiscard]] std::uint16_t send_described(const Socket& socket, rte_mbuf* const* frames);
  [[nodiscard]] std::uint16_t receive_from(Socket& socket, rte_mbuf** packets, std::uint16_t count);
  /// Puts headers before the datagram that was received as the message with that number. Returns
  /// false if it is dropped.
  [[nodiscard]] bool make_frame(Socket& socket, rte_mbuf* packet, std::size_t number);
  void identify(std::span<std::uint8_t> packet);

  rte_mempool* pool_;
  const std::uint16_t mtu_;
  std::uint16_t source_port_ = 0;
  std::uint16_t (*const identification_)(std::span<const std::uint8_t> packet);
  std::vector<Socket> sockets_;
  std::size_t next_socket_ = 0;  ///< the first to be looked at next time
  std::unique_ptr<Messages> tx_;
  std::unique_ptr<Messages> rx_;
  std::uint16_t described_ = 0;   ///< messages in `tx_`
  std::size_t pieces_ = 0;        ///< of these messages
  std::vector<rte_mbuf*> spare_;  ///< for what arrives next
  UdpLinkCounters counters_;
};

}  // namespace rockhopper::stack
