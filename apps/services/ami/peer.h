// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <boost/intrusive/list.hpp>

#include "apps/services/ami/bounded_queue.h"
#include "apps/services/ami/message.h"
#include "apps/services/ami/route.h"
#include "apps/services/ami/transfer.h"
#include "apps/services/ami/unanswered.h"
#include "dc/target_address.h"
#include "roce/owned.h"

namespace rockhopper::ami {

struct LanePort;
struct Peer;

/// A message whose payload is still the sender's.
struct Announced {
  MessageHeader message;
  std::array<std::byte, kMaxHeaderBytes> header{};  ///< the handler's
};

/// A peer as the pool of initiators knows it.
struct DcTarget : dc::PoolTarget {
  DcTarget(Peer& of, const roce::AddressHandle& ah, const dc::TargetAddress& address)
      : PoolTarget(ah, address.number, address.access_key), peer(&of) {}
  Peer* peer;
};

/// What the adapter knows of a peer of a lane. Each part of it belongs to the class that it names.
struct Peer {
  Peer(LanePort& of, EndpointId known_as, std::uint32_t number)
      : port(of), id(known_as), index(number) {}

  LanePort& port;
  const EndpointId id;
  const std::uint32_t index;  ///< among all peers of the adapter
  roce::Owned<roce::AddressHandle> ah;
  std::optional<DcTarget> target;
  std::unique_ptr<Route> route;
  bool failed = false;

  // Sender.
  TransferList waiting;   ///< in order, to be posted
  TransferList awaiting;  ///< a reply
  Unanswered unanswered;
  boost::intrusive::list_member_hook<> drain_hook;  ///< something waits, or its route was full

  // Receiver, but for the replies that Sender sends.
  OwedReplies replies;
  BoundedQueue<Announced> to_read{kMaxAnnounced};
  boost::intrusive::list_member_hook<> reading_hook;  ///< it has something to be read

  // SignsOfLife.
  std::uint64_t heard_ns = 0;  ///< when it gave its last one
  bool probed = false;
  boost::intrusive::list_member_hook<> watched_hook;  ///< its replies are awaited
};

/// A list of peers, by one of their hooks.
template <auto Hook>
using PeerList = boost::intrusive::list<
    Peer, boost::intrusive::member_hook<Peer, boost::intrusive::list_member_hook<>, Hook>,
    boost::intrusive::constant_time_size<false>>;

}  // namespace rockhopper::ami
