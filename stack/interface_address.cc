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
  constexpr unsigned kMapped = 96;
  // ::ffff:10.0.0.1/120 is another way to write 10.0.0.1/24, that of GID tables.
  const bool is_mapped = address->is_ipv4() && text.find(':') != std::string_view::npos;
  const unsigned least = is_mapped ? kMapped : 0;
  const unsigned limit = address->is_ipv4() ? 32 + least : 128;
  unsigned prefix = 0;
  const char* last = length.data() + length.size();
  const auto [end, error] = std::from_chars(length.data(), last, prefix);
  if (error != std::errc{} || end != last || prefix < least || prefix > limit) {
    return fail(ErrorCode::invalid_argument, "{}: the prefix length must be {} to {}", text, least,
                limit);
  }
  if (!is_station_address(*address) && !(loopback && address->is_loopback())) {
    return fail(ErrorCode::invalid_argument,
                "{}: not an address by which others can reach one interface", text);
  }
  return InterfaceAddress{*address, static_cast<std::uint8_t>(prefix - least)};
}

}  // namespace rockhopper::stack
