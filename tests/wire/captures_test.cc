// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Every packet of the Soft-RoCE captures: parsed, its ICRC verified, emitted again byte for byte.
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "roce/wire/icrc.h"
#include "roce/wire/packet.h"
#include "tests/support/capture.h"
#include "tests/support/seed.h"

namespace rockhopper::wire {
namespace {

using test::Bytes;
using test::RocePacket;

std::uint32_t stored_icrc(const RocePacket& packet) {
  return load_icrc(std::span(packet.bytes).last<Icrc::kSize>());
}

std::uint32_t computed_icrc(const RocePacket& packet) {
  const auto rest = packet.transport().subspan(Bth::kSize);
  return icrc_over(packet.l3(), rest.first(rest.size() - Icrc::kSize));
}

ParseResult parse(const RocePacket& packet, Headers& headers) {
  return parse_headers(packet.transport(), packet.transport().size(), headers);
}

/// The bits that routers and switches may change, written down from the clause, not from icrc.cc.
Bytes masked_bits(const RocePacket& packet) {
  Bytes mask(packet.bytes.size(), 0);
  const bool is_ipv6 = packet.bytes[0] >> 4 == 6;
  if (is_ipv6) {
    mask[0] = 0x0f;                      // traffic class
    mask[1] = mask[2] = mask[3] = 0xff;  // traffic class, flow label
    mask[7] = 0xff;                      // hop limit
  } else {
    mask[1] = mask[8] = mask[10] = mask[11] = 0xff;  // TOS, TTL, checksum
  }
  mask[packet.bth - 2] = mask[packet.bth - 1] = 0xff;  // UDP checksum
  mask[packet.bth + 4] = 0xff;                         // FECN, BECN, reserved
  return mask;
}

std::vector<std::string> capture_names() {
  std::vector<std::string> names;
  for (const auto& file : test::pcap_files(test::captures_directory())) {
    names.push_back(file.stem().string());
  }
  return names;
}

class Captures : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    packets_ = test::read_roce_packets(test::captures_directory() / (GetParam() + ".pcap"));
    ASSERT_FALSE(packets_.empty());
  }

  std::vector<RocePacket> packets_;
  std::mt19937_64 random_{test::seed()};
};

INSTANTIATE_TEST_SUITE_P(SoftRoce, Captures, testing::ValuesIn(capture_names()),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CaptureIndex, NamesEveryFile) {
  const auto index = test::packets_by_index();
  std::vector<std::string> indexed;
  for (const auto& [file, packets] : index) {
    indexed.push_back(std::filesystem::path(file).stem().string());
  }
  std::vector<std::string> present = capture_names();
  std::sort(present.begin(), present.end());
  std::sort(indexed.begin(), indexed.end());
  EXPECT_EQ(indexed, present);
}

TEST_P(Captures, HoldAsManyPacketsAsTheIndexSays) {
  EXPECT_EQ(packets_.size(), test::packets_by_index().at(GetParam() + ".pcap"));
}

TEST_P(Captures, EveryPacketParses) {
  for (const RocePacket& packet : packets_) {
    Headers headers;
    ASSERT_EQ(parse(packet, headers), ParseResult::ok);
    EXPECT_EQ(headers.payload_offset + headers.payload_length + headers.bth.pad_count + 4u,
              packet.transport().size());
    EXPECT_EQ(headers.bth.pad_count, pad_count(headers.payload_length));
    EXPECT_EQ(headers.bth.pkey, kDefaultPkey);
    const bool is_datagram =
        GetParam().find("-ud-") != std::string::npos || GetParam().starts_with("cm-");
    const bool is_uc = GetParam().find("-uc-") != std::string::npos;
    if (!is_datagram) {
      EXPECT_EQ(headers.opcode->service, is_uc ? ServiceClass::uc : ServiceClass::rc);
    }
  }
}

