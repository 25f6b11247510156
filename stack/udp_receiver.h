// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <rte_ether.h>
#include <rte_mbuf.h>

#include "stack/counter.h"
#include "stack/descriptor.h"
#include "stack/error.h"
#include "stack/ip_address.h"

namespace rockhopper::stack {

/// Finds the identification of an IPv4 packet of RoCEv2, which a socket does not tell, from the
/// bytes of the packet with an identification of 0.
using FindIdentification = std::uint16_t (*)(std::span<const std::uint8_t> packet);

struct UdpReceiverConfig {
  /// Addresses of this network namespace's interfaces, none twice.
  std::vector<IpAddress> addresses{};
  rte_mempool* pool = nullptr;                  ///< with room for a frame of `mtu`; not owned
  std::uint16_t mtu = 1500;                     ///< largest IP packet in bytes
  rte_ether_addr mac{};                         ///< to which the frames lead
  FindIdentification identification = nullptr;  ///< null: it is 0
};

#define ROCKHOPPER_UDP_RECEIVER_COUNTERS(X)                                      \
  X(rx_packets, "datagrams taken from the kernel")                               \
  X(rx_bytes, "bytes of these, of whole frames")                                 \
  X(rx_identified, "IPv4 packets whose identification followed from their ICRC") \
  X(rx_too_long, "datagrams dropped: longer than the MTU")                       \
  X(rx_overflows, "datagrams that the kernel dropped: its buffer was full")      \
  X(rx_no_mbuf, "bursts that ended early: no mbuf was left")                     \
  X(rx_errors, "errors of the sockets")

struct UdpReceiverCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_UDP_RECEIVER_COUNTERS)
};

/// Takes datagrams from UDP sockets, one for each own address, on port 4791, and makes frames of
/// them: the Ethernet and IP headers from what the socket tells, so that the ICRC, which covers
/// addresses, ports, lengths and the IPv4 identification, can be checked. One thread.
class UdpReceiver {
 public:
  /// Errors: `busy` where another program, or the kernel's Soft-RoCE, has the port of an address,
  /// `not_found` if no interface has an address, `io`.
  [[nodiscard]] static Expected<std::unique_ptr<UdpReceiver>> open(const UdpReceiverConfig& config);
  UdpReceiver(const UdpReceiver&) = delete;
  UdpReceiver& operator=(const UdpReceiver&) = delete;
  ~UdpReceiver();

  /// As Link::rx_burst().
  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count);
  /// For poll() and epoll: readable while a datagram waits.
  [[nodiscard]] int ready() const { return ready_.fd(); }
  /// In a child of fork(): closes the sockets. Nothing else may be called then.
  void let_go() noexcept;
  [[nodiscard]] const UdpReceiverCounters& counters() const { return counters_; }

 private:
  struct Socket;
  struct Messages;

  explicit UdpReceiver(const UdpReceiverConfig& config);
  [[nodiscard]] Expected<void> open_socket(const IpAddress& address);
  [[nodiscard]] std::uint16_t receive_from(Socket& socket, rte_mbuf** packets, std::uint16_t count);
  /// Puts headers before the datagram that was received as the message with that number. Returns
  /// false if it is dropped.
  [[nodiscard]] bool make_frame(Socket& socket, rte_mbuf* packet, std::size_t number);
  void identify(std::span<std::uint8_t> packet);

  rte_mempool* pool_;
  const std::uint16_t mtu_;
  const rte_ether_addr mac_;
  const FindIdentification identification_;
  Descriptor ready_;  ///< an epoll of all sockets
  std::vector<Socket> sockets_;
  std::size_t next_socket_ = 0;  ///< the first to be looked at next time
  std::unique_ptr<Messages> messages_;
  std::vector<rte_mbuf*> spare_;  ///< for what arrives next
  UdpReceiverCounters counters_;
};

}  // namespace rockhopper::stack
