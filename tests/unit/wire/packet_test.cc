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

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint8_t kConnectData = 0xde;
constexpr std::size_t kOperationAt = Bth::kSize + 44;

/// A kind of packet.
struct Kind {
  std::uint8_t opcode;
  std::uint8_t carried = 0;  ///< by a connect with data: the opcode that says what it is

  [[nodiscard]] const OpcodeInfo& info() const {
    return carried == 0 ? wire::info(opcode) : connect_data_info(carried);
  }
  friend std::ostream& operator<<(std::ostream& out, const Kind& kind) {
    return out << opcode_name(kind.opcode) << " " << unsigned{kind.carried};
  }
};

/// A packet from its BTH on: random extension headers and payload, zero padding and ICRC.
Bytes make_packet(std::mt19937_64& random, Kind kind, std::size_t payload) {
  const std::size_t pad = (4 - payload % 4) % 4;
  Bytes bytes(Bth::kSize + kind.info().header_bytes + payload + pad + 4);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  bytes[0] = kind.opcode;
  if (kind.carried != 0) bytes[kOperationAt] = kind.carried;
  bytes[1] = static_cast<std::uint8_t>((bytes[1] & 0xc0) | pad << 4);
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
  EXPECT_EQ(refused, 256u - 117u);
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
}  // namespace rockhopper::wire
