// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/collective_message.h"

#include "roce/wire/bytes.h"

namespace rockhopper::ami {
namespace {

constexpr std::uint16_t kAgain = 1u << 0;

/// Nothing in a message may say what its type has no use for.
bool is_consistent(const CollectiveMessage& message, std::uint8_t detail, std::uint8_t element,
                   std::size_t payload_length) {
  const CollectiveCall& call = message.call;
  const bool reduces = call.type == CollectiveType::all_reduce;
  const bool roots =
      call.type == CollectiveType::broadcast || call.type == CollectiveType::long_broadcast;
  if (!reduces && element != 0) return false;
  if (!roots && call.root != 0) return false;
  switch (call.type) {
    case CollectiveType::all_reduce:
      return is_defined(call.reduction, call.element) && call.length % kElementBytes == 0 &&
             payload_length == call.length;
    case CollectiveType::broadcast:
      return detail == 0 && payload_length == call.length;
    case CollectiveType::long_broadcast:
      return detail == 0 && (payload_length == 0 || payload_length == call.length);
    case CollectiveType::barrier:
    case CollectiveType::sync:
      return detail == 0 && call.length == 0 && payload_length == 0;
    case CollectiveType::abort:
      return detail != 0 && detail <= static_cast<std::uint8_t>(Status::invalid) &&
             call.length == 0 && payload_length == 0;
  }
  return false;  // no such type
}

}  // namespace

std::optional<CollectiveMessage> CollectiveMessage::parse(std::span<const std::byte> header,
                                                          std::size_t payload_length) {
  if (header.size() != kSize) return std::nullopt;
  const auto* p = reinterpret_cast<const std::uint8_t*>(header.data());
  const std::uint8_t detail = p[2];
  CollectiveMessage message;
  message.call.type = static_cast<CollectiveType>(p[0]);
  message.call.root = wire::load_be16(p + 12);
  message.call.length = wire::load_be32(p + 8);
  message.round = p[1];
  message.sequence = wire::load_be32(p + 4);
  if (message.call.type == CollectiveType::abort) message.status = static_cast<Status>(detail);
  if (message.call.type == CollectiveType::all_reduce) {
    message.call.reduction = static_cast<Reduction>(detail);
    message.call.element = static_cast<ElementType>(p[3]);
  }
  const std::uint16_t flags = wire::load_be16(p + 14);
  message.again = (flags & kAgain) != 0;
  if ((flags & ~kAgain) != 0 || !is_consistent(message, detail, p[3], payload_length)) {
    return std::nullopt;
  }
  return message;
}

void CollectiveMessage::emit(std::span<std::byte, kSize> bytes) const {
  auto* p = reinterpret_cast<std::uint8_t*>(bytes.data());
  p[0] = static_cast<std::uint8_t>(call.type);
  p[1] = round;
  p[2] = call.type == CollectiveType::abort ? static_cast<std::uint8_t>(status)
                                            : static_cast<std::uint8_t>(call.reduction);
  p[3] = static_cast<std::uint8_t>(call.element);
  wire::store_be32(p + 4, sequence);
  wire::store_be32(p + 8, call.length);
  wire::store_be16(p + 12, call.root);
  wire::store_be16(p + 14, again ? kAgain : 0);
}

}  // namespace rockhopper::ami
