// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>

#include "roce/queue_pair.h"
#include "roce/transport.h"

namespace rockhopper::roce {

/// A half of a queue pair, initiator or responder, that an extension makes by its ExtensionContext:
/// no packet finds it by its number, and what an application may do to a queue pair is not all that
/// its extension may. The engine owns it.
class ExtensionQp final : public QueuePair {
 public:
  using MakeTransport = std::function<Transport(ExtensionQp&)>;

  /// Requires is_of_extension(init.qp_type). `make_transport` gets the queue pair before it is
  /// complete, and may keep the reference.
  ExtensionQp(Engine& engine, wire::Qpn number, const QpInit& init,
              const MakeTransport& make_transport);

  /// In RESET: from now on it is `number`, in a protection domain and with queues.
  using QueuePair::assign;
  /// From RESET an initiator goes to RTS, without a peer, a responder to RTR, with one. The
  /// attributes are not checked.
  void start(const QpAttributes& attributes);
  /// Where the packets go from now on; with another address vector, congestion control begins anew.
  /// In any state, while nothing is on its way. The queue pair has to be scheduled then.
  void redirect(const AddressVector& av, wire::Qpn destination, PathMtu mtu);
  void set_max_rd_atomic(std::uint8_t count);

  /// As they have been set.
  using QueuePair::attributes;
  /// The addresses of a packet are those of the peer and of this end.
  using QueuePair::accepts;
  using QueuePair::flow;
  using QueuePair::send_queue;
  /// Puts it in line for the engine's next transmit().
  using QueuePair::schedule;
  using QueuePair::start_packet;
};

}  // namespace rockhopper::roce
