// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/settings.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "stack/address_table.h"

namespace rockhopper::verbs {
namespace {

/// For a host with no address but loopback ones: of the block for benchmarks (RFC 2544), which is
/// nobody else's.
constexpr std::uint32_t kFallbackAddress = 0xc6120001;
constexpr std::uint8_t kFallbackPrefix = 15;
/// The host adds a link-local address of its own.
constexpr std::size_t kAddressesMax = stack::AddressTable::kLimit - 1;

/// The first one is the default.
constexpr std::array kModes = {std::pair{std::string_view("adaptive"), ProgressMode::adaptive},
                               std::pair{std::string_view("thread"), ProgressMode::thread},
                               std::pair{std::string_view("inline"), ProgressMode::inline_only}};

/// Returns the variable's value; empty if it is not set.
std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

template <typename Choice, std::size_t kCount>
Expected<Choice> choose(const char* name,
                        const std::array<std::pair<std::string_view, Choice>, kCount>& choices) {
  const std::string_view value = variable(name);
  if (value.empty()) return choices.front().second;
  std::string names;
  for (const auto& [text, choice] : choices) {
    if (text == value) return choice;
    names += names.empty() ? "" : ", ";
    names += text;
  }
  return fail(ErrorCode::invalid_argument, "{} is one of {}, not \"{}\"", name, names, value);
}

Expected<DeviceAddress> parse_address(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto address = stack::IpAddress::parse(text.substr(0, slash));
  std::uint8_t length = 0;
  if (address && slash != std::string_view::npos) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + slash + 1, end, length);
    const int bits = address->is_ipv4() ? 32 : 128;
    if (error == std::errc{} && rest == end && length <= bits && !address->is_multicast() &&
        !address->is_unspecified() && !address->is_loopback()) {
      return DeviceAddress{*address, length, interface_of(*address)};
    }
  }
  return fail(
      ErrorCode::invalid_argument,
      "\"{}\" is no address of a wire with its prefix length, as 192.0.2.1/24 or fd00::1/64", text);
}

Expected<std::vector<DeviceAddress>> read_addresses() {
  constexpr const char* kName = "ROCKHOPPER_ADDRESSES";
  std::vector<DeviceAddress> addresses;
  if (const std::string_view value = variable(kName); !value.empty()) {
    auto parsed = parse_addresses(value);
    if (!parsed) return fail(parsed.error().code, "{}: {}", kName, parsed.error().message);
    return parsed;
  }
  addresses = kernel_addresses();
  if (addresses.size() > kAddressesMax) addresses.resize(kAddressesMax);
  if (addresses.empty()) {
    addresses.push_back({stack::IpAddress::from_ipv4(kFallbackAddress), kFallbackPrefix, 0});
  }
  return addresses;
}

/// The variable's value, with the process's number for each "%p".
std::string read_path(const char* name) {
  std::string path(variable(name));
  for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at)) {
    path.replace(at, 2, std::to_string(getpid()));
  }
  return path;
}

}  // namespace

Expected<std::vector<DeviceAddress>> parse_addresses(std::string_view text) {
  std::vector<DeviceAddress> addresses;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    ROCKHOPPER_TRY(auto address, parse_address(text.substr(begin, end - begin)));
    addresses.push_back(address);
    begin = end + 1;
  }
  if (addresses.size() > kAddressesMax) {
    return fail(ErrorCode::invalid_argument, "a device has up to {} addresses, not {}",
                kAddressesMax, addresses.size());
  }
  return addresses;
}

Expected<Settings> Settings::read() {
  Settings settings;
  ROCKHOPPER_TRY(settings.addresses, read_addresses());
  ROCKHOPPER_TRY(settings.progress, choose("ROCKHOPPER_PROGRESS", kModes));
  settings.pcap = read_path("ROCKHOPPER_PCAP");
  if (const std::string_view faults = variable("ROCKHOPPER_FAULTS"); !faults.empty()) {
    auto parsed = stack::parse_faults(faults);
    if (!parsed) return fail(parsed.error().code, "ROCKHOPPER_FAULTS: {}", parsed.error().message);
    settings.faults = std::move(*parsed);
  }
  return settings;
}

}  // namespace rockhopper::verbs
