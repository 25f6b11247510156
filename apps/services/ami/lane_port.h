// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "apps/services/ami/lane.h"
#include "apps/services/ami/peer.h"
#include "dc/owned.h"

namespace rockhopper::ami {

/// A payload that is being read, or is the application's for now.
struct RendezvousBuffer {
  Peer* peer = nullptr;
  Announced announced;
  std::byte* bytes = nullptr;
};

/// Registered memory for messages: of those that come by SEND, and of payloads that are read.
struct MessageMemory {
  [[nodiscard]] Expected<void> set_up(roce::Engine& engine, roce::ProtectionDomain pd,
                                      std::size_t bytes) {
    memory.resize(bytes);
    ROCKHOPPER_TRY(region, roce::own(engine, engine.register_memory(pd, memory.data(), bytes,
                                                                    roce::kAccessLocalWrite)));
    return {};
  }
  std::vector<std::byte> memory;
  roce::OwnedRegion region;
};

/// The adapter's side of a lane. Each part of it belongs to the class that it names.
struct LanePort {
  LanePort(const LaneConfig& config, std::uint32_t number)
      : lane(config),
        index(number),
        peers(config.max_endpoints),
        told_failed(config.max_endpoints) {}

  [[nodiscard]] Peer* find(EndpointId id) const { return id < peers.size() ? peers[id] : nullptr; }
  /// To the application; there is room for all that can be on its way.
  bool arrive(const Arrival& arrival) {
    const bool pushed = lane.arrivals.push(arrival);
    assert(pushed);
    return pushed;
  }
  /// The peer has failed, or there is none: the application hears of it once.
  void tell_failed(EndpointId id) {
    if (told_failed[id]) return;
    told_failed[id] = true;
    arrive({.kind = Arrival::Kind::peer_failed, .source = id});
  }

  Lane lane;
  const std::uint32_t index;
  std::vector<Peer*> peers;       ///< by id
  std::vector<bool> told_failed;  ///< by id: the application knows
  bool closed = false;

  // Sender.
  /// The transfer whose completion descriptor may be next; null: it ended with `last_status`.
  Transfer* last = nullptr;
  Status last_status = Status::ok;
  std::size_t transfers = 0;  ///< of its instructions

  // Receiver.
  [[nodiscard]] std::byte* buffer(std::uint32_t which) {
    return buffers.memory.data() + std::size_t{which} * buffer_bytes;
  }
  std::uint32_t buffer_bytes = 0;
  MessageMemory buffers;
  std::vector<std::uint32_t> lengths;  ///< of the SEND in each buffer, if it is to be replied to
  MessageMemory payloads;
  std::vector<RendezvousBuffer> rendezvous;
  std::vector<std::uint32_t> rendezvous_free;
  PeerList<&Peer::reading_hook> reading;  ///< peers with something to be read, in turn
  std::unique_ptr<roce::CompletionQueue> recv_cq;
  roce::Owned<roce::SharedReceiveQueue> srq;
  dc::Owned<dc::Dct> dct;
};

}  // namespace rockhopper::ami
