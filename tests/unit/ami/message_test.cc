// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The header of an active message on the wire (AM-27), byte for byte as docs/ami.md has it.
#include "apps/ami/message.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::ami {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::initializer_list<unsigned> values) {
  Bytes made;
  for (const unsigned value : values) made.push_back(static_cast<std::byte>(value));
  return made;
}

/// Source 0x0102, handler 0x0304, tag 0x05060708; no header, no payload.
Bytes eager() {
  return bytes({0x41, 0x4d, 1, 1, 0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0, 0x05, 0x06, 0x07, 0x08,
                0,    0,    0, 0, 0,    0,    0,    0,    0, 0, 0, 0, 0,    0,    0,    0});
}

Bytes emitted(const MessageHeader& header) {
  Bytes out(MessageHeader::kSize, std::byte{0xee});
  header.emit(std::span<std::byte, MessageHeader::kSize>(out.data(), out.size()));
  return out;
}

TEST(MessageHeader, EagerAsTheDocumentHasIt) {
  const MessageHeader header{
      .type = MessageHeader::Type::eager, .source = 0x0102, .handler = 0x0304, .tag = 0x05060708};
  EXPECT_EQ(emitted(header), eager());
  const auto parsed = MessageHeader::parse(eager());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, header);
}

TEST(MessageHeader, RendezvousAsTheDocumentHasIt) {
  const Bytes wanted = bytes({0x41, 0x4d, 1,    2,    0xff, 0xfe, 0xff, 0x01, 0,    0,    0,
                              1,    0x12, 0x34, 0x56, 0x78, 0x00, 0x10, 0x00, 0x01, 0x9a, 0xbc,
                              0xde, 0xf0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88});
  const MessageHeader header{.type = MessageHeader::Type::rendezvous,
                             .wants_reply = true,
                             .source = 0xfffe,
                             .handler = 0xff01,
                             .tag = 0x12345678,
                             .length = 0x00100001,
                             .rkey = roce::MemoryKey{0x9abcdef0},
                             .addr = 0x1122334455667788};
  EXPECT_EQ(emitted(header), wanted);
  // The payload is elsewhere, and does not count.
  ASSERT_TRUE(MessageHeader::parse(wanted));
  EXPECT_EQ(*MessageHeader::parse(wanted), header);
}

TEST(MessageHeader, HeaderAndPayloadAreBehindAnEagerOne) {
  Bytes message = eager();
  message[9] = std::byte{3};
  message[19] = std::byte{5};
  EXPECT_FALSE(MessageHeader::parse(message));
  message.resize(32 + 3 + 5);
  const auto parsed = MessageHeader::parse(message);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->header_length, 3);
  EXPECT_EQ(parsed->length, 5u);
  message.push_back({});
  EXPECT_FALSE(MessageHeader::parse(message)) << "more than it says";
}

TEST(MessageHeader, EntriesAreBehindAReply) {
  Bytes message = eager();
  message[3] = std::byte{3};
  message[19] = std::byte{2};
  EXPECT_FALSE(MessageHeader::parse(message));
  message.resize(32 + 2 * 8);
  ASSERT_TRUE(MessageHeader::parse(message));
  EXPECT_EQ(MessageHeader::parse(message)->length, 2u);
}

TEST(MessageHeader, WhatIsNoneIsRefused) {
  const Bytes good = eager();
  ASSERT_TRUE(MessageHeader::parse(good));
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(MessageHeader::parse(std::span(good).first(length))) << length << " bytes";
  }
  struct Wrong {
    std::size_t at;
    unsigned value;
    const char* what;
  };
  for (const Wrong& wrong : {Wrong{0, 0x40, "magic"}, Wrong{1, 0x4e, "magic"},
                             Wrong{2, 2, "version"}, Wrong{3, 0, "type"}, Wrong{3, 4, "type"}}) {
    Bytes message = good;
    message[wrong.at] = static_cast<std::byte>(wrong.value);
    EXPECT_FALSE(MessageHeader::parse(message)) << wrong.what;
  }
}

/// Lengths that do not add up in 32 bits must not look as if they did.
TEST(MessageHeader, LengthsDoNotWrap) {
  Bytes message = eager();
  for (std::size_t i = 16; i < 20; ++i) message[i] = std::byte{0xff};
  EXPECT_FALSE(MessageHeader::parse(message));
  message[3] = std::byte{3};
  message[16] = std::byte{0x20};  // 2^29 entries of 8 bytes are 2^32
  message[17] = message[18] = message[19] = {};
  EXPECT_FALSE(MessageHeader::parse(message));
}

TEST(Reply, AsTheDocumentHasIt) {
  std::array<std::byte, Reply::kSize> out;
  out.fill(std::byte{0xee});
  const Reply reply{.tag = 0x01020304, .status = Status::unknown_handler};
  reply.emit(out);
  EXPECT_EQ(Bytes(out.begin(), out.end()), bytes({1, 2, 3, 4, 3, 0, 0, 0}));
  EXPECT_EQ(Reply::parse(out), reply);
}

/// What another version may say is no success.
TEST(Reply, AnUnknownStatusIsAnError) {
  std::array<std::byte, Reply::kSize> in{};
  for (unsigned status = 0; status < 256; ++status) {
    in[4] = static_cast<std::byte>(status);
    EXPECT_EQ(Reply::parse(in).status == Status::ok, status == 0) << status;
    EXPECT_LE(static_cast<unsigned>(Reply::parse(in).status), 7u);
  }
}

}  // namespace
}  // namespace rockhopper::ami
