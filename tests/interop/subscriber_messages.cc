// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/subscriber_messages.h"

#include "tests/interop/rc_exchange.h"

namespace rockhopper::interop {
namespace {

constexpr std::uint16_t kMessageMagic = 0x5053;
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kSubscribe = 3;
constexpr std::uint8_t kGrant = 4;
constexpr std::uint8_t kRefused = 5;
constexpr std::uint8_t kRevoke = 6;
constexpr std::uint8_t kLeave = 7;

/// Puts big endian numbers behind each other.
struct Writer {
  void number(std::uint64_t value, unsigned size) {
    while (size-- > 0) {
      bytes.push_back(static_cast<std::byte>(value >> (8 * size)));
    }
  }
  void text(const std::string& value) {
    for (const char character : value) {
      bytes.push_back(static_cast<std::byte>(character));
    }
  }
  std::vector<std::byte> bytes;
};

Writer message(std::uint8_t type) {
  Writer writer;
  writer.number(kMessageMagic, 2);
  writer.number(kVersion, 1);
  writer.number(type, 1);
  return writer;
}

/// Takes them off.
struct Reader {
  template <typename T>
  T number() {
    if (bytes.size() < sizeof(T)) throw Failure("the publisher's message is too short");
    std::uint64_t value = 0;
    for (const std::byte byte : bytes.first(sizeof(T))) {
      value = value << 8 | static_cast<std::uint64_t>(byte);
    }
    bytes = bytes.subspan(sizeof(T));
    return static_cast<T>(value);
  }
  std::string text(std::size_t length) {
    if (bytes.size() < length) throw Failure("the publisher's message is too short");
    const std::string value(reinterpret_cast<const char*>(bytes.data()), length);
    bytes = bytes.subspan(length);
    return value;
  }
  std::span<const std::byte> bytes;
};

}  // namespace

std::vector<std::byte> subscribe_message(std::uint32_t tag, std::uint16_t version,
                                         const std::string& store) {
  Writer writer = message(kSubscribe);
  writer.number(tag, 4);
  writer.number(version, 2);
  writer.number(store.size(), 1);
  writer.text(store);
  writer.number(0, 2);  // no credentials
  return std::move(writer.bytes);
}

std::vector<std::byte> leave_message(std::uint16_t store_id) {
  Writer writer = message(kLeave);
  writer.number(store_id, 2);
  return std::move(writer.bytes);
}

PublisherMessage parse_message(std::span<const std::byte> bytes) {
  Reader reader{bytes};
  if (reader.number<std::uint16_t>() != kMessageMagic ||
      reader.number<std::uint8_t>() != kVersion) {
    throw Failure("the publisher's message is none of this kind");
  }
  PublisherMessage parsed{};
  switch (reader.number<std::uint8_t>()) {
    case kGrant:
      parsed.kind = PublisherMessage::Kind::grant;
      parsed.tag = reader.number<std::uint32_t>();
      parsed.rkey = reader.number<std::uint32_t>();
      parsed.store.id = reader.number<std::uint16_t>();
      parsed.store.layout = reader.number<std::uint16_t>();
      parsed.store.message_max = reader.number<std::uint32_t>();
      parsed.store.epoch = reader.number<std::uint64_t>();
      parsed.store.ring_bytes = reader.number<std::uint64_t>();
      (void)(reader.number<std::uint64_t>());  // the interval of heart-beats
      parsed.name = reader.text(reader.number<std::uint8_t>());
      return parsed;
    case kRefused:
      parsed.kind = PublisherMessage::Kind::refused;
      parsed.tag = reader.number<std::uint32_t>();
      parsed.why = reader.number<std::uint8_t>();
      return parsed;
    case kRevoke:
      parsed.kind = PublisherMessage::Kind::revoke;
      parsed.store.id = reader.number<std::uint16_t>();
      return parsed;
    default:
      throw Failure("the publisher's message is none that was asked for");
  }
}

}  // namespace rockhopper::interop
