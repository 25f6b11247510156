// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The header of an active message on the wire (AM-27), byte for byte as docs/ami.md has it.
#include "apps/services/ami/message.h"

#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/ami/batch.h"

namespace rockhopper::ami {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::initializer_list<unsigned> values) {
  Bytes made;
  for (const unsigned value : values) {
    made.push_back(static_cast<std::byte>(value));
  }
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
  EXPECT_EQ(parsed->size(), 32u + 3 + 5);
  message.push_back({});
  EXPECT_TRUE(MessageHeader::parse(message)) << "what is behind is another one's affair";
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
  for (std::size_t i = 16; i < 20; ++i) {
    message[i] = std::byte{0xff};
  }
  EXPECT_FALSE(MessageHeader::parse(message));
  message[3] = std::byte{3};
  message[16] = std::byte{0x20};  // 2^29 entries of 8 bytes are 2^32
  message[17] = message[18] = message[19] = {};
  EXPECT_FALSE(MessageHeader::parse(message));
}

/// Three eager messages in a SEND, of 35, 32 and 37 bytes.
Bytes three() {
  Bytes send = eager();
  send[9] = std::byte{3};
  send.resize(40);
  const Bytes second = eager();
  send.insert(send.end(), second.begin(), second.end());
  Bytes third = eager();
  third[19] = std::byte{5};
  third.resize(32 + 5);
  send.insert(send.end(), third.begin(), third.end());
  return send;
}

struct Walked {
  std::vector<std::size_t> behind;  ///< where in the SEND
  bool malformed = false;
};

Walked walk(const Bytes& send) {
  Messages messages(send);
  Walked walked;
  while (messages.next()) {
    walked.behind.push_back(static_cast<std::size_t>(messages.behind() - send.data()));
  }
  walked.malformed = messages.malformed();
  return walked;
}

TEST(Messages, EachBeginsAtAMultipleOfEight) {
  const Walked walked = walk(three());
  EXPECT_FALSE(walked.malformed);
  EXPECT_EQ(walked.behind, (std::vector<std::size_t>{32, 72, 104}));
}

TEST(Messages, OneAlone) {
  const Walked walked = walk(eager());
  EXPECT_FALSE(walked.malformed);
  EXPECT_EQ(walked.behind, std::vector<std::size_t>{32});
}

TEST(Messages, ASendIsMessagesToItsEnd) {
  const Bytes good = three();
  for (std::size_t length = 0; length < good.size(); ++length) {
    const bool whole = length == 0 || length == 35 || length == 72;
    EXPECT_EQ(
        walk(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length))).malformed,
        !whole)
        << length << " bytes";
  }
  Bytes more = good;
  more.push_back({});
  EXPECT_TRUE(walk(more).malformed);
  more.resize(112);
  EXPECT_TRUE(walk(more).malformed) << "padding behind the last one";
}

TEST(Messages, OnlyEagerOnesHaveOthersBesideThem) {
  for (const unsigned type : {2u, 3u}) {
    for (const std::size_t which : {0u, 40u, 72u}) {
      Bytes send = three();
      send[which + 3] = static_cast<std::byte>(type);
      send[which + 9] = send[which + 19] = {};
      if (which == 72) send.resize(104);
      EXPECT_TRUE(walk(send).malformed) << "type " << type << " at " << which;
    }
  }
}

TEST(Messages, SoManyAndNoMore) {
  Bytes send;
  for (std::size_t i = 0; i < Messages::kMost; ++i) {
    const Bytes one = eager();
    send.insert(send.end(), one.begin(), one.end());
  }
  EXPECT_FALSE(walk(send).malformed);
  EXPECT_EQ(walk(send).behind.size(), Messages::kMost);
  const Bytes one = eager();
  send.insert(send.end(), one.begin(), one.end());
  EXPECT_TRUE(walk(send).malformed);
}

TEST(Batch, WhatIsAddedIsWalkedAgain) {
  Batch batch;
  EXPECT_TRUE(batch.empty());
  const Bytes content = bytes({1, 2, 3, 4, 5, 6, 7, 8, 9});
  std::vector<MessageHeader> added;
  for (std::uint32_t i = 0; i < 10; ++i) {
    const MessageHeader header{.wants_reply = i % 2 == 0,
                               .source = 7,
                               .handler = static_cast<std::uint16_t>(i),
                               .header_length = static_cast<std::uint16_t>(i / 2),
                               .tag = i,
                               .length = i - i / 2};
    ASSERT_TRUE(batch.has_room(header.size(), Batch::kMaxBytes));
    batch.add(header, std::span(content).first(i));
    added.push_back(header);
  }
  EXPECT_EQ(batch.count(), 10u);
  Messages messages(batch.bytes());
  for (const MessageHeader& header : added) {
    const auto found = messages.next();
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, header);
    EXPECT_TRUE(std::equal(messages.behind(), messages.behind() + header.tag, content.begin()));
  }
  EXPECT_FALSE(messages.next());
  EXPECT_FALSE(messages.malformed());
}

TEST(Batch, HasTheRoomOfAReceiver) {
  Batch batch;
  EXPECT_TRUE(batch.has_room(160, 160));
  EXPECT_FALSE(batch.has_room(161, 160));
  EXPECT_FALSE(batch.has_room(Batch::kMaxBytes + 1, 4096));
  const MessageHeader header{.header_length = 1};
  const std::byte byte{1};
  batch.add(header, {&byte, 1});
  EXPECT_TRUE(batch.has_room(32, 72)) << "the next one begins at 40";
  EXPECT_FALSE(batch.has_room(33, 72));
  std::size_t count = 1;
  for (; batch.has_room(33, Batch::kMaxBytes); ++count) {
    batch.add(header, {&byte, 1});
  }
  EXPECT_EQ(batch.count(), count);
  EXPECT_LE(batch.bytes().size(), Batch::kMaxBytes);
  EXPECT_GT(batch.bytes().size(), Batch::kMaxBytes - 40);
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
