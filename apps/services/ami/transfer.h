// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "apps/services/ami/descriptor.h"

namespace rockhopper::ami {

struct Peer;

/// A transfer that the adapter has taken from its FIFO and has to remember: since the transport
/// could not take all of it at once, or since somebody wants to know when it is complete.
struct Transfer {
  Descriptor descriptor{};
  /// In its peer's `waiting` or `awaiting`.
  boost::intrusive::list_member_hook<> hook;
  Peer* peer = nullptr;
  Transfer* behind = nullptr;  ///< in the same SEND
  std::uint64_t place = 0;     ///< that is completed
  std::byte* bytes = nullptr;  ///< registered: the message's header, and what was with the slot
  std::uint16_t index = 0;
  std::uint16_t generation = 0;
  std::uint8_t parts_posted = 0;
  std::uint8_t parts_out = 0;  ///< posted and not complete
  bool reports = false;        ///< its completion is to be told
  bool placed = false;         ///< `place` is known
  bool posted = false;         ///< all of it
  bool awaits_reply = false;
  Status status = Status::ok;

  [[nodiscard]] bool ended() const { return posted && parts_out == 0 && !awaits_reply; }
  /// Names it to the peer that is to reply.
  [[nodiscard]] std::uint32_t tag() const { return std::uint32_t{generation} << 16 | index; }
};

using TransferList = boost::intrusive::list<
    Transfer, boost::intrusive::member_hook<Transfer, decltype(Transfer::hook), &Transfer::hook>,
    boost::intrusive::constant_time_size<false>>;

/// The transfers of an adapter; a bounded number.
class TransferTable {
 public:
  /// `memory` has `stride` bytes for each of `count`, 1 to 65,536.
  TransferTable(std::uint32_t count, std::byte* memory, std::size_t stride);

  /// Returns null if none is free.
  [[nodiscard]] Transfer* take();
  /// Gives it back; what still names it finds nothing.
  void give_back(Transfer& transfer);
  /// Returns null if there is no such one, or not any more.
  [[nodiscard]] Transfer* find(std::uint32_t tag);
  [[nodiscard]] std::size_t free() const { return free_.size(); }
  [[nodiscard]] std::size_t in_use() const { return transfers_.size() - free_.size(); }

 private:
  std::vector<Transfer> transfers_;
  std::vector<std::uint16_t> free_;
};

}  // namespace rockhopper::ami
