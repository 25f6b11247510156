// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Framing: which packets parse_headers() takes, which it refuses and why, and that emit_headers()
// undoes it.
#include "roce/wire/packet.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace rockhopper::wire {

// Readable failures.
static void PrintTo(ParseResult result, std::ostream* out) { *out << to_string(result); }

namespace packet_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint8_t kConnectData = 0xde;
constexpr std::uint8_t kLockRequest = 0xd9;
constexpr std::uint8_t kLockResponse = 0xda;
constexpr Qpn kDynamicConnection{0xd00123};
constexpr std::size_t kOperationAt = Bth::kSize + 44;

constexpr std::size_t kDestinationAt = 5;

/// A kind of packet.
struct Kind {
  std::uint8_t opcode;
  std::uint8_t carried = 0;  ///< by a connect with data: the opcode that says what it is
  Qpn destination{0x11};

  [[nodiscard]] const OpcodeInfo& info() const {
    return carried == 0 ? info_to(opcode, destination) : connect_data_info(carried);
  }
  friend std::ostream& operator<<(std::ostream& out, const Kind& kind) {
    return out << opcode_name(kind.opcode) << " " << unsigned{kind.carried} << " to "
               << kind.destination.value;
  }
};

/// A packet from its BTH on: random extension headers and payload, zero padding and ICRC.
Bytes make_packet(std::mt19937_64& random, Kind kind, std::size_t payload) {
  const std::size_t pad = (4 - payload % 4) % 4;
  Bytes bytes(Bth::kSize + kind.info().header_bytes + payload + pad + 4);
  for (auto& byte : bytes) {
    byte = static_cast<std::uint8_t>(random());
  }
  bytes[0] = kind.opcode;
  if (kind.carried != 0) bytes[kOperationAt] = kind.carried;
  bytes[1] = static_cast<std::uint8_t>((bytes[1] & 0xc0) | pad << 4);
  store_be24(&bytes[kDestinationAt], kind.destination.value);
  return bytes;
}

/// Parses from an allocation of exactly `available` bytes, so that ASan sees a read beyond them.
ParseResult parse(const Bytes& packet, std::size_t available, std::size_t transport_length,
                  Headers& out) {
  const auto exact = std::make_unique<std::uint8_t[]>(available);
  std::copy_n(packet.begin(), available, exact.get());
  return parse_headers(std::span<const std::uint8_t>(exact.get(), available), transport_length,
                       out);
}

ParseResult parse(const Bytes& packet) {
  Headers headers;
  return parse(packet, packet.size(), packet.size(), headers);
}

std::vector<Kind> defined_kinds() {
  std::vector<Kind> kinds;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const auto value = static_cast<std::uint8_t>(opcode);
    if (info(value).defined && value != kConnectData) kinds.push_back({.opcode = value});
    if (value == kLockRequest || value == kLockResponse) {
      kinds.push_back({.opcode = value, .destination = kDynamicConnection});
    }
    if (connect_data_info(value).defined) {
      kinds.push_back({.opcode = kConnectData, .carried = value});
    }
  }
  return kinds;
}

TEST(Packet, GoldenWriteOnlyWithImmediate) {
  const Bytes packet = {0x0b, 0xf0, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11,
                        0x80, 0x00, 0x01, 0x00,                          // BTH, 3 pad bytes
                        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,  // RETH: address
                        0xaa, 0xbb, 0xcc, 0xdd, 0x00, 0x00, 0x00, 0x05,  // rkey, length
                        0x11, 0x22, 0x33, 0x44,                          // ImmDt
                        'h',  'e',  'l',  'l',  'o',  0x00, 0x00, 0x00,  // payload and padding
                        0x00, 0x00, 0x00, 0x00};                         // ICRC
  Headers headers;
  ASSERT_EQ(parse(packet, packet.size(), packet.size(), headers), ParseResult::ok);
  EXPECT_STREQ(headers.opcode->name, "RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE");
  EXPECT_TRUE(headers.bth.solicited);
  EXPECT_TRUE(headers.bth.mig_req);
  EXPECT_EQ(headers.bth.pad_count, 3);
  EXPECT_EQ(headers.bth.pkey, 0xffff);
  EXPECT_EQ(headers.bth.destination, Qpn{0x11});
  EXPECT_TRUE(headers.bth.ack_request);
  EXPECT_EQ(headers.bth.psn, Psn{0x100});
  EXPECT_EQ(headers.reth, (Reth{.va = 0x0102030405060708, .rkey = 0xaabbccdd, .length = 5}));
  EXPECT_EQ(headers.imm_dt.data, 0x11223344u);
  EXPECT_EQ(headers.payload_offset, 32);
  EXPECT_EQ(headers.payload_length, 5);
}

