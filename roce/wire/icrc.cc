// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/wire/icrc.h"

#include <array>
#include <cstring>

#include <isa-l/crc.h>

#include "roce/wire/bth.h"

namespace rockhopper::wire {
namespace {

constexpr std::size_t kIpv4HeaderMin = 20;
constexpr std::size_t kIpv6Header = 40;
constexpr std::size_t kUdpHeader = 8;
/// Up to here a copy costs less than starting the computation again behind the headers.
constexpr std::size_t kCopiedMax = 192;
static_assert(kCopiedMax >= Icrc::kL3Max);
constexpr std::size_t kUdpBth = kUdpHeader + Bth::kSize;

/// Puts ones in the place of the variant fields (IBTA vol. 1, annex A17.3.3). False, with nothing
/// changed, when `l3` is not IP header, UDP header and BTH.
bool mask_variant_fields(std::span<std::uint8_t> l3) {
  if (l3.size() < kIpv4HeaderMin + kUdpBth) {
    return false;
  }
  const unsigned version = l3[0] >> 4;
  const std::size_t ip_header = l3.size() - kUdpBth;
  if (version == 4 && ip_header == std::size_t{l3[0] & 0xfu} * 4) {
    l3[1] = 0xff;   // type of service
    l3[8] = 0xff;   // time to live
    l3[10] = 0xff;  // header checksum
    l3[11] = 0xff;
  } else if (version == 6 && ip_header >= kIpv6Header) {
    l3[0] |= 0x0f;  // traffic class, flow label
    l3[1] = 0xff;
    l3[2] = 0xff;
    l3[3] = 0xff;
    l3[7] = 0xff;  // hop limit
  } else {
    return false;
  }
  const auto udp = l3.subspan(ip_header);
  udp[6] = 0xff;  // checksum
  udp[7] = 0xff;
  udp[kUdpHeader + 4] = 0xff;  // BTH: FECN, BECN, reserved
  return true;
}

}  // namespace

void Icrc::add(std::span<const std::uint8_t> bytes) {
  if (!bytes.empty()) {
    crc_ = crc32_gzip_refl(crc_, bytes.data(), bytes.size());
  }
}

void Icrc::add_packet(std::span<const std::uint8_t> bytes, std::size_t l3_length) {
  if (l3_length > kL3Max) {
    add(bytes);
    return;
  }
  std::array<std::uint8_t, kCopiedMax> copy;
  const std::size_t copied = bytes.size() <= copy.size() ? bytes.size() : l3_length;
  std::memcpy(copy.data(), bytes.data(), copied);
  const std::span<std::uint8_t> masked(copy.data(), copied);
  (void)mask_variant_fields(masked.first(l3_length));
  add(masked);
  add(bytes.subspan(copied));
}

}  // namespace rockhopper::wire
