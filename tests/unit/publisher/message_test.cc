// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The messages between publishers and subscribers (PB-30).
#include "apps/services/publisher/message.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::publisher::message_test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes emit(const ControlMessage& message) {
  std::array<std::byte, kControlMessageMax> bytes{};
  const std::size_t length = emit_control(message, bytes);
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)};
}

StoreInfo store(std::size_t name_length = 5) {
  return {.id = 7,
          .layout = layout_of(StoreKind::conflated),
          .name = std::string(name_length, 'n'),
          .epoch = 0x1122334455667788,
          .ring_bytes = 1 << 20,
          .message_max = 4321,
          .heartbeat_ns = 10'000'000};
}

MulticastGroup group(const char* address, const char* source) {
  return {.group = *stack::IpAddress::parse(address),
          .source = *stack::IpAddress::parse(source),
          .source_qpn = wire::Qpn{0xabcdef},
          .qkey = 0x7fffffff,
          .path_mtu = roce::PathMtu::mtu_4096};
}

std::vector<ControlMessage> samples() {
  return {
      DirectoryRequest{.first = 3},
      Directory{},
      Directory{.first = 2, .total = 9, .stores = {store(1), store(63)}},
      Directory{.first = 0, .total = 6, .stores = std::vector<StoreInfo>(6, store(63))},
      SubscribeRequest{.tag = 99, .store = "prices", .credentials = {}},
      SubscribeRequest{.tag = 99,
                       .version = 2,
                       .store = std::string(63, 'x'),
                       .credentials = Bytes(256, std::byte{0x5a})},
      GrantMessage{.tag = 1, .rkey = roce::MemoryKey{0xaabbccdd}, .store = store()},
      RefusedMessage{.tag = 5, .why = Refusal::exhausted},
      Revoke{.store_id = 3},
      Leave{.store_id = 65535},
      Watch{.store_id = 9, .known = {.epoch = 0xffeeddccbbaa9988, .position = 0x1020304050607080}},
      Changed{.store_id = 9, .tail = {.epoch = 1, .position = UINT64_MAX}},
      Probe{},
      MulticastMessage{.store_id = 9, .group = group("239.1.2.3", "10.0.0.1")},
      MulticastMessage{.store_id = 9, .group = group("ff15::77", "fd42::1")},
  };
}

TEST(ControlMessages, WhatIsSentIsReceived) {
  for (const ControlMessage& message : samples()) {
    const auto parsed = parse_control(emit(message));
    ASSERT_TRUE(parsed.has_value()) << "type " << message.index();
    EXPECT_EQ(*parsed, message);
  }
}

// Magic number and version first, then the type; numbers big endian.
TEST(ControlMessages, LayoutIsAsWritten) {
  const auto bytes = emit(Revoke{.store_id = 0x1234});
  const std::array<unsigned, 6> expected{0x50, 0x53, 1, 6, 0x12, 0x34};
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(static_cast<unsigned>(bytes[i]), expected[i]);
  }
}

// PB-30: another version of the messages is none.
TEST(ControlMessages, OtherVersionsAreRefused) {
  auto bytes = emit(Revoke{.store_id = 1});
  bytes[2] = std::byte{2};
  EXPECT_FALSE(parse_control(bytes).has_value());
  bytes[2] = std::byte{1};
  bytes[3] = std::byte{0};
  EXPECT_FALSE(parse_control(bytes).has_value());
  bytes[3] = std::byte{12};
  EXPECT_FALSE(parse_control(bytes).has_value());
}

TEST(ControlMessages, OtherLengthsAreRefused) {
  for (const ControlMessage& message : samples()) {
    const auto bytes = emit(message);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(parse_control(std::span(bytes).first(length)).has_value());
    }
    auto longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(parse_control(longer).has_value());
  }
}

TEST(ControlMessages, ValuesOutOfRangeAreRefused) {
  auto bytes = emit(RefusedMessage{.tag = 1, .why = Refusal::unknown_store});
  bytes.back() = std::byte{0};
  EXPECT_FALSE(parse_control(bytes).has_value());
  bytes.back() = std::byte{5};
  EXPECT_FALSE(parse_control(bytes).has_value());
  bytes = emit(Directory{.first = 0, .total = 1, .stores = {store()}});
  bytes[7] = std::byte{0};  // more entries than there are in total
  EXPECT_FALSE(parse_control(bytes).has_value());
}

// PB-13: what can be no group, no publisher, or no datagram's length.
TEST(ControlMessages, ImpossibleGroupsAreRefused) {
  const MulticastGroup good = group("239.1.2.3", "10.0.0.1");
  const auto is_taken = [](const MulticastGroup& sample) {
    return parse_control(emit(MulticastMessage{.store_id = 1, .group = sample})).has_value();
  };
  EXPECT_TRUE(is_taken(good));
  for (const char* address : {"10.0.0.9", "ff15::77", "fd42::9", "0.0.0.0"}) {
    EXPECT_FALSE(is_taken(group(address, "10.0.0.1"))) << address;
  }
  for (const char* source : {"239.0.0.1", "fd42::1", "0.0.0.0"}) {
    EXPECT_FALSE(is_taken(group("239.1.2.3", source))) << source;
  }
  for (const unsigned path_mtu : {0u, 128u, 300u, 8192u}) {
    MulticastGroup other = good;
    other.path_mtu = static_cast<roce::PathMtu>(path_mtu);
    EXPECT_FALSE(is_taken(other)) << path_mtu;
  }
  MulticastGroup other = good;
  other.source_qpn.value = 0x1000000;
  EXPECT_FALSE(is_taken(other));
}

// Any bytes, and any change of good ones: taken or refused, and what is taken is emitted the same.
TEST(ControlMessages, AnyBytesAreTaken) {
  sim::Rng rng(test::seed());
  const auto all = samples();
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = emit(all[rng.between(0, all.size() - 1)]);
    for (std::uint64_t changes = rng.between(1, 4); changes > 0; --changes) {
      bytes[rng.between(0, bytes.size() - 1)] = static_cast<std::byte>(rng.next());
    }
    if (rng.chance(20)) bytes.resize(rng.between(0, bytes.size()));
    const auto parsed = parse_control(bytes);
    if (parsed) {
      EXPECT_EQ(emit(*parsed), bytes);
    }
  }
}

}  // namespace
}  // namespace rockhopper::publisher::message_test