TEST(Packet, GoldenRdCompareSwapHoldsTheMostHeadersOfTheStandard) {
  Headers headers;
  headers.bth = Bth{.opcode = 0x53, .destination = Qpn{0x11}, .psn = Psn{0x100}};
  headers.rdeth = Rdeth{.reserved8 = 0, .ee_context = 0x222222};
  headers.deth = Deth{.qkey = 0x33333333, .reserved8 = 0, .source = Qpn{0x444444}};
  headers.atomic_eth = AtomicEth{.va = 0x5555555555555555,
                                 .rkey = 0x66666666,
                                 .swap_add = 0x7777777777777777,
                                 .compare = 0x8888888888888888};
  Bytes expected = {0x53, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x00, 0x00, 0x01, 0x00,
                    0x00, 0x22, 0x22, 0x22, 0x33, 0x33, 0x33, 0x33, 0x00, 0x44, 0x44, 0x44};
  expected.insert(expected.end(), 8, 0x55);
  expected.insert(expected.end(), 4, 0x66);
  expected.insert(expected.end(), 8, 0x77);
  expected.insert(expected.end(), 8, 0x88);

  Bytes out(kHeadersMax);
  out.resize(emit_headers(headers, out));
  EXPECT_EQ(out, expected);
}

/// docs/wire.md, "Locks": an acquire of several words, to an end of a dynamic connection.
TEST(Packet, GoldenLockRequestOfASession) {
  const Bytes packet = {0xd9, 0x40, 0xff, 0xff, 0x00, 0xd0, 0x01, 0x23,
                        0x80, 0x00, 0x01, 0x00,                          // BTH
                        0x85, 0xd0, 0x04, 0x56, 0x01, 0x00, 0x00, 0x07,  // DCSH: stream 5
                        0x00, 0x00, 0x00, 0x09,                          // session
                        0x06, 0x03, 0x12, 0x34, 0xaa, 0xbb, 0xcc, 0xdd,  // LKETH: several
                        0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x00,  // lock word
                        0x00, 0x05, 0x0e, 0x00, 0x00, 0x00, 0x27, 0x10,  // tries, timeout, wait
                        0x00, 0x00, 0x00, 0x2a, 0x00, 0x01, 0x86, 0xa0,  // owner, lease
                        0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // scope PSNs
                        0x11, 0x22, 0x33, 0x44, 0x01, 0x00, 0x00, 0x00,  // another word, shared
                        0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x08,  //
                        0x00, 0x00, 0x00, 0x00};                         // ICRC
  Headers headers;
  ASSERT_EQ(parse(packet, packet.size(), packet.size(), headers), ParseResult::ok);
  EXPECT_EQ(headers.dcsh,
            (Dcsh{.form = 1, .stream = 5, .source = Qpn{0xd00456}, .value = 0x0100000700000009}));
  EXPECT_EQ(headers.lketh, (Lketh{.subtype = Lketh::kAcquireSeveral,
                                  .flags = Lketh::kStoreForward | Lketh::kFifo,
                                  .scope_id = 0x1234,
                                  .rkey = 0xaabbccdd,
                                  .va = 0x7f0000001000,
                                  .max_tries = 5,
                                  .timeout = 14,
                                  .reserved8 = 0,
                                  .wait_us = 10000,
                                  .owner = 42,
                                  .lease_us = 100000,
                                  .scope_psns = 2,
                                  .reserved16 = 0,
                                  .reserved32 = 0}));
  EXPECT_EQ(headers.payload_offset, 12 + 12 + 40);
  ASSERT_EQ(headers.payload_length, 16);
  const auto word = std::span<const std::uint8_t>(packet).subspan(headers.payload_offset);
  EXPECT_EQ(LockWord::parse(word.first<LockWord::kSize>()),
            (LockWord{.rkey = 0x11223344, .shared = true, .va = 0x7f0000001008}));
}

