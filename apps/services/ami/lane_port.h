// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "apps/services/ami/lane.h"
#include "apps/services/ami/peer.h"
#include "dc/dct.h"
#include "roce/shared_receive_queue.h"

namespace rockhopper::ami {

/// A payload that is being read, or is the application's for now.
struct RendezvousBuffer {
  Peer* peer = nullptr;
  Announced announced;
  std::byte* bytes = nullptr;
};

/// The adapter's side of a lane.
struct LanePort {
  explicit LanePort(const LaneConfig& config)
      : lane(config), peers(config.max_endpoints), told_failed(config.max_endpoints) {}

  [[nodiscard]] Peer* find(EndpointId id) const { return id < peers.size() ? peers[id] : nullptr; }
  [[nodiscard]] std::byte* buffer(std::uint32_t which) {
    return buffers.data() + std::size_t{which} * buffer_bytes;
  }
  /// To the application; there is room for all that can be on its way. In adapters only.
  bool arrive(const Arrival& arrival) {
    const bool pushed = lane.arrivals.push(arrival);
    assert(pushed);
    return pushed;
  }

  Lane lane;
  std::uint32_t index = 0;
  roce::SharedReceiveQueue* srq = nullptr;
  std::unique_ptr<roce::CompletionQueue> recv_cq;
  dc::Dct* dct = nullptr;
  std::vector<Peer*> peers;         ///< by id
  std::vector<bool> told_failed{};  ///< by id: the application knows

  std::uint32_t buffer_bytes = 0;
  std::vector<std::byte> buffers;
  std::vector<std::uint32_t> lengths;  ///< of the SEND in each buffer, if it is to be replied to
  roce::MemoryKey buffers_key{};
  std::vector<std::byte> rendezvous_bytes;
  roce::MemoryKey rendezvous_key{};
  std::vector<RendezvousBuffer> rendezvous;
  std::vector<std::uint32_t> rendezvous_free;
  using ReadingList =
      boost::intrusive::list<Peer,
                             boost::intrusive::member_hook<
                                 Peer, boost::intrusive::list_member_hook<>, &Peer::reading_hook>,
                             boost::intrusive::constant_time_size<false>>;
  ReadingList reading;  ///< peers with something to be read, in turn

  /// The transfer whose completion descriptor may be next; null: it ended with `last_status`.
  Transfer* last = nullptr;
  Status last_status = Status::ok;
  bool closed = false;
  std::size_t transfers = 0;  ///< of its instructions
};

}  // namespace rockhopper::ami
