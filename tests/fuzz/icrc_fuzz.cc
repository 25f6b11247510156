// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// The ICRC against a bitwise CRC-32 over a masked copy. Input: one byte, the length of the part
// from the IP header through the BTH; one byte, the size of the segments of what follows; bytes.
#include <algorithm>

#include "roce/wire/icrc.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/crc32.h"

namespace rockhopper::fuzz {
namespace {

/// Puts ones in the fields that annex A17.3.3 masks, if `l3` is a packet that has them.
void mask(std::span<std::uint8_t> l3) {
  constexpr std::size_t kUdpAndBth = 20;
  if (l3.size() < 20 + kUdpAndBth || l3.size() > 60 + kUdpAndBth) return;
  const std::size_t bth = l3.size() - 12;
  const std::size_t ipv4_header = (l3[0] & 0xfu) * 4;
  if (l3[0] >> 4 == 4 && ipv4_header + kUdpAndBth == l3.size()) {
    for (const std::size_t at : {1, 8, 10, 11}) {
      l3[at] = 0xff;
    }
  } else if (l3[0] >> 4 == 6 && l3.size() >= 40 + kUdpAndBth) {
    l3[0] |= 0x0f;
    for (const std::size_t at : {1, 2, 3, 7}) {
      l3[at] = 0xff;
    }
  } else {
    return;
  }
  l3[bth - 2] = l3[bth - 1] = l3[bth + 4] = 0xff;
}

void run(std::span<const std::uint8_t> input) {
  if (input.size() < 2) return;
  const auto bytes = input.subspan(2);
  const std::size_t l3_length = std::min<std::size_t>(input[0], bytes.size());
  const std::size_t segment = std::max<std::size_t>(input[1], 1);

  wire::Icrc icrc;
  icrc.add_ip_udp_bth(bytes.first(l3_length));
  for (std::size_t at = l3_length; at < bytes.size(); at += segment) {
    icrc.add(bytes.subspan(at, std::min(segment, bytes.size() - at)));
  }

  test::Bytes reference(8 + bytes.size(), 0xff);
  std::copy(bytes.begin(), bytes.end(), reference.begin() + 8);
  mask(std::span(reference).subspan(8, l3_length));
  check(icrc.value() == test::crc32(reference));
  check(wire::icrc_over(bytes.first(l3_length), bytes.subspan(l3_length)) == icrc.value());
}

test::Bytes make_input(const test::RocePacket& packet) {
  constexpr std::uint8_t kSegment = 100;
  test::Bytes input(2 + packet.bytes.size());
  input[0] = static_cast<std::uint8_t>(packet.l3().size());
  input[1] = kSegment;
  std::copy(packet.bytes.begin(), packet.bytes.end(), input.begin() + 2);
  return input;
}

const FuzzTarget kTarget("icrc", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