TEST(Packet, GoldenLockResponseOutsideOfSessions) {
  Headers headers;
  headers.bth = Bth{.opcode = 0xda, .destination = Qpn{0x11}, .psn = Psn{0x100}};
  headers.lkaeth = Lkaeth{.status = LockStatus::granted,
                          .cause = LockCause::none,
                          .scope_id = 0x1234,
                          .msn = 7,
                          .reserved8 = 0,
                          .previous_word = 0x0102030405060708,
                          .value = 0x1112131415161718};
  const Bytes expected = {0xda, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11,
                          0x00, 0x00, 0x01, 0x00,                           // BTH
                          0x01, 0x00, 0x12, 0x34, 0x00, 0x00, 0x07, 0x00,   // LKAETH
                          0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,   // previous word
                          0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18};  // token
  Bytes out(kHeadersMax);
  out.resize(emit_headers(headers, out));
  EXPECT_EQ(out, expected);
}

/// The same bytes, to a number on either side of the window's borders.
TEST(Packet, TheDestinationSaysWhetherALockHasASession) {
  std::mt19937_64 random(test::seed());
  const Bytes bytes = make_packet(random, {.opcode = kLockRequest}, 32);
  for (const auto& [number, expected] : {std::pair{0xcfffffu, 32}, std::pair{0xd00000u, 20},
                                         std::pair{0xdfffffu, 20}, std::pair{0xe00000u, 32}}) {
    Bytes packet = bytes;
    store_be24(&packet[kDestinationAt], number);
    Headers headers;
    ASSERT_EQ(parse(packet, packet.size(), packet.size(), headers), ParseResult::ok);
    EXPECT_EQ(headers.payload_length, expected) << number;
    EXPECT_EQ(headers.opcode->has(Header::dcsh), expected == 20) << number;
  }
}

/// Long enough for one without a session.
TEST(Packet, ALockToADynamicConnectionWithoutSessionIsTooShort) {
  std::mt19937_64 random(test::seed());
  for (const std::uint8_t opcode : {kLockRequest, kLockResponse}) {
    Bytes packet = make_packet(random, {.opcode = opcode}, 0);
    ASSERT_EQ(parse(packet), ParseResult::ok);
    store_be24(&packet[kDestinationAt], kDynamicConnection.value);
    EXPECT_EQ(parse(packet), ParseResult::too_short);
  }
}

TEST(Packet, EveryOpcodeRoundTripsAtEveryLength) {
  std::mt19937_64 random(test::seed());
  for (const Kind kind : defined_kinds()) {
    for (std::size_t payload = 0; payload <= (kind.info().has_payload ? 64 : 0); ++payload) {
      const Bytes packet = make_packet(random, kind, payload);
      Headers headers;
      ASSERT_EQ(parse(packet, packet.size(), packet.size(), headers), ParseResult::ok)
          << kind << " payload " << payload;
      EXPECT_EQ(headers.opcode, &kind.info());
      EXPECT_EQ(headers.payload_offset, 12 + kind.info().header_bytes);
      EXPECT_EQ(headers.payload_length, payload);

      Bytes out(kHeadersMax + 1, 0xee);
      ASSERT_EQ(emit_headers(headers, out), headers.payload_offset);
      EXPECT_TRUE(std::equal(out.begin(), out.begin() + headers.payload_offset, packet.begin()))
          << kind;
      EXPECT_TRUE(std::all_of(out.begin() + headers.payload_offset, out.end(),
                              [](std::uint8_t byte) { return byte == 0xee; }))
          << kind << " wrote beyond its headers";
    }
  }
}

