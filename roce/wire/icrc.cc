// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/wire/icrc.h"

#include <array>
#include <cassert>
#include <cstring>

#include "roce/wire/bth.h"
#include "roce/wire/crc32.h"
#include "roce/wire/short_icrc.h"

namespace rockhopper::wire {
namespace {

constexpr std::size_t kIpv4HeaderMin = 20;
constexpr std::size_t kIpv6Header = 40;
constexpr std::size_t kUdpHeader = 8;
constexpr std::size_t kUdpBth = kUdpHeader + Bth::kSize;
/// Up to here a copy costs less than starting the computation again behind the headers.
constexpr std::size_t kCopiedMax = kShortIcrcMax;
static_assert(kCopiedMax >= Icrc::kL3Max);

/// Puts ones in the place of the variant fields (IBTA vol. 1, annex A17.3.3). False, with nothing
/// changed, when `l3` is not IP header, UDP header and BTH.
constexpr bool mask_variant_fields(std::span<std::uint8_t> l3) {
  if (l3.size() < kIpv4HeaderMin + kUdpBth) return false;
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

/// Ones in the place of the variant fields, zeros in all others, for headers of this length without
/// options. `first` is the first byte of the IP header.
constexpr IcrcMask make_mask(std::uint8_t first, std::size_t l3_length) {
  IcrcMask mask{};
  mask[0] = first;
  mask_variant_fields(std::span(mask).first(l3_length));
  mask[0] = static_cast<std::uint8_t>(mask[0] ^ first);
  return mask;
}

template <typename T>
void copy_with_ones(const std::uint8_t* from, const std::uint8_t* ones, std::uint8_t* to) {
  T bytes;
  T mask;
  std::memcpy(&bytes, from, sizeof bytes);
  std::memcpy(&mask, ones, sizeof mask);
  bytes |= mask;
  std::memcpy(to, &bytes, sizeof bytes);
}

/// Copies in blocks of the size in which the computation reads: it need not wait until smaller
/// stores have reached the cache.
void copy_with_ones(std::span<const std::uint8_t> from, const IcrcMask& ones, std::uint8_t* to) {
  using Block [[gnu::vector_size(16)]] = std::uint8_t;
  std::size_t done = 0;
  for (; done + sizeof(Block) <= from.size(); done += sizeof(Block)) {
    copy_with_ones<Block>(&from[done], &ones[done], to + done);
  }
  if (done + sizeof(std::uint64_t) <= from.size()) {
    copy_with_ones<std::uint64_t>(&from[done], &ones[done], to + done);
    done += sizeof(std::uint64_t);
  }
  for (; done < from.size(); ++done) {
    copy_with_ones<std::uint8_t>(&from[done], &ones[done], to + done);
  }
}

}  // namespace

constexpr IcrcMask kIpv4IcrcMask = make_mask(0x45, kIpv4HeaderMin + kUdpBth);
constexpr IcrcMask kIpv6IcrcMask = make_mask(0x60, kIpv6Header + kUdpBth);

const IcrcMask* icrc_mask(std::uint8_t first, std::size_t l3_length) {
  if (l3_length == kIpv4HeaderMin + kUdpBth && first == 0x45) return &kIpv4IcrcMask;
  if (l3_length == kIpv6Header + kUdpBth && first >> 4 == 6) return &kIpv6IcrcMask;
  return nullptr;
}

std::uint32_t icrc_begin(std::span<const std::uint8_t> ip_udp) {
  std::array<std::uint8_t, kIpv6Header + kUdpBth> copy{};
  assert(ip_udp.size() + Bth::kSize <= copy.size());
  std::memcpy(copy.data(), ip_udp.data(), ip_udp.size());
  [[maybe_unused]] const bool masked =
      mask_variant_fields(std::span(copy).first(ip_udp.size() + Bth::kSize));
  assert(masked);
  Icrc icrc;
  icrc.add(std::span(copy).first(ip_udp.size()));
  return ~icrc.value();
}

void Icrc::add(std::span<const std::uint8_t> bytes) {
  crc_ = crc32_kernel().add(crc_, bytes.data(), bytes.size());
}

void Icrc::add_copied(std::span<const std::uint8_t> from, std::uint8_t* to) {
  crc_ = crc32_kernel().copy(crc_, to, from.data(), from.size());
}

void Icrc::add_packet(std::span<const std::uint8_t> bytes, std::size_t l3_length) {
  if (l3_length > kL3Max || bytes.empty()) {
    add(bytes);
    return;
  }
  const std::size_t head_length = bytes.size() <= kCopiedMax ? bytes.size() : l3_length;
  const std::span<const std::uint8_t> head = bytes.first(head_length);
  const IcrcMask* mask = icrc_mask(head[0], l3_length);
  if (mask != nullptr && crc_ == kInitial && has_short_icrc(head_length)) {
    crc_ = short_icrc(head_length)(head.data(), *mask, head_length);
  } else {
    add_copy(head, l3_length, mask);
  }
  if (head_length < bytes.size()) add(bytes.subspan(head_length));
}

void Icrc::add_copy(std::span<const std::uint8_t> head, std::size_t l3_length,
                    const IcrcMask* mask) {
  alignas(16) std::array<std::uint8_t, kCopiedMax> copy;
  if (mask != nullptr) {
    copy_with_ones(head, *mask, copy.data());
  } else {
    std::memcpy(copy.data(), head.data(), head.size());
    (void)mask_variant_fields(std::span(copy).first(l3_length));
  }
  crc_ = crc32_kernel().add(crc_, copy.data(), head.size());
}

}  // namespace rockhopper::wire
