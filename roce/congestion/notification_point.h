// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>

#include <rte_mbuf.h>

#include "roce/transmit_result.h"
#include "roce/wire/qpn.h"

namespace rockhopper::roce {

class Engine;
class QueuePair;

/// What an engine does about packets that arrive with "congestion experienced": tells the sender,
/// by congestion notification packets (IBTA vol. 1, annex A17.9.3), one for each queue pair and
/// some time at most, as NICs do.
class NotificationPoint {
 public:
  /// Queue pairs that can wait for their packet to be sent; others are told of the next mark.
  static constexpr std::uint32_t kQueueMax = 1024;

  explicit NotificationPoint(Engine& engine) : engine_(engine) {}

  /// A marked packet of the queue pair's peer has been accepted.
  void on_marked(QueuePair& qp, std::uint64_t now_ns);
  [[nodiscard]] bool empty() const { return head_ == tail_; }
  /// Writes up to `count` notifications.
  [[nodiscard]] TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                        std::uint64_t now_ns);

 private:
  [[nodiscard]] rte_mbuf* build(QueuePair& qp, std::uint64_t now_ns, TransmitResult& result);

  Engine& engine_;
  std::array<wire::Qpn, kQueueMax> queue_{};
  std::uint32_t head_ = 0;  ///< counts on; modulo kQueueMax
  std::uint32_t tail_ = 0;
};

}  // namespace rockhopper::roce
