// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// parse_headers() and emit_headers(). Input: two bytes, the transport length that the packet
// claims, then the bytes from the BTH on.
#include <algorithm>
#include <array>

#include "roce/wire/bytes.h"
#include "roce/wire/packet.h"
#include "tests/fuzz/fuzz_target.h"

namespace rockhopper::fuzz {
namespace {

using wire::Headers;
using wire::ParseResult;

void check_accepted(std::span<const std::uint8_t> bytes, std::size_t transport_length,
                    const Headers& headers) {
  const wire::OpcodeInfo& opcode = wire::info(headers);
  check(headers.opcode == &opcode && opcode.defined);
  check(headers.bth.version == 0 && headers.bth.pad_count <= 3);
  check(headers.payload_offset == wire::Bth::kSize + opcode.header_bytes);
  check(headers.payload_offset <= bytes.size());
  check(opcode.has_payload || headers.payload_length == 0);
  check(std::size_t{headers.payload_offset} + headers.payload_length + headers.bth.pad_count +
            wire::Icrc::kSize ==
        transport_length);

  // The values stand for the bytes.
  std::array<std::uint8_t, wire::kHeadersMax> emitted;
  check(wire::emit_headers(headers, emitted) == headers.payload_offset);
  check(std::equal(emitted.begin(), emitted.begin() + headers.payload_offset, bytes.begin()));

  // The headers alone suffice; one byte less does not.
  Headers again;
  check(wire::parse_headers(bytes.first(headers.payload_offset), transport_length, again) ==
        ParseResult::ok);
  check(opcode.has(wire::Header::dcch) ||
        &opcode == &wire::info_to(bytes[0], wire::Qpn{wire::load_be24(&bytes[5])}));
  check(wire::parse_headers(bytes.first(headers.payload_offset - 1u), transport_length, again) ==
        ParseResult::not_contiguous);
}

void run(std::span<const std::uint8_t> input) {
  if (input.size() < 2) return;
  const std::size_t claimed_length = wire::load_be16(input.data());
  const auto bytes = input.subspan(2);
  for (const std::size_t transport_length : {claimed_length, bytes.size()}) {
    Headers headers;
    const ParseResult result = wire::parse_headers(bytes, transport_length, headers);
    if (result == ParseResult::ok) check_accepted(bytes, transport_length, headers);
  }
}

test::Bytes make_input(const test::RocePacket& packet) {
  const auto transport = packet.transport();
  test::Bytes input(2 + transport.size());
  wire::store_be16(input.data(), static_cast<std::uint16_t>(transport.size()));
  std::copy(transport.begin(), transport.end(), input.begin() + 2);
  return input;
}

const FuzzTarget kTarget("packet", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