TEST(Packet, NeedsAllHeadersInTheFirstBytesAndNoMore) {
  std::mt19937_64 random(test::seed());
  for (const Kind kind : defined_kinds()) {
    const Bytes packet = make_packet(random, kind, kind.info().has_payload ? 16 : 0);
    const std::size_t need = 12u + kind.info().header_bytes;
    for (std::size_t available = 0; available <= packet.size(); ++available) {
      Headers headers;
      EXPECT_EQ(parse(packet, available, packet.size(), headers),
                available < need ? ParseResult::not_contiguous : ParseResult::ok)
          << kind << " with " << available << " bytes";
    }
  }
}

TEST(Packet, EveryTruncationIsRefused) {
  std::mt19937_64 random(test::seed());
  for (const Kind kind : defined_kinds()) {
    const Bytes packet = make_packet(random, kind, 0);
    for (std::size_t length = 0; length < packet.size(); ++length) {
      Headers headers;
      const ParseResult result = parse(packet, length, length, headers);
      EXPECT_EQ(result,
                length >= 16 && length % 4 != 0 ? ParseResult::bad_length : ParseResult::too_short)
          << kind << " cut to " << length;
    }
  }
}

TEST(Packet, BytesAfterThePacketAreNotLookedAt) {
  std::mt19937_64 random(test::seed());
  Bytes packet = make_packet(random, {.opcode = 0x0a}, 0);
  const std::size_t length = packet.size();
  packet.insert(packet.end(), 18, 0);  // Ethernet padding
  Headers headers;
  ASSERT_EQ(parse(packet, packet.size(), length, headers), ParseResult::ok);
  EXPECT_EQ(headers.payload_length, 0);
  // Nor do they stand in for missing headers.
  EXPECT_EQ(parse(packet, packet.size(), length - 4, headers), ParseResult::too_short);
}

TEST(Packet_9_2, OnlyVersionZeroIsTaken) {
  std::mt19937_64 random(test::seed());
  for (std::uint8_t version = 1; version < 16; ++version) {
    Bytes packet = make_packet(random, {.opcode = 0x04}, 8);
    packet[1] |= version;
    EXPECT_EQ(parse(packet), ParseResult::bad_version) << unsigned{version};
  }
}

TEST(Packet_9_2_1, UndefinedOpcodesAreRefused) {
  std::mt19937_64 random(test::seed());
  std::size_t refused = 0;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    if (info(static_cast<std::uint8_t>(opcode)).defined) continue;
    Bytes packet = make_packet(random, {.opcode = static_cast<std::uint8_t>(opcode)}, 64);
    EXPECT_EQ(parse(packet), ParseResult::unknown_opcode) << opcode;
    Headers headers;
    headers.bth.opcode = static_cast<std::uint8_t>(opcode);
    EXPECT_EQ(emit_headers(headers, packet), 0u) << opcode;
    ++refused;
  }
  EXPECT_EQ(refused, 256u - 119u);
}

TEST(Packet, ConnectCarriesNothingElse) {
  std::mt19937_64 random(test::seed());
  for (unsigned operation = 0; operation < 256; ++operation) {
    const auto carried = static_cast<std::uint8_t>(operation);
    if (connect_data_info(carried).defined) continue;
    Bytes packet = make_packet(random, {.opcode = kConnectData}, 64);
    packet[kOperationAt] = carried;
    EXPECT_EQ(parse(packet), ParseResult::unknown_opcode) << operation;
    Headers headers;
    headers.bth.opcode = kConnectData;
    headers.dcch.set_operation(carried);
    EXPECT_EQ(emit_headers(headers, packet), 0u) << operation;
  }
}

