// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstdint>

#include "roce/wire/opcode.h"
#include "roce/wire/reth.h"

namespace rockhopper::roce {

/// The message that a connected responder is in the middle of: a SEND or a WRITE whose first packet
/// has come and whose last has not, and how much of it is here. READs and atomics are of one packet
/// and never under way.
class MessageProgress {
 public:
  enum class Kind : std::uint8_t {
    none,
    send,
    write,
    dropped,  ///< what follows of the message is not wanted any more (UC)
  };

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is_under_way() const { return kind_ == Kind::send || kind_ == Kind::write; }
  /// The next packet begins a message.
  [[nodiscard]] bool is_none() const { return kind_ == Kind::none; }
  /// A packet with `opcode` goes on with the message, or begins one where none is under way (IBTA
  /// vol. 1, 9.7.4.1.5).
  [[nodiscard]] bool admits(const wire::OpcodeInfo& opcode) const {
    switch (kind_) {
      case Kind::none:
        return opcode.starts();
      case Kind::send:
        return !opcode.starts() && opcode.operation == wire::Operation::send;
      case Kind::write:
        return !opcode.starts() && opcode.operation == wire::Operation::rdma_write;
      case Kind::dropped:
        break;
    }
    return false;
  }
  /// Counts the bytes of the message that have come.
  [[nodiscard]] std::uint64_t received() const {
    assert(is_under_way());
    return received_;
  }
  /// Returns where all of it is written. Requires a WRITE.
  [[nodiscard]] const wire::Reth& write() const {
    assert(kind_ == Kind::write);
    return write_;
  }

  /// Its first packet has come.
  void begin_send() {
    assert(!is_under_way());
    kind_ = Kind::send;
    received_ = 0;
  }
  /// Its first packet has come, and named the memory.
  void begin_write(const wire::Reth& reth) {
    assert(!is_under_way());
    kind_ = Kind::write;
    received_ = 0;
    write_ = reth;
  }
  /// `bytes` more of it have come; of a WRITE, no more than it has.
  void receive(std::uint32_t bytes) {
    assert(is_under_way());
    received_ += bytes;
    assert(kind_ != Kind::write || received_ <= write_.length);
  }
  /// The message is over.
  void end() { kind_ = Kind::none; }
  /// The packets of it that are still to come are not wanted.
  void drop() { kind_ = Kind::dropped; }

 private:
  std::uint64_t received_ = 0;  ///< of a WRITE <= write_.length
  wire::Reth write_{};          ///< of a WRITE
  Kind kind_ = Kind::none;
};

}  // namespace rockhopper::roce
