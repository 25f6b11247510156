// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "apps/services/ami/descriptor.h"
#include "roce/types.h"

namespace rockhopper::ami {

/// The longest header that a handler can be sent, in bytes.
inline constexpr std::size_t kMaxHeaderBytes = 128;

/// What each message between adapters begins with (docs/ami.md), big endian. Behind it come the
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
  EndpointId source = 0;  ///< the sender, as the receiver names it
  std::uint16_t handler = 0;
  std::uint16_t header_length = 0;
  std::uint32_t tag = 0;     ///< the reply's
  std::uint32_t length = 0;  ///< of the payload
  roce::MemoryKey rkey{};
  std::uint64_t addr = 0;

  /// Reads the header of the message in front of `bytes`. Returns nothing if it is not such a
  /// header, or if the message is longer.
  [[nodiscard]] static std::optional<MessageHeader> parse(std::span<const std::byte> bytes);
  /// Returns the length of the whole message, in bytes; only for a type that there is.
  [[nodiscard]] std::uint64_t size() const;
  void emit(std::span<std::byte, kSize> bytes) const;
  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};

/// The messages of a SEND, one after the other: one, or several eager ones, each of which begins
/// at a multiple of 8 bytes.
class Messages {
 public:
  static constexpr std::size_t kMost = 64;  ///< of one SEND
  [[nodiscard]] static constexpr std::size_t next_place(std::size_t end) {
    return (end + 7) & ~std::size_t{7};
  }

  /// `send` must outlive it.
  explicit Messages(std::span<const std::byte> send) : rest_(send) {}
  /// The next one; nothing: there is none, or the SEND is malformed.
  [[nodiscard]] std::optional<MessageHeader> next();
  /// Behind the header of the last one: the handler's header, and what follows it.
  [[nodiscard]] const std::byte* behind() const { return behind_; }
  [[nodiscard]] bool malformed() const { return malformed_; }

 private:
  std::span<const std::byte> rest_;
  const std::byte* behind_ = nullptr;
  std::size_t count_ = 0;
  bool malformed_ = false;
};

/// One entry of a reply.
struct Reply {
  static constexpr std::size_t kSize = 8;
  /// The most replies of one SEND: what the smallest receive buffer holds.
  static constexpr std::size_t kMost = kMaxHeaderBytes / kSize;

  std::uint32_t tag = 0;
  Status status = Status::ok;

  [[nodiscard]] static Reply parse(std::span<const std::byte, kSize> bytes);
  void emit(std::span<std::byte, kSize> bytes) const;
  friend bool operator==(const Reply&, const Reply&) = default;
};

inline std::uint64_t MessageHeader::size() const {
  const std::uint64_t front = kSize + std::uint64_t{header_length};
  switch (type) {
    case Type::eager:
      return front + length;
    case Type::rendezvous:
      return front;
    case Type::reply:
      return front + std::uint64_t{length} * Reply::kSize;
  }
  return UINT64_MAX;
}

}  // namespace rockhopper::ami
