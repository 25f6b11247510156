// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "apps/services/ami/descriptor.h"
#include "apps/services/ami/lane.h"
#include "apps/services/ami/message.h"
#include "apps/services/ami/transfer.h"
#include "roce/work_request.h"

namespace rockhopper::ami {

/// What a transfer descriptor asks for, in a lane with that configuration. Refers to both.
class Instruction {
 public:
  Instruction(const Descriptor& descriptor, const LaneConfig& lane)
      : descriptor_(descriptor), lane_(lane) {}

  [[nodiscard]] const Descriptor& descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_message() const { return descriptor_.operation == Operation::message; }
  /// Its payload is with the slot.
  [[nodiscard]] bool is_immediate() const {
    return (descriptor_.flags & Descriptor::kImmediate) != 0;
  }
  /// Counts the bytes that are with the slot.
  [[nodiscard]] std::size_t immediate_bytes() const {
    return descriptor_.header_length + (is_immediate() ? std::size_t{descriptor_.length} : 0);
  }
  /// Counts the requests to the transport that it takes.
  [[nodiscard]] unsigned parts() const {
    return descriptor_.operation == Operation::put_notify ? 2 : 1;
  }
  /// The peer reads the payload.
  [[nodiscard]] bool is_rendezvous() const {
    return is_message() && descriptor_.header_length + descriptor_.length > lane_.eager_bytes;
  }
  [[nodiscard]] bool wants_reply() const {
    return is_message() && (descriptor_.level == Level::handled || is_rendezvous());
  }
  /// The message's header has to stay until the peer has it.
  [[nodiscard]] bool needs_bytes() const {
    return is_message() && !is_immediate() && descriptor_.length > 0 && !is_rendezvous();
  }
  /// It can share a SEND, into which it fits: it is as short as what a slot takes.
  [[nodiscard]] bool goes_in_batch() const {
    return is_message() && (is_immediate() || descriptor_.length == 0) && !is_rendezvous();
  }
  [[nodiscard]] std::size_t message_bytes() const {
    return MessageHeader::kSize + descriptor_.header_length + descriptor_.length;
  }
  /// What a message begins with. `tag` is its transfer's, or 0.
  [[nodiscard]] MessageHeader header(std::uint32_t tag) const;

 private:
  const Descriptor& descriptor_;
  const LaneConfig& lane_;
};

/// The request to the transport for a part of an instruction. Lives until it has been posted.
class PartRequest {
 public:
  /// `immediate` are the bytes with the slot. A `transfer` is told of the completion; without one,
  /// the peer with the number `peer` is, if the request fails. `transfer_key` is that of
  /// Transfer::bytes.
  PartRequest(const Instruction& instruction, unsigned part, const std::byte* immediate,
              Transfer* transfer, std::uint32_t peer, roce::MemoryKey transfer_key);
  PartRequest(const PartRequest&) = delete;
  PartRequest& operator=(const PartRequest&) = delete;

  [[nodiscard]] const roce::SendWr& wr() const { return wr_; }

 private:
  void put(const Instruction& instruction, unsigned part, const std::byte* immediate);
  [[nodiscard]] std::size_t message(const Instruction& instruction, const std::byte* immediate,
                                    Transfer* transfer, roce::MemoryKey transfer_key);

  std::array<std::byte, MessageHeader::kSize> header_;
  std::array<roce::Sge, 2> sges_{};
  roce::SendWr wr_;
};

/// A piece of memory that is copied when the request is posted.
[[nodiscard]] inline roce::Sge inline_sge(const void* bytes, std::size_t length) {
  return {reinterpret_cast<std::uintptr_t>(bytes), static_cast<std::uint32_t>(length), {}};
}

}  // namespace rockhopper::ami
