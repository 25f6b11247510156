// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstdint>
#include <utility>

#include "roce/lock/service.h"
#include "roce/recovery/held_packets.h"
#include "roce/rx_packet.h"
#include "roce/wire/packet.h"
#include "roce/wire/psn.h"

namespace rockhopper::roce::rc {

/// Counts the PSNs that a request packet takes.
[[nodiscard]] std::uint32_t psns_of(const wire::Headers& headers, std::uint32_t mtu);

/// What a peer has sent behind an acquire that waits: kept in PSN order, and executed once the
/// acquire is decided. By so many PSNs what has been received runs ahead of what has been executed.
///
/// Packets need a place of the engine's lock service, which is given back when nothing is parked.
class ParkedRequests {
 public:
  /// `service` outlives it.
  explicit ParkedRequests(lock::Service& service) : service_(service) {}
  ParkedRequests(const ParkedRequests&) = delete;
  ParkedRequests& operator=(const ParkedRequests&) = delete;
  ~ParkedRequests() { assert(place_ == nullptr); }

  /// Counts the PSNs from the acquire that waits, or from the first request that is still to be
  /// executed, to the last one received.
  [[nodiscard]] std::uint32_t psns() const { return psns_; }
  /// What was parked is being executed.
  [[nodiscard]] bool is_resuming() const { return resuming_; }
  /// A packet behind the last one was dropped, as there was no room for it.
  [[nodiscard]] bool has_dropped() const { return dropped_; }

  /// What holds between any two calls.
  [[nodiscard]] bool is_consistent() const { return psns_ == 0 || place_ != nullptr; }

  /// The next request, an acquire, waits. Returns false if there is no place for what is behind it;
  /// then nothing has changed.
  [[nodiscard]] bool begin();
  /// That acquire is decided.
  void end();
  /// Parks the next packet. Returns false if there is no room for it. Requires that psns() > 0.
  [[nodiscard]] bool hold(const RxPacket& packet, std::uint32_t mtu);
  /// Gives the packet with `psn`, the next one, to `visit(const RxPacket&)`, which may park others
  /// and drop all. Returns false if it is not there.
  template <typename Visit>
  [[nodiscard]] bool deliver(wire::Psn psn, std::uint32_t mtu, Visit visit) {
    assert(psns_ > 0 && is_consistent());
    return place_->deliver(psn, [&](const RxPacket& packet) {
      const std::uint32_t taken = psns_of(packet.headers, mtu);
      assert(taken <= psns_);
      psns_ -= taken;
      visit(packet);
    });
  }
  void begin_resuming() {
    assert(!resuming_);
    resuming_ = true;
  }
  void end_resuming() {
    assert(resuming_);
    resuming_ = false;
  }
  /// Lets go of all packets.
  void drop();
  /// Forgets that packets were dropped: the peer is told of them, or need not be.
  void forget_dropped() { dropped_ = false; }

 private:
  lock::Service& service_;
  HeldPackets* place_ = nullptr;  ///< the service's
  std::uint32_t psns_ = 0;        ///< 0 if place_ is null
  bool resuming_ = false;
  bool dropped_ = false;
};

}  // namespace rockhopper::roce::rc
