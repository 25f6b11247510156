// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <rte_mbuf.h>

#include "stack/counter.h"
#include "stack/error.h"
#include "stack/host_config.h"
#include "stack/identification.h"
#include "stack/ip_address.h"

namespace rockhopper::stack {

#define ROCKHOPPER_UDP_SENDER_COUNTERS(X)                                      \
  X(tx_packets, "datagrams given to the kernel")                               \
  X(tx_bytes, "bytes of these, of whole frames")                               \
  X(tx_segmented, "datagrams that the kernel cut out of larger ones")          \
  X(tx_not_segmented, "larger ones that the kernel refused to cut")            \
  X(tx_repeats, "repeats of datagrams that were cut: none are for a while")    \
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
///
/// Datagrams of one length in a row, behind which one may be shorter, go to the kernel as a single
/// one, which it cuts as late as it can (UDP_SEGMENT): what a datagram costs on its way through the
/// kernel is then paid once for all of them. Those have UDP checksums, as the kernel demands, and
/// over IPv4 identifications that count up from 0, to which their ICRCs are fitted. A peer that
/// sees frames before they are cut, by a packet socket of the same machine, can make nothing of
/// them: where they have to be sent again, each goes by itself for a while.
class UdpSender {
 public:
  /// `addresses` are of this network namespace's interfaces; `mtu` is the largest IP packet in
  /// bytes, `seed` that of the source port, which is one of those that RNICs use. Without
  /// `identification` each datagram over IPv4 goes by itself. Errors: `not_found` if no interface
  /// has an address, `io`.
  [[nodiscard]] static Expected<std::unique_ptr<UdpSender>> open(
      const std::vector<IpAddress>& addresses, std::uint16_t mtu, std::uint64_t seed,
      const IdentificationRules* identification);
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
  struct Message;
  struct Outgoing;
  /// Packets whose PSNs follow each other and that went joined, and the PSN of the last of them.
  struct JoinedFlow {
    std::uint32_t flow = 0;  ///< a hash of what they have in common; 0: none
    std::uint32_t psn = 0;
  };
  /// What became of the described frames: so many are done with, as the kernel took or refused
  /// them; it waits if the kernel has no room for the next one.
  struct Progress {
    std::uint16_t frames;
    bool waits;
  };

  UdpSender(std::uint16_t mtu, const IdentificationRules* identification);
  /// Gives all sockets one source port that is free.
  [[nodiscard]] Expected<void> choose_source_port(std::uint64_t seed);
  /// With new sockets.
  [[nodiscard]] Expected<void> bind_all();
  [[nodiscard]] Socket* socket_of(const IpAddress& address);
  [[nodiscard]] Outgoing look_at(const rte_mbuf* frame);
  /// Puts the frame behind the last message, or makes the next one of it.
  void describe(const rte_mbuf* frame, const Outgoing& out);
  [[nodiscard]] JoinedFlow& joined_flow(const Outgoing& out);
  /// The next frames are to go by themselves.
  void keep_apart();
  [[nodiscard]] bool joins(const Outgoing& out) const;
  void begin_message(const Outgoing& out);
  void join_message(const rte_mbuf* frame, const Outgoing& out);
  void add_pieces(const rte_mbuf* frame, std::uint32_t skip, std::uint32_t length);
  [[nodiscard]] Progress send_described(Socket& socket, rte_mbuf* const* frames);
  /// Sends messages that are alike in whether the kernel is to cut them.
  [[nodiscard]] int send_alike(Socket& socket, std::uint16_t message);

  const std::uint16_t mtu_;
  Identification identification_;
  std::uint16_t source_port_ = 0;
  std::vector<Socket> sockets_;
  std::unique_ptr<Messages> messages_;
  std::uint16_t described_ = 0;  ///< messages that are to be sent
  std::uint16_t frames_ = 0;     ///< in these messages
  std::size_t pieces_ = 0;       ///< of these messages
  // Where joining does not do, frames go by themselves: so many more now, and the next time.
  std::uint32_t apart_ = 0;
  std::uint32_t next_apart_;
  std::uint32_t joined_ = 0;  ///< frames since the last time
  std::array<JoinedFlow, 64> joined_flows_{};
  UdpSenderCounters counters_;
};

}  // namespace rockhopper::stack
