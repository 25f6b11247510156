// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/services/ami/adapter_parts.h"
#include "apps/services/ami/sender.h"

namespace rockhopper::ami {

/// From the transport to the application: takes messages, reads the payloads of those that have
/// been announced, and has replied to what the application has handled.
class Receiver {
 public:
  /// Both must outlive it.
  Receiver(AdapterParts& parts, Sender& sender) : parts_(parts), sender_(sender) {}

  /// Memory and queues of a lane; before all else of it. `endpoint` null: it has no target.
  [[nodiscard]] Expected<void> set_up(LanePort& port, roce::Engine& engine, dc::Endpoint* endpoint,
                                      roce::ProtectionDomain pd);
  /// From now on the lane's messages find buffers.
  static void open(LanePort& port);

  /// Takes messages that have come. True if there was any.
  [[nodiscard]] bool poll(LanePort& port);
  /// Has the payloads read that have been announced, as far as there is room for them.
  void read_payloads(LanePort& port);
  /// A payload has been read into that buffer, or cannot be.
  void on_payload(LanePort& port, std::uint32_t index, roce::WcStatus status);
  /// Takes back what the application has handled. True if there was any.
  [[nodiscard]] bool take_handled(LanePort& port);

 private:
  static void post_receive(LanePort& port, std::uint32_t buffer);
  /// Returns true if the buffer is the application's now.
  [[nodiscard]] bool accept(LanePort& port, const roce::Completion& completion);
  [[nodiscard]] bool accept_eager(Peer& peer, std::span<const std::byte> send,
                                  std::uint32_t buffer);
  void announce(Peer& peer, const MessageHeader& message, const std::byte* header);
  void on_replies(Peer& peer, const MessageHeader& message, const std::byte* entries);
  [[nodiscard]] Posted read(LanePort& port, Peer& peer, std::uint32_t index);
  void reply(LanePort& port, const Handled& handled);

  AdapterParts& parts_;
  Sender& sender_;
};

}  // namespace rockhopper::ami
