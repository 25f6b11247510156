// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "apps/services/ami/message.h"
#include "apps/services/ami/route.h"
#include "apps/services/ami/transfer.h"
#include "dc/target_address.h"

namespace rockhopper::ami {

struct LanePort;

/// A queue with a limit, without allocation after its making.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t limit) : ring_(limit) {}
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool full() const { return count_ == ring_.size(); }
  [[nodiscard]] T& front() { return ring_[first_]; }
  [[nodiscard]] const T& at(std::size_t i) const { return ring_[(first_ + i) % ring_.size()]; }
  void push(const T& value) { ring_[(first_ + count_++) % ring_.size()] = value; }
  void pop(std::size_t n = 1) {
    first_ = (first_ + n) % ring_.size();
    count_ -= n;
  }
  void clear() { count_ = 0; }

 private:
  std::vector<T> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

/// A message whose payload is still the sender's.
struct Announced {
  MessageHeader message;
  std::array<std::byte, kMaxHeaderBytes> header{};  ///< the handler's
};

struct Peer;

/// A peer as the pool of initiators knows it.
struct DcTarget : dc::PoolTarget {
  DcTarget(Peer& of, const roce::AddressHandle& ah, const dc::TargetAddress& address)
      : PoolTarget(ah, address.number, address.access_key), peer(&of) {}
  Peer* peer;
};

/// What the adapter knows of a peer of a lane.
struct Peer {
  /// Messages that it may have with us without our reply: all of them, and those to be read. So
  /// what is kept of them is bounded, and needs no receive buffer.
  static constexpr std::size_t kMaxUnanswered = 64;
  static constexpr std::size_t kMaxAnnounced = 8;

  Peer(LanePort& of, EndpointId known_as) : port(of), id(known_as) {}

  LanePort& port;
  EndpointId id;
  std::uint32_t index = 0;  ///< among all peers of the adapter
  roce::AddressHandle* ah = nullptr;
  std::optional<DcTarget> target;
  std::unique_ptr<Route> route;

  TransferList waiting;   ///< in order, to be posted
  TransferList awaiting;  ///< a reply
  std::size_t unanswered = 0;
  std::size_t announced = 0;
  BoundedQueue<Reply> replies{kMaxUnanswered};  ///< that we owe
  std::size_t owed = 0;                         ///< messages that wait for our reply
  BoundedQueue<Announced> to_read{kMaxAnnounced};
  std::uint64_t heard_ns = 0;  ///< when it gave its last sign of life
  bool probed = false;
  bool failed = false;

  boost::intrusive::list_member_hook<> drain_hook;    ///< something waits, or its route was full
  boost::intrusive::list_member_hook<> reading_hook;  ///< it has something to be read
  boost::intrusive::list_member_hook<> watched_hook;  ///< its replies are awaited
};

}  // namespace rockhopper::ami
