// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <rte_mbuf.h>

#include "stack/counter.h"
#include "stack/error.h"
#include "stack/host_config.h"
#include "stack/ip_address.h"

namespace rockhopper::stack {

#define ROCKHOPPER_UDP_SENDER_COUNTERS(X)                                      \
  X(tx_packets, "datagrams given to the kernel")                               \
  X(tx_bytes, "bytes of these, of whole frames")                               \
  X(tx_waits, "bursts that ended early: the kernel had no room")               \
  X(tx_not_roce, "frames dropped: a socket sends RoCEv2 alone")                \
  X(tx_not_own, "frames dropped: their source is no address of the link")      \
  X(tx_too_long, "frames dropped: more bytes or segments than the link takes") \
  X(tx_refused, "datagrams that the kernel refused: no route, too long, a filter")

struct UdpSenderCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_UDP_SENDER_COUNTERS)
};

/// Sends RoCEv2 frames as datagrams of UDP sockets, one for each own address, to port 4791: with DF
/// and an identification of 0, as Host does. One thread.
class UdpSender {
 public:
  /// `addresses` are of this network namespace's interfaces; `mtu` is the largest IP packet in
  /// bytes, `seed` that of the source port, which is one of those that RNICs use. Errors:
  /// `not_found` if no interface has an address, `io`.
  [[nodiscard]] static Expected<std::unique_ptr<UdpSender>> open(
      const std::vector<IpAddress>& addresses, std::uint16_t mtu, std::uint64_t seed);
  UdpSender(const UdpSender&) = delete;
  UdpSender& operator=(const UdpSender&) = delete;
  ~UdpSender();

  /// What the host above it has to know.
  [[nodiscard]] KernelSocket socket_end() const;
  /// As Link::tx_burst().
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count);
  /// In a child of fork(): closes the sockets. Nothing else may be called then.
  void let_go() noexcept;
  [[nodiscard]] const UdpSenderCounters& counters() const { return counters_; }

 private:
  struct Socket;
  struct Messages;
  struct Outgoing;

  explicit UdpSender(std::uint16_t mtu);
  /// Gives all sockets one source port that is free.
  [[nodiscard]] Expected<void> choose_source_port(std::uint64_t seed);
  /// With new sockets.
  [[nodiscard]] Expected<void> bind_all();
  [[nodiscard]] const Socket* socket_of(const IpAddress& address) const;
  [[nodiscard]] Outgoing look_at(const rte_mbuf* frame);
  /// Makes the next message, of that frame.
  void describe(const rte_mbuf* frame, const Outgoing& out);
  /// Returns how many of the described frames are done with: the kernel took or refused them.
  [[nodiscard]] std::uint16_t send_described(const Socket& socket, rte_mbuf* const* frames);

  const std::uint16_t mtu_;
  std::uint16_t source_port_ = 0;
  std::vector<Socket> sockets_;
  std::unique_ptr<Messages> messages_;
  std::uint16_t described_ = 0;  ///< messages that are to be sent
  std::size_t pieces_ = 0;       ///< of these messages
  UdpSenderCounters counters_;
};

}  // namespace rockhopper::stack
