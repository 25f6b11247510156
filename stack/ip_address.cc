// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/ip_address.h"

#include <arpa/inet.h>

namespace rockhopper::stack {
std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  const std::string terminated(text);
  in_addr ipv4{};
  if (inet_pton(AF_INET, terminated.c_str(), &ipv4) == 1) return from_ipv4(ntohl(ipv4.s_addr));
  IpAddress address;
  if (inet_pton(AF_INET6, terminated.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

std::string IpAddress::to_string() const {
  char text[INET6_ADDRSTRLEN];
  const char* written = is_ipv4() ? inet_ntop(AF_INET, &bytes[12], text, sizeof text)
                                  : inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  return written == nullptr ? std::string() : std::string(written);
}

}  // namespace rockhopper::stack
