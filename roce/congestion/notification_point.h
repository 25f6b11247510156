// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <vector>

#include <boost/intrusive/list.hpp>
#include <rte_mbuf.h>

#include "roce/engine.h"
#include "roce/queue_pair.h"
#include "roce/transmit_result.h"
#include "stack/ip_address.h"

namespace rockhopper::roce {

/// What an engine does about packets that arrive with "congestion experienced": tells the sender,
/// by congestion notification packets (IBTA vol. 1, annex A17.9.3), one for each queue pair and
/// some time at most, as NICs do.
class Engine::NotificationPoint {
 public:
  explicit NotificationPoint(Engine& engine);

  /// A marked packet of the queue pair's peer has been accepted.
  void on_marked(QueuePair& qp, std::uint64_t now_ns);
  /// The queue pair is not its peer's any more, so that the peer is not told. One that is destroyed
  /// is forgotten by itself.
  static void forget(QueuePair& qp);
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  /// Writes up to `count` notifications.
  [[nodiscard]] TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                        std::uint64_t now_ns);

 private:
  /// One clock of CnpScope::destination.
  struct Destination {
    stack::IpAddress address{};
    std::uint64_t next_cnp_ns = 0;
  };

  /// When the next CNP of the queue pair's scope may be sent.
  [[nodiscard]] std::uint64_t& next_cnp_ns(QueuePair& qp);
  [[nodiscard]] rte_mbuf* build(QueuePair& qp, std::uint64_t now_ns, TransmitResult& result);

  using WaitingList = boost::intrusive::list<
      QueuePair,
      boost::intrusive::member_hook<QueuePair, QueuePair::CnpHook, &QueuePair::cnp_hook_>,
      boost::intrusive::constant_time_size<false>>;

  Engine& engine_;
  /// Whose peers are to be told. Not their numbers: those of dynamic connections lead nowhere.
  WaitingList waiting_;
  std::uint64_t next_of_port_ns_ = 0;
  /// By a hash of the address. Two hosts of one place have the clock in turns, so that both may get
  /// more than their share, as in a NIC with too few.
  std::vector<Destination> destinations_;
};

}  // namespace rockhopper::roce
