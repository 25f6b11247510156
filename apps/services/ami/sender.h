// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/services/ami/adapter_parts.h"
#include "apps/services/ami/batch.h"
#include "apps/services/ami/instruction.h"
#include "apps/services/ami/signs_of_life.h"
#include "apps/services/ami/transfer.h"

namespace rockhopper::ami {

/// From the injection FIFOs to the transport: posts what instructions ask for, in order for each
/// peer, remembers what cannot be posted at once or has to be told of, and tells of what is
/// complete. Has what peers are owed sent in between.
class Sender {
 public:
  /// `parts` must outlive it.
  explicit Sender(AdapterParts& parts);
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  /// What it remembers is not told of any more.
  ~Sender();
  /// Registers the memory of what it remembers; before all else.
  [[nodiscard]] Expected<void> set_up(roce::Engine& engine, roce::ProtectionDomain pd);

  /// Nothing that it has taken is incomplete.
  [[nodiscard]] bool idle() const { return transfers_.in_use() == 0; }
  [[nodiscard]] SignsOfLife& signs() { return signs_; }
  [[nodiscard]] const SignsOfLife& signs() const { return signs_; }

  /// Takes what is in the lane's FIFO, as far as it is this lane's turn. True if there was
  /// anything.
  [[nodiscard]] bool take_descriptors(LanePort& port);
  /// Posts what waits for the peer, as far as it goes.
  void drain(Peer& peer);
  /// The same at the end of this turn, or of the next one.
  void drain_later(Peer& peer);
  /// The end of a turn.
  void drain_all();
  /// The reply to a message of the peer, which goes to it in its turn.
  void owe(Peer& peer, const Reply& reply);

  /// The transfer with that tag, and those in the same SEND, are sent.
  void on_sent(std::uint32_t tag, roce::WcStatus status);
  /// The peer has replied. Returns false if nothing of this tag awaits it.
  [[nodiscard]] bool on_reply(Peer& peer, const Reply& reply);
  /// The peer does not answer: all that it has ends as unreachable, and all that is to come.
  void fail(Peer& peer);
  /// Ends what has not gone to the transport, and what awaits a reply.
  void end_all(Peer& peer, Status status);

 private:
  [[nodiscard]] Transfer* take_transfer(LanePort& port);
  [[nodiscard]] bool start(LanePort& port, const Descriptor& descriptor);
  [[nodiscard]] bool start_tracked(Peer& peer, const Instruction& instruction, bool reports,
                                   bool at_once, bool in_turn);
  [[nodiscard]] Posted start_untracked(Peer& peer, const Instruction& instruction);
  void end_at_once(LanePort& port, Status status);
  void link_completion(LanePort& port);
  [[nodiscard]] Posted post_batch(Peer& peer, const Transfer* first);
  void flush_batch();
  [[nodiscard]] Posted post_part(Peer& peer, const Instruction& instruction, unsigned part,
                                 const std::byte* immediate, Transfer* transfer);
  [[nodiscard]] bool post_messages(Peer& peer);
  [[nodiscard]] bool post(Transfer& transfer);
  void on_posted(Transfer& transfer);
  void await_reply(Transfer& transfer);
  void stop_awaiting(Transfer& transfer);
  [[nodiscard]] bool post_replies(Peer& peer);
  [[nodiscard]] bool takes(Peer& peer, Posted posted);
  void on_part(Transfer& transfer, Status status);
  void settle(Transfer& transfer);

  AdapterParts& parts_;
  std::vector<std::byte> bytes_;  ///< of all transfers
  roce::OwnedRegion region_;      ///< of these
  TransferTable transfers_;
  /// Gathers untracked messages while a lane's descriptors are taken.
  Batch batch_;
  Peer* batch_peer_ = nullptr;  ///< whose they are, if there are any
  PeerList<&Peer::drain_hook> to_drain_;
  SignsOfLife signs_;
};

/// What became of a request to the transport of that peer.
[[nodiscard]] Status status_of(roce::WcStatus status, const Peer& peer);

}  // namespace rockhopper::ami