TEST_P(Captures, IcrcIsGoodHoweverThePacketIsCut) {
  for (const RocePacket& packet : packets_) {
    ASSERT_EQ(computed_icrc(packet), stored_icrc(packet));
    const auto rest = packet.transport().subspan(Bth::kSize);
    const auto covered = rest.first(rest.size() - Icrc::kSize);
    for (int round = 0; round < 8; ++round) {
      Icrc icrc;
      icrc.add_ip_udp_bth(packet.l3());
      for (std::size_t at = 0; at < covered.size();) {
        const std::size_t length = std::min<std::size_t>(random_() % 200, covered.size() - at);
        icrc.add(covered.subspan(at, length));
        at += length;
      }
      ASSERT_EQ(icrc.value(), stored_icrc(packet)) << "seed " << test::seed();
    }
  }
}

TEST_P(Captures, EmittedAgainByteForByte) {
  for (const RocePacket& packet : packets_) {
    Headers headers;
    ASSERT_EQ(parse(packet, headers), ParseResult::ok);
    const auto transport = packet.transport();

    const auto payload = transport.subspan(headers.payload_offset, headers.payload_length);
    Bytes emitted(kHeadersMax + payload.size() + headers.bth.pad_count, 0);
    const std::size_t header_bytes = emit_headers(headers, emitted);
    std::copy(payload.begin(), payload.end(), emitted.begin() + header_bytes);
    emitted.resize(header_bytes + payload.size() + headers.bth.pad_count);

    Bytes l3(packet.bytes.begin(), packet.bytes.begin() + packet.bth);
    l3.insert(l3.end(), emitted.begin(), emitted.begin() + Bth::kSize);
    const std::uint32_t icrc = icrc_over(l3, std::span(emitted).subspan(Bth::kSize));
    emitted.resize(emitted.size() + Icrc::kSize);
    store_icrc(icrc, std::span(emitted).last<Icrc::kSize>());
    ASSERT_EQ(emitted, Bytes(transport.begin(), transport.end()));
  }
}

/// WIRE-1, for packets of the standard: those of Soft-RoCE.
TEST_P(Captures, OneFlippedBitIsSeenUnlessItIsMasked) {
  for (const RocePacket& packet : packets_) {
    const Bytes mask = masked_bits(packet);
    // All bits of the headers, and as many elsewhere.
    const std::size_t headers = packet.bth + kHeadersMax;
    for (std::size_t i = 0; i < 2 * headers; ++i) {
      const std::size_t byte = i < headers ? i : random_() % packet.bytes.size();
      if (byte >= packet.bytes.size()) continue;
      const auto bit = static_cast<std::uint8_t>(1u << random_() % 8);
      RocePacket flipped = packet;
      flipped.bytes[byte] ^= bit;
      ASSERT_EQ(computed_icrc(flipped) == stored_icrc(flipped), (mask[byte] & bit) != 0)
          << "byte " << byte << " bit " << unsigned{bit} << " seed " << test::seed();
    }
  }
}

TEST_P(Captures, EveryTruncationIsRefused) {
  for (const RocePacket& packet : packets_) {
    const auto transport = packet.transport();
    Headers whole;
    ASSERT_EQ(parse(packet, whole), ParseResult::ok);
    for (std::size_t length = 0; length < transport.size(); ++length) {
      const auto exact = std::make_unique<std::uint8_t[]>(length);  // lets ASan see an overread
      std::copy_n(transport.begin(), length, exact.get());
      const std::span<const std::uint8_t> prefix(exact.get(), length);
      Headers headers;
      // As the start of the whole packet, and as a packet of its own.
      ASSERT_EQ(parse_headers(prefix, transport.size(), headers),
                length < whole.payload_offset ? ParseResult::not_contiguous : ParseResult::ok);
      const ParseResult alone = parse_headers(prefix, length, headers);
      if (length < whole.payload_offset + 4u || length % 4 != 0) {
        ASSERT_NE(alone, ParseResult::ok) << length;
      }
    }
  }
}

}  // namespace
}  // namespace rockhopper::wire
