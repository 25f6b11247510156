// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/settings.h"

#include <array>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include "stack/address_table.h"
#include "stack/interface_address.h"
#include "stack/split_list.h"

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

constexpr std::array kUplinks = {std::pair{std::string_view("none"), UplinkKind::none},
                                 std::pair{std::string_view("udp"), UplinkKind::udp},
                                 std::pair{std::string_view("switch"), UplinkKind::rh_switch}};

/// Returns the variable's value; empty if it is not set.
std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

template <typename Choice, std::size_t kCount>
Expected<Choice> choose(const char* name, std::string_view value,
                        const std::array<std::pair<std::string_view, Choice>, kCount>& choices) {
  if (value.empty()) return choices.front().second;
  std::string names;
  for (const auto& [text, choice] : choices) {
    if (text == value) return choice;
    names += names.empty() ? "" : ", ";
    names += text;
  }
  return fail(ErrorCode::invalid_argument, "{} is one of {}, not \"{}\"", name, names, value);
}

Expected<std::vector<stack::DeviceAddress>> read_addresses(UplinkKind uplink) {
  constexpr const char* kName = "ROCKHOPPER_ADDRESSES";
  std::vector<stack::DeviceAddress> addresses;
  if (const std::string_view value = variable(kName); !value.empty()) {
    auto parsed = parse_addresses(value, uplink);
    if (!parsed) return fail(parsed.error().code, "{}: {}", kName, parsed.error().message);
    return parsed;
  }
  if (uplink == UplinkKind::rh_switch) {
    return fail(ErrorCode::invalid_argument,
                "the uplink by rh-switch needs {}: those that rh-switch has for the segment",
                kName);
  }
  addresses = stack::kernel_addresses();
  if (addresses.size() > kAddressesMax) addresses.resize(kAddressesMax);
  if (addresses.empty()) {
    addresses.push_back({stack::IpAddress::from_ipv4(kFallbackAddress), kFallbackPrefix, 0});
  }
  return addresses;
}

}  // namespace

std::string capture_path(std::string_view text) {
  std::string path(text);
  for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at)) {
    path.replace(at, 2, std::to_string(getpid()));
  }
  return path;
}

Expected<UplinkKind> parse_uplink(std::string_view text) {
  return choose("ROCKHOPPER_UPLINK", text, kUplinks);
}

Expected<std::vector<stack::DeviceAddress>> parse_addresses(std::string_view text,
                                                            UplinkKind uplink) {
  std::vector<stack::DeviceAddress> addresses;
  ROCKHOPPER_TRY(stack::split_list(text, [&](std::string_view item) -> Expected<void> {
    ROCKHOPPER_TRY(const auto own, stack::InterfaceAddress::parse(item, uplink == UplinkKind::udp));
    for (const stack::DeviceAddress& other : addresses) {
      if (other.address == own.address) {
        return fail(ErrorCode::invalid_argument, "{} is given twice", own.address.to_string());
      }
    }
    addresses.push_back({own.address, own.prefix_length, stack::interface_of(own.address)});
    return {};
  }));
  if (addresses.size() > kAddressesMax) {
    return fail(ErrorCode::invalid_argument, "a device has up to {} addresses, not {}",
                kAddressesMax, addresses.size());
  }
  return addresses;
}

Expected<Settings> Settings::read() {
  Settings settings;
  ROCKHOPPER_TRY(settings.uplink, parse_uplink(variable("ROCKHOPPER_UPLINK")));
  ROCKHOPPER_TRY(settings.addresses, read_addresses(settings.uplink));
  ROCKHOPPER_TRY(settings.progress,
                 choose("ROCKHOPPER_PROGRESS", variable("ROCKHOPPER_PROGRESS"), kModes));
  settings.pcap = capture_path(variable("ROCKHOPPER_PCAP"));
  if (const std::string_view faults = variable("ROCKHOPPER_FAULTS"); !faults.empty()) {
    auto parsed = stack::parse_faults(faults);
    if (!parsed) return fail(parsed.error().code, "ROCKHOPPER_FAULTS: {}", parsed.error().message);
    settings.faults = std::move(*parsed);
  }
  return settings;
}

}  // namespace rockhopper::verbs
