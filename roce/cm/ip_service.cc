// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/cm/ip_service.h"

#include <algorithm>

#include "roce/wire/bytes.h"

namespace rockhopper::roce::cm {
namespace {

constexpr std::size_t kSourceOffset = 4;
constexpr std::size_t kDestinationOffset = 20;
constexpr std::size_t kAddressBytes = 16;
/// An IPv4 address stands in the last bytes of its field.
constexpr std::size_t kIpv4Offset = 12;

stack::IpAddress load(std::span<const std::uint8_t> field, bool ipv4) {
  if (ipv4) return stack::IpAddress::from_ipv4(wire::load_be32(&field[kIpv4Offset]));
  return stack::IpAddress::from_bytes(field.data());
}

void store(std::span<std::uint8_t> field, const stack::IpAddress& address) {
  const std::size_t zeros = address.is_ipv4() ? kIpv4Offset : 0;
  std::fill_n(field.begin(), zeros, std::uint8_t{0});
  std::copy(address.bytes.begin() + static_cast<std::ptrdiff_t>(zeros), address.bytes.end(),
            field.begin() + static_cast<std::ptrdiff_t>(zeros));
}

}  // namespace

std::optional<IpServiceHeader> IpServiceHeader::parse(std::span<const std::uint8_t> data) {
  if (data.size() < kSize || data[0] != 0) return std::nullopt;
  const unsigned version = data[1] >> 4;
  if (version != 4 && version != 6) return std::nullopt;
  return IpServiceHeader{
      .source_port = wire::load_be16(&data[2]),
      .source = load(data.subspan(kSourceOffset, kAddressBytes), version == 4),
      .destination = load(data.subspan(kDestinationOffset, kAddressBytes), version == 4)};
}

void IpServiceHeader::emit(std::span<std::uint8_t, kSize> data) const {
  data[0] = 0;
  data[1] = source.is_ipv4() ? 0x40 : 0x60;
  wire::store_be16(&data[2], source_port);
  store(data.subspan(kSourceOffset, kAddressBytes), source);
  store(data.subspan(kDestinationOffset, kAddressBytes), destination);
}

}  // namespace rockhopper::roce::cm
