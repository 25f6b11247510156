// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cassert>
#include <compare>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <rte_byteorder.h>

namespace rockhopper::stack {

/// An IPv4 or IPv6 address in the form of a RoCEv2 GID: 16 bytes in network order, IPv4 as an
/// IPv4-mapped address (RFC 4291, section 2.5.5.2).
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  /// `host_order` as in 0x0A000001 = 10.0.0.1.
  [[nodiscard]] static IpAddress from_ipv4(std::uint32_t host_order) {
    return from_halves(0, rte_cpu_to_be_64(kMapped | host_order));
  }
  /// The 16 bytes there, as they are.
  [[nodiscard]] static IpAddress from_bytes(const void* bytes) {
    IpAddress address;
    std::memcpy(address.bytes.data(), bytes, address.bytes.size());
    return address;
  }
  /// Accepts dotted IPv4 and any textual IPv6; nothing else.
  [[nodiscard]] static std::optional<IpAddress> parse(std::string_view text);

  [[nodiscard]] bool is_ipv4() const {
    return half(0) == 0 &&
           (half(1) & rte_cpu_to_be_64(~std::uint64_t{UINT32_MAX})) == rte_cpu_to_be_64(kMapped);
  }
  /// The IPv4 address in host order. Requires is_ipv4().
  [[nodiscard]] std::uint32_t ipv4() const {
    assert(is_ipv4());
    return static_cast<std::uint32_t>(rte_be_to_cpu_64(half(1)));
  }
  [[nodiscard]] bool is_unspecified() const {
    return half(0) == 0 && (half(1) == 0 || half(1) == rte_cpu_to_be_64(kMapped));
  }
  [[nodiscard]] bool is_multicast() const {
    return is_ipv4() ? bytes[12] >> 4 == 0xe : bytes[0] == 0xff;
  }
  [[nodiscard]] bool is_loopback() const {
    return is_ipv4() ? bytes[12] == 127 : half(0) == 0 && half(1) == rte_cpu_to_be_64(1);
  }
  [[nodiscard]] bool is_link_local() const {
    if (is_ipv4()) return bytes[12] == 169 && bytes[13] == 254;
    return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  }
  [[nodiscard]] std::string to_string() const;

  friend auto operator<=>(const IpAddress& a, const IpAddress& b) { return a.bytes <=> b.bytes; }
  friend bool operator==(const IpAddress& a, const IpAddress& b) {
    return a.half(0) == b.half(0) && a.half(1) == b.half(1);
  }

 private:
  static constexpr std::uint64_t kMapped = 0xffff'0000'0000;  ///< the second half of ::ffff:0:0

  // Read and written by halves: a processor does not forward from several small stores to one
  // larger load, which would cost more than all else that is done to a packet's addresses.
  [[nodiscard]] std::uint64_t half(std::size_t index) const {
    std::uint64_t value = 0;
    std::memcpy(&value, &bytes[index * sizeof value], sizeof value);
    return value;
  }
  [[nodiscard]] static IpAddress from_halves(std::uint64_t first, std::uint64_t second) {
    IpAddress address;
    std::memcpy(&address.bytes[0], &first, sizeof first);
    std::memcpy(&address.bytes[sizeof first], &second, sizeof second);
    return address;
  }
};

}  // namespace rockhopper::stack
