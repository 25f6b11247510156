// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/ip_address.h"

#include <algorithm>
#include <cassert>

#include <arpa/inet.h>

namespace rockhopper::stack {
namespace {

constexpr std::array<std::uint8_t, 12> kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

IpAddress IpAddress::from_ipv4(std::uint32_t host_order) {
  IpAddress address;
  std::copy(kMappedPrefix.begin(), kMappedPrefix.end(), address.bytes.begin());
  address.bytes[12] = static_cast<std::uint8_t>(host_order >> 24);
  address.bytes[13] = static_cast<std::uint8_t>(host_order >> 16);
  address.bytes[14] = static_cast<std::uint8_t>(host_order >> 8);
  address.bytes[15] = static_cast<std::uint8_t>(host_order);
  return address;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  const std::string terminated(text);
  in_addr ipv4{};
  if (inet_pton(AF_INET, terminated.c_str(), &ipv4) == 1) return from_ipv4(ntohl(ipv4.s_addr));
  IpAddress address;
  if (inet_pton(AF_INET6, terminated.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

bool IpAddress::is_ipv4() const {
  return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), bytes.begin());
}

std::uint32_t IpAddress::ipv4() const {
  assert(is_ipv4());
  return static_cast<std::uint32_t>(bytes[12]) << 24 | static_cast<std::uint32_t>(bytes[13]) << 16 |
         static_cast<std::uint32_t>(bytes[14]) << 8 | bytes[15];
}

bool IpAddress::is_unspecified() const { return is_ipv4() ? ipv4() == 0 : *this == IpAddress{}; }

bool IpAddress::is_multicast() const {
  return is_ipv4() ? bytes[12] >> 4 == 0xe : bytes[0] == 0xff;
}

bool IpAddress::is_link_local() const {
  if (is_ipv4()) return bytes[12] == 169 && bytes[13] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string IpAddress::to_string() const {
  char text[INET6_ADDRSTRLEN];
  const char* written = is_ipv4() ? inet_ntop(AF_INET, &bytes[12], text, sizeof text)
                                  : inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  return written == nullptr ? std::string() : std::string(written);
}

}  // namespace rockhopper::stack
