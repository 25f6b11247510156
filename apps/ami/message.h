// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "apps/ami/descriptor.h"
#include "roce/types.h"

namespace rockhopper::ami {

/// The longest header that a handler can be sent, in bytes.
inline constexpr std::size_t kMaxHeaderBytes = 128;

/// What each SEND between adapters begins with (docs/ami.md), big endian. Behind it come the
/// handler's header and an eager message's payload, or the entries of a reply.
struct MessageHeader {
  static constexpr std::size_t kSize = 32;

  enum class Type : std::uint8_t {
    eager = 1,       ///< the payload follows
    rendezvous = 2,  ///< the payload is at `addr`, to be read
    reply = 3,       ///< `length` entries: what became of messages
  };

  Type type = Type::eager;
  bool wants_reply = false;
  EndpointId source = 0;  ///< who sends it, as the receiver names it
  std::uint16_t handler = 0;
  std::uint16_t header_length = 0;
  std::uint32_t tag = 0;     ///< the reply's
  std::uint32_t length = 0;  ///< of the payload
  roce::MemoryKey rkey{};
  std::uint64_t addr = 0;

  /// Nothing: not such a header, or its lengths are not those of `message`.
  [[nodiscard]] static std::optional<MessageHeader> parse(std::span<const std::byte> message);
  void emit(std::span<std::byte, kSize> bytes) const;
  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};

/// One entry of a reply.
struct Reply {
  static constexpr std::size_t kSize = 8;
  static constexpr std::size_t kMost = 12;  ///< of one SEND

  std::uint32_t tag = 0;
  Status status = Status::ok;

  [[nodiscard]] static Reply parse(std::span<const std::byte, kSize> bytes);
  void emit(std::span<std::byte, kSize> bytes) const;
  friend bool operator==(const Reply&, const Reply&) = default;
};

}  // namespace rockhopper::ami
