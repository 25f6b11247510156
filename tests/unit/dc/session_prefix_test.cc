// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What tells a packet's connection: without an engine.
#include "dc/session_prefix.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gtest/gtest.h>

#include "roce/wire/packet.h"

namespace rockhopper::test {
namespace {

using wire::Opcode;

constexpr wire::Dcsh kSession{
    .form = 1, .stream = 5, .source = wire::Qpn{0xd12345}, .value = 0x1122334455667788};

wire::Headers write() {
  wire::Headers headers;
  headers.bth.opcode = static_cast<std::uint8_t>(Opcode::dc_rdma_write_only);
  headers.bth.destination = wire::Qpn{0xd00001};
  headers.reth = {.va = 0x1000, .rkey = 7, .length = 8};
  return headers;
}

/// What a receiver finds in a packet with these headers and no payload.
wire::Headers parsed(const wire::Headers& headers) {
  std::array<std::uint8_t, wire::kHeadersMax + 4> bytes{};
  const std::size_t length =
      wire::emit_headers(headers, std::span(bytes).first<wire::kHeadersMax>());
  wire::Headers result;
  EXPECT_EQ(wire::parse_headers(bytes, length + 4, result), wire::ParseResult::ok);
  return result;
}

TEST(SessionPrefix, PacketsHaveTheSessionHeader) {
  dc::SessionPrefix prefix;
  prefix.set_session(kSession);
  wire::Headers headers = write();
  prefix.add_to(headers);
  const wire::Headers found = parsed(headers);
  EXPECT_EQ(found.bth.opcode, static_cast<std::uint8_t>(Opcode::dc_rdma_write_only));
  EXPECT_EQ(found.dcsh, kSession);
  EXPECT_EQ(found.reth, headers.reth);
}

TEST(SessionPrefix, ConnectStandsInPlaceOfIt) {
  dc::SessionPrefix prefix;
  prefix.set_session(kSession);
  wire::Dcch connect{};
  connect.bytes.fill(0x5a);
  prefix.set_connect(&connect);
  wire::Headers headers = write();
  prefix.add_to(headers);
  const wire::Headers found = parsed(headers);
  EXPECT_EQ(found.bth.opcode, static_cast<std::uint8_t>(Opcode::dc_connect_data));
  EXPECT_TRUE(found.opcode->has(wire::Header::dcch));
  EXPECT_FALSE(found.opcode->has(wire::Header::dcsh));
  EXPECT_EQ(found.dcch.operation(), static_cast<std::uint8_t>(Opcode::dc_rdma_write_only));
  EXPECT_EQ(found.dcch.bytes[0], 0x5a);
  EXPECT_EQ(found.reth, headers.reth);
  EXPECT_EQ(connect.operation(), 0x5a) << "the caller's stays as it is";
}

TEST(SessionPrefix, ConnectIsCarriedUntilItIsTakenBack) {
  dc::SessionPrefix prefix;
  prefix.set_session(kSession);
  const wire::Dcch connect{};
  prefix.set_connect(&connect);
  prefix.set_connect(nullptr);
  wire::Headers headers = write();
  prefix.add_to(headers);
  EXPECT_EQ(parsed(headers).dcsh, kSession);
}

}  // namespace
}  // namespace rockhopper::test