/// A connect may lack headers that only its own operation asks for.
TEST(Packet, ConnectEndsBehindTheHeadersOfItsOperation) {
  std::mt19937_64 random(test::seed());
  Bytes packet = make_packet(random, {.opcode = kConnectData, .carried = 0xc4}, 0);
  Headers headers;
  ASSERT_EQ(parse(packet, packet.size(), packet.size(), headers), ParseResult::ok);
  packet[kOperationAt] = 0xca;  // a WRITE, without its RETH
  EXPECT_EQ(parse(packet), ParseResult::too_short);
}

TEST(Packet, LengthMustBeAMultipleOfFourUpTo65535) {
  std::mt19937_64 random(test::seed());
  const Bytes packet = make_packet(random, {.opcode = 0x04}, 64);
  Headers headers;
  for (std::size_t cut = 1; cut < 4; ++cut) {
    EXPECT_EQ(parse(packet, packet.size(), packet.size() - cut, headers), ParseResult::bad_length);
  }
  EXPECT_EQ(parse(packet, packet.size(), 65532, headers), ParseResult::ok);
  EXPECT_EQ(headers.payload_length + headers.bth.pad_count, 65532 - 12 - 4);
  EXPECT_EQ(parse(packet, packet.size(), 65536, headers), ParseResult::bad_length);
  EXPECT_EQ(parse(packet, packet.size(), SIZE_MAX - 3, headers), ParseResult::bad_length);
}

TEST(Packet_9_2, PaddingMustHaveBytesToStandIn) {
  std::mt19937_64 random(test::seed());
  for (const Kind kind : defined_kinds()) {
    for (unsigned pad = 1; pad < 4; ++pad) {
      Bytes packet = make_packet(random, kind, 0);
      packet[1] = static_cast<std::uint8_t>(packet[1] | pad << 4);
      EXPECT_EQ(parse(packet), ParseResult::bad_pad) << kind << " " << pad;
    }
  }
}

TEST(Packet, OpcodesWithoutPayloadCarryNone) {
  std::mt19937_64 random(test::seed());
  for (const Kind kind : defined_kinds()) {
    const Bytes packet = make_packet(random, kind, 4);
    EXPECT_EQ(parse(packet), kind.info().has_payload ? ParseResult::ok : ParseResult::bad_length)
        << kind;
  }
}

TEST(Packet, EmissionNeedsRoomForAllHeaders) {
  for (const Kind kind : defined_kinds()) {
    Headers headers;
    headers.bth.opcode = kind.opcode;
    headers.bth.destination = kind.destination;
    headers.dcch.set_operation(kind.carried);
    const std::size_t need = 12u + kind.info().header_bytes;
    for (std::size_t room = 0; room <= need; ++room) {
      const auto exact = std::make_unique<std::uint8_t[]>(room);
      std::fill_n(exact.get(), room, std::uint8_t{0xee});
      const std::size_t written = emit_headers(headers, {exact.get(), room});
      EXPECT_EQ(written, room < need ? 0 : need) << kind << " room " << room;
      if (room < need && room > 0) {
        EXPECT_EQ(exact[0], 0xee);
      }
    }
  }
}

TEST(Packet, PadCountFillsToFour) {
  static_assert(pad_count(0) == 0 && pad_count(1) == 3 && pad_count(2) == 2 && pad_count(3) == 1);
  for (std::size_t length = 0; length < 10'000; ++length) {
    ASSERT_EQ((length + pad_count(length)) % 4, 0u);
    ASSERT_LT(pad_count(length), 4);
  }
}

TEST(Packet, EveryResultHasANameOfItsOwn) {
  std::set<std::string> names;
  for (unsigned result = 0; result <= static_cast<unsigned>(ParseResult::bad_length); ++result) {
    names.insert(to_string(static_cast<ParseResult>(result)));
  }
  EXPECT_EQ(names.size(), 7u);
  EXPECT_EQ(names.count("invalid"), 0u);
}

}  // namespace
}  // namespace packet_test
}  // namespace rockhopper::wire
