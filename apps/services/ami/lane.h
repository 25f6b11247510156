// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include <boost/lockfree/spsc_queue.hpp>

#include "apps/services/ami/descriptor.h"
#include "apps/services/ami/injection_fifo.h"
#include "apps/services/ami/watches.h"

namespace rockhopper::ami {

struct LaneConfig {
  EndpointId self = 0;               ///< by which its peers name it
  std::uint16_t max_endpoints = 64;  ///< peers have ids below that
  FifoConfig fifo{};
  std::uint16_t receive_buffers = 512;
  /// Messages whose payload and handler's header are longer are read by the peer (rendezvous).
  std::uint32_t eager_bytes = 4096;
  std::uint16_t rendezvous_buffers = 8;
  std::uint32_t max_message_bytes = 1u << 20;  ///< of a rendezvous
};

/// Messages for the application's handlers, whose memory is the adapter's and does not change until
/// it is returned, or other news.
struct Arrival {
  enum class Kind : std::uint8_t {
    send,         ///< eager messages, as they came (Messages)
    rendezvous,   ///< a message whose payload has been read
    peer_failed,  ///< `source` does not answer, or there is no such peer; once for each
    closed,       ///< the lane is
  };

  Kind kind = Kind::send;
  EndpointId source = 0;
  std::uint16_t handler = 0;        ///< rendezvous
  std::uint16_t header_length = 0;  ///< rendezvous
  std::uint32_t buffer = 0;
  std::uint32_t length = 0;           ///< of `bytes`
  const std::byte* bytes = nullptr;   ///< the SEND, or the payload
  const std::byte* header = nullptr;  ///< rendezvous
};

/// An arrival whose messages have been handled.
struct Handled {
  bool rendezvous = false;
  std::uint32_t buffer = 0;
  std::uint64_t unknown = 0;  ///< a bit for each message, in order: there is no such handler
};

/// What an application's thread and its adapter share: instructions one way, completions and
/// messages the other.
struct Lane {
  explicit Lane(const LaneConfig& made_with)
      : config(made_with),
        watches(made_with.max_endpoints),
        fifo(made_with.fifo),
        arrivals(std::size_t{made_with.receive_buffers} + made_with.rendezvous_buffers +
                 made_with.max_endpoints + 1),
        handled(std::size_t{made_with.receive_buffers} + made_with.rendezvous_buffers) {}

  const LaneConfig config;
  Watches watches;
  InjectionFifo<> fifo;
  // There is room for every buffer, and for what else can become of each peer and of the lane.
  boost::lockfree::spsc_queue<Arrival> arrivals;  ///< to the application
  boost::lockfree::spsc_queue<Handled> handled;   ///< to the adapter
};

}  // namespace rockhopper::ami
