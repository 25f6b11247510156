// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/ami/message.h"

#include "roce/wire/bytes.h"

namespace rockhopper::ami {
namespace {

constexpr std::uint16_t kMagic = 0x414d;
constexpr std::uint8_t kVersion = 1;
constexpr std::uint16_t kWantsReply = 1u << 0;

const std::uint8_t* octets(const std::byte* bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes);
}
std::uint8_t* octets(std::byte* bytes) { return reinterpret_cast<std::uint8_t*>(bytes); }

/// Of the whole message.
std::uint64_t length_of(const MessageHeader& header) {
  const std::uint64_t front = MessageHeader::kSize + std::uint64_t{header.header_length};
  switch (header.type) {
    case MessageHeader::Type::eager:
      return front + header.length;
    case MessageHeader::Type::rendezvous:
      return front;
    case MessageHeader::Type::reply:
      return front + std::uint64_t{header.length} * Reply::kSize;
  }
  return 0;  // no such type
}

}  // namespace

std::optional<MessageHeader> MessageHeader::parse(std::span<const std::byte> message) {
  if (message.size() < kSize) return std::nullopt;
  const std::uint8_t* p = octets(message.data());
  if (wire::load_be16(p) != kMagic || p[2] != kVersion) return std::nullopt;
  const MessageHeader header{.type = static_cast<Type>(p[3]),
                             .wants_reply = (wire::load_be16(p + 10) & kWantsReply) != 0,
                             .source = wire::load_be16(p + 4),
                             .handler = wire::load_be16(p + 6),
                             .header_length = wire::load_be16(p + 8),
                             .tag = wire::load_be32(p + 12),
                             .length = wire::load_be32(p + 16),
                             .rkey = roce::MemoryKey{wire::load_be32(p + 20)},
                             .addr = wire::load_be64(p + 24)};
  if (length_of(header) != message.size()) return std::nullopt;
  return header;
}

void MessageHeader::emit(std::span<std::byte, kSize> bytes) const {
  std::uint8_t* p = octets(bytes.data());
  wire::store_be16(p, kMagic);
  p[2] = kVersion;
  p[3] = static_cast<std::uint8_t>(type);
  wire::store_be16(p + 4, source);
  wire::store_be16(p + 6, handler);
  wire::store_be16(p + 8, header_length);
  wire::store_be16(p + 10, wants_reply ? kWantsReply : 0);
  wire::store_be32(p + 12, tag);
  wire::store_be32(p + 16, length);
  wire::store_be32(p + 20, static_cast<std::uint32_t>(rkey));
  wire::store_be64(p + 24, addr);
}

Reply Reply::parse(std::span<const std::byte, kSize> bytes) {
  const std::uint8_t* p = octets(bytes.data());
  // What we do not know is no success.
  const Status status = p[4] <= static_cast<std::uint8_t>(Status::invalid)
                            ? static_cast<Status>(p[4])
                            : Status::invalid;
  return {.tag = wire::load_be32(p), .status = status};
}

void Reply::emit(std::span<std::byte, kSize> bytes) const {
  std::uint8_t* p = octets(bytes.data());
  wire::store_be32(p, tag);
  p[4] = static_cast<std::uint8_t>(status);
  p[5] = p[6] = p[7] = 0;
}

}  // namespace rockhopper::ami
