// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/interface_address.h"

#include <charconv>
#include <system_error>

namespace rockhopper::stack {

Expected<InterfaceAddress> InterfaceAddress::parse(std::string_view text, bool loopback) {
  const std::size_t slash = text.find('/');
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address || slash == std::string_view::npos) {
    return fail(ErrorCode::invalid_argument,
                "{}: not an address with prefix length, as 10.0.0.1/24 or fd00::1/64", text);
  }
  const std::string_view length = text.substr(slash + 1);
  const unsigned limit = address->is_ipv4() ? 32 : 128;
  unsigned prefix = 0;
  const char* last = length.data() + length.size();
  const auto [end, error] = std::from_chars(length.data(), last, prefix);
  if (error != std::errc{} || end != last || prefix > limit) {
    return fail(ErrorCode::invalid_argument, "{}: the prefix length must be 0 to {}", text, limit);
  }
  if (!is_station_address(*address) && !(loopback && address->is_loopback())) {
    return fail(ErrorCode::invalid_argument,
                "{}: not an address by which others can reach one interface", text);
  }
  return InterfaceAddress{*address, static_cast<std::uint8_t>(prefix)};
}

}  // namespace rockhopper::stack
