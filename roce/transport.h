// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "roce/packet_prefix.h"
#include "roce/prefetch.h"
#include "roce/requester.h"
#include "roce/responder.h"
#include "roce/types.h"
#include "roce/wire/opcode.h"

namespace rockhopper::roce {

class QueuePair;

/// The two halves of a queue pair's service, and what both put before their packets' headers.
struct Transport {
  std::unique_ptr<Requester> requester;
  std::unique_ptr<Responder> responder;
  std::unique_ptr<PacketPrefix> prefix = nullptr;  ///< null: nothing

  /// Loads both: a hint. As much as RC's take, which is most: to ask the objects would wait for
  /// what is to be loaded.
  void prefetch() const {
    prefetch_bytes(requester.get(), kRequesterBytes);
    prefetch_bytes(responder.get(), kResponderBytes);
  }
  static constexpr std::size_t kRequesterBytes = 192;
  static constexpr std::size_t kResponderBytes = 128;
};

/// Makes them for a queue pair, which will outlive them.
using TransportMaker = std::function<Transport(QueuePair&)>;

/// Those of `type`, for `qp`, which must outlive them. Null for what is no type, and for those that
/// an Extension makes.
[[nodiscard]] Transport make_transport(QpType type, QueuePair& qp);

/// The service whose packets queue pairs of `type` exchange; nothing for what is no type.
[[nodiscard]] std::optional<wire::ServiceClass> service_of(QpType type);

}  // namespace rockhopper::roce
