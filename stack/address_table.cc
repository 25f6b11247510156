// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/address_table.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint8_t kIpv4Bits = 32;
constexpr std::uint8_t kIpv6Bits = 128;

}  // namespace

bool same_prefix(const IpAddress& a, const IpAddress& b, std::uint8_t length) {
  const std::size_t whole = length / 8;
  if (!std::equal(a.bytes.begin(), a.bytes.begin() + static_cast<std::ptrdiff_t>(whole),
                  b.bytes.begin())) {
    return false;
  }
  const unsigned rest = length % 8;
  return rest == 0 || (a.bytes[whole] ^ b.bytes[whole]) >> (8 - rest) == 0;
}

Expected<void> AddressTable::add(const IpAddress& address, std::uint8_t prefix_length) {
  const std::uint8_t bits = address.is_ipv4() ? kIpv4Bits : kIpv6Bits;
  if (!is_of_station(address)) {
    return fail(ErrorCode::invalid_argument, "{} is not the address of one station",
                address.to_string());
  }
  if (prefix_length > bits) {
    return fail(ErrorCode::invalid_argument, "prefix length {} of {} is above {}", prefix_length,
                address.to_string(), bits);
  }
  if (find(address) != nullptr) {
    return fail(ErrorCode::invalid_argument, "{} is already there", address.to_string());
  }
  if (entries_.size() >= kLimit) {
    return fail(ErrorCode::exhausted, "no more than {} addresses", kLimit);
  }
  const auto mapped = static_cast<std::uint8_t>(prefix_length + (kIpv6Bits - bits));
  std::uint16_t index = 0;
  while (at(index) != nullptr) {
    ++index;
  }
  entries_.push_back({address, mapped, index});
  return {};
}

Expected<void> AddressTable::remove(const IpAddress& address) {
  const auto removed =
      std::erase_if(entries_, [&](const Entry& entry) { return entry.address == address; });
  if (removed == 0) return fail(ErrorCode::not_found, "{} is not there", address.to_string());
  return {};
}

Expected<void> AddressTable::set_gateway(const IpAddress& gateway) {
  if (!is_station_address(gateway) || owns(gateway) || !source_for(gateway)) {
    return fail(ErrorCode::invalid_argument, "{} is no neighbour on this link",
                gateway.to_string());
  }
  (gateway.is_ipv4() ? ipv4_gateway_ : ipv6_gateway_) =
      Gateway{.address = gateway, .is_outside = !in_prefix(gateway)};
  return {};
}

AddressTable::Entry* AddressTable::find(const IpAddress& address) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.address == address; });
  return found == entries_.end() ? nullptr : &*found;
}

const AddressTable::Entry* AddressTable::find(const IpAddress& address) const {
  return const_cast<AddressTable*>(this)->find(address);
}

const AddressTable::Entry* AddressTable::at(std::uint16_t index) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.index == index; });
  return found == entries_.end() ? nullptr : &*found;
}

bool AddressTable::in_solicited_node_group(const IpAddress& group) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return !entry.address.is_ipv4() && solicited_node_group(entry.address) == group;
  });
}

bool AddressTable::on_link(const IpAddress& address) const {
  const auto& gateway = gateway_of(address.is_ipv4());
  return in_prefix(address) || (gateway && gateway->is_outside && gateway->address == address);
}

bool AddressTable::in_prefix(const IpAddress& address) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.usable() && entry.address.is_ipv4() == address.is_ipv4() &&
           same_prefix(entry.address, address, entry.prefix_length);
  });
}

std::optional<IpAddress> AddressTable::next_hop(const IpAddress& destination) const {
  if (on_link(destination)) return destination;
  const auto& gateway = gateway_of(destination.is_ipv4());
  // The address that it was on the link of may have gone.
  if (!gateway || !on_link(gateway->address)) return std::nullopt;
  return gateway->address;
}

std::optional<IpAddress> AddressTable::source_for(const IpAddress& neighbour) const {
  const Entry* best = nullptr;
  int best_length = -1;
  for (const Entry& entry : entries_) {
    if (!entry.usable() || entry.address.is_ipv4() != neighbour.is_ipv4()) continue;
    const bool around = same_prefix(entry.address, neighbour, entry.prefix_length);
    const int length = around ? entry.prefix_length : 0;
    if (length <= best_length) continue;
    best = &entry;
    best_length = length;
  }
  if (best == nullptr) return std::nullopt;
  return best->address;
}

bool AddressTable::has_ipv6() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return !entry.address.is_ipv4(); });
}

IpAddress solicited_node_group(const IpAddress& address) {
  const auto& b = address.bytes;
  return {{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, b[13], b[14], b[15]}};
}

}  // namespace rockhopper::stack
