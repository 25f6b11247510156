// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/message.h"

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

}  // namespace

std::optional<MessageHeader> MessageHeader::parse(std::span<const std::byte> bytes) {
  if (bytes.size() < kSize) return std::nullopt;
  const std::uint8_t* p = octets(bytes.data());
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
  if (header.size() > bytes.size()) return std::nullopt;
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

std::optional<MessageHeader> Messages::next() {
  if (rest_.empty() || malformed_) return std::nullopt;
  const auto header = MessageHeader::parse(rest_);
  malformed_ = true;
  if (!header) return std::nullopt;
  const std::size_t size = header->size();
  // Eager ones only have others beside them.
  const bool last = size == rest_.size();
  if ((!last || count_ > 0) && header->type != MessageHeader::Type::eager) return std::nullopt;
  if (!last && next_place(size) >= rest_.size()) return std::nullopt;
  if (++count_ > kMost) return std::nullopt;
  malformed_ = false;
  behind_ = rest_.data() + MessageHeader::kSize;
  rest_ = last ? std::span<const std::byte>() : rest_.subspan(next_place(size));
  return header;
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
