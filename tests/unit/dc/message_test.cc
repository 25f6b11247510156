// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The control messages, byte by byte as docs/wire.md lays them out (WIRE-5).
#include "dc/message.h"

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::dc {
namespace {

using Bytes = std::vector<std::uint8_t>;

struct Example {
  const char* name;
  Message message;
  Bytes bytes;
};

std::vector<Example> examples() {
  return {
      {"CONNECT",
       Connect{.full = true,
               .data_follows = false,
               .mtu_code = 3,
               .initiator = wire::Qpn{0xd12345},
               .first_psn = wire::Psn{0xabcdef},
               .nonce = 0x01020304,
               .lease_us = 0x000f4240,
               .access_key = 0x1122334455667788,
               .incarnation = 0x99aabbccddeeff00,
               .stream = 0x7f,
               .responder_resources = 0x10},
       {0x44, 0x43, 0x56, 0x31, 0x01, 0x01, 0x03, 0x01,  //
        0x00, 0xd1, 0x23, 0x45, 0x00, 0xab, 0xcd, 0xef,  //
        0x01, 0x02, 0x03, 0x04, 0x00, 0x0f, 0x42, 0x40,  //
        0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,  //
        0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00,  //
        0x7f, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}},
      {"ACCEPT",
       Accept{.mtu_code = 5,
              .nonce = 0x0a0b0c0d,
              .session_id = 0x0300000700000009,
              .expected_psn = wire::Psn{0x123456},
              .lease_us = 0x01020304,
              .responder_resources = 0x20},
       {0x44, 0x43, 0x56, 0x31, 0x01, 0x02, 0x05, 0x00,  //
        0x0a, 0x0b, 0x0c, 0x0d, 0x03, 0x00, 0x00, 0x07,  //
        0x00, 0x00, 0x00, 0x09, 0x00, 0x12, 0x34, 0x56,  //
        0x01, 0x02, 0x03, 0x04, 0x20, 0x00, 0x00, 0x00,  //
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}},
      {"CNAK",
       Cnak{.reason = CnakReason::stale_session,
            .executed_known = true,
            .nonce = 0x0a0b0c0d,
            .session_id = 0x0300000700000009,
            .expected_psn = wire::Psn{0x123456},
            .backoff_us = 0x01020304},
       {0x44, 0x43, 0x56, 0x31, 0x01, 0x03, 0x04, 0x01,  //
        0x0a, 0x0b, 0x0c, 0x0d, 0x03, 0x00, 0x00, 0x07,  //
        0x00, 0x00, 0x00, 0x09, 0x00, 0x12, 0x34, 0x56,  //
        0x01, 0x02, 0x03, 0x04, 0x00, 0x00, 0x00, 0x00}},
      {"DISCONNECT",
       Disconnect{.session_id = 0x0300000700000009, .next_psn = wire::Psn{0x123456}},
       {0x44, 0x43, 0x56, 0x31, 0x01, 0x04, 0x00, 0x00,  //
        0x03, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x09,  //
        0x00, 0x12, 0x34, 0x56, 0x00, 0x00, 0x00, 0x00}},
      {"KEEPALIVE",
       KeepAlive{.answer = true, .session_id = 0x0300000700000009, .next_psn = wire::Psn{0x123456}},
       {0x44, 0x43, 0x56, 0x31, 0x01, 0x05, 0x00, 0x01,  //
        0x03, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x09,  //
        0x00, 0x12, 0x34, 0x56, 0x00, 0x00, 0x00, 0x00}},
  };
}

TEST(DcMessage, AsDocumented) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.name);
    std::array<std::uint8_t, kMessageMax> out;
    out.fill(0xee);
    const std::size_t length = emit_message(example.message, out);
    EXPECT_EQ(Bytes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(length)), example.bytes);
    EXPECT_EQ(parse_message(example.bytes), example.message);
  }
}

TEST(DcMessage, OfAnotherLengthIsNone) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.name);
    for (std::size_t length = 0; length < example.bytes.size(); ++length) {
      EXPECT_FALSE(parse_message(std::span(example.bytes).first(length))) << length;
    }
    Bytes longer = example.bytes;
    longer.resize(longer.size() + 4);
    EXPECT_FALSE(parse_message(longer));
  }
}

TEST(DcMessage, UnknownMagicVersionSubtypeOrValueIsNone) {
  constexpr std::size_t kVersion = 4;
  constexpr std::size_t kSubtype = 5;
  constexpr std::size_t kValue = 6;
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.name);
    for (std::size_t byte = 0; byte <= kVersion; ++byte) {
      Bytes bytes = example.bytes;
      bytes[byte] ^= 2;
      EXPECT_FALSE(parse_message(bytes)) << byte;
    }
    for (const unsigned subtype : {0u, 6u, 255u}) {
      Bytes bytes = example.bytes;
      bytes[kSubtype] = static_cast<std::uint8_t>(subtype);
      EXPECT_FALSE(parse_message(bytes)) << subtype;
    }
  }
  for (const std::size_t with_value : {0u, 1u, 2u}) {
    for (const unsigned value : {0u, 7u, 255u}) {
      Bytes bytes = examples()[with_value].bytes;
      bytes[kValue] = static_cast<std::uint8_t>(value);
      EXPECT_FALSE(parse_message(bytes)) << with_value << " " << value;
    }
  }
}

TEST(DcMessage, StreamsEndAt127) {
  constexpr std::size_t kStream = 40;
  Bytes bytes = examples()[0].bytes;
  bytes[kStream] = 128;
  EXPECT_FALSE(parse_message(bytes));
}

TEST(DcMessage, ReservedFieldsAreNotLookedAt) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.name);
    Bytes bytes = example.bytes;
    bytes.back() ^= 0xff;
    EXPECT_EQ(parse_message(bytes), example.message);
  }
}

}  // namespace
}  // namespace rockhopper::dc
