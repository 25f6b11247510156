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
#include "stack/identification.h"
#include "stack/ip_address.h"

namespace rockhopper::stack {

struct UdpReceiverConfig {
  /// Addresses of this network namespace's interfaces, none twice.
  std::vector<IpAddress> addresses{};
  rte_mempool* pool = nullptr;  ///< with room for a frame of `mtu`; not owned
  std::uint16_t mtu = 1500;     ///< largest IP packet in bytes
  rte_ether_addr mac{};         ///< to which the frames lead
  const IdentificationRules* identification = nullptr;  ///< null: it is 0
};

#define ROCKHOPPER_UDP_RECEIVER_COUNTERS(X)                                      \
  X(rx_packets, "datagrams taken from the kernel")                               \
  X(rx_bytes, "bytes of these, of whole frames")                                 \
  X(rx_joined, "datagrams that came from the kernel joined with others")         \
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
///
/// The kernel joins datagrams of one length that came one behind the other (UDP_GRO), or leaves
/// those joined that UdpSender has given it so. They are taken apart here, and copied.
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
  /// For poll() and epoll: readable while a datagram waits that has not been taken yet.
  [[nodiscard]] int ready() const { return ready_.fd(); }
  /// Some have been taken that rx_burst() has not returned.
  [[nodiscard]] bool has_taken() const { return message_ < messages_taken_; }
  /// In a child of fork(): closes the sockets. Nothing else may be called then.
  void let_go() noexcept;
  [[nodiscard]] const UdpReceiverCounters& counters() const { return counters_; }

 private:
  struct Socket;
  struct Messages;
  struct Arrival;

  explicit UdpReceiver(const UdpReceiverConfig& config);
  [[nodiscard]] Expected<void> open_socket(const IpAddress& address);
  /// Takes up to `most` messages from the socket, each with one datagram or several.
  void take_from(Socket& socket, std::uint16_t most);
  /// Makes frames of what was taken. Returns how many.
  [[nodiscard]] std::uint16_t make_frames(rte_mbuf** packets, std::uint16_t count);
  /// Reads what the kernel says of the message. Returns false if it is dropped.
  [[nodiscard]] bool look_at_message();
  /// The next datagram of the message in an mbuf, behind room for headers; null: no mbuf is left.
  [[nodiscard]] rte_mbuf* next_datagram(std::uint32_t length);
  void end_message();
  void put_headers(rte_mbuf* packet, std::uint32_t length);
  void identify(std::span<std::uint8_t> packet);

  rte_mempool* pool_;
  const std::uint16_t mtu_;
  const rte_ether_addr mac_;
  Identification identification_;
  Descriptor ready_;  ///< an epoll of all sockets
  std::vector<Socket> sockets_;
  std::size_t next_socket_ = 0;  ///< the first to be looked at next time
  std::unique_ptr<Messages> messages_;
  std::vector<rte_mbuf*> spare_;  ///< for what arrives next; of messages done with: null
  // What has been taken, of one socket, and how far it is made into frames.
  Socket* from_ = nullptr;
  std::size_t messages_taken_ = 0;
  std::size_t message_ = 0;       ///< the next, or the one in the middle of which it is
  std::uint16_t in_message_ = 0;  ///< its datagrams that are done with
  UdpReceiverCounters counters_;
};

}  // namespace rockhopper::stack
