// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "stack/ip_address.h"

/// How applications of librdmacm find each other: service IDs made of ports, and addresses at the
/// start of the private data of REQ and SIDR_REQ (IBTA vol. 1, annex A11, RDMA IP CM service).
namespace rockhopper::roce::cm {

/// Values as in enum rdma_port_space.
enum class PortSpace : std::uint16_t { ipoib = 0x0002, tcp = 0x0106, udp = 0x0111, ib = 0x013f };

/// Q_Key of the datagram queue pairs that librdmacm makes.
inline constexpr std::uint32_t kUdpQkey = 0x01234567;

[[nodiscard]] constexpr std::uint64_t ip_service_id(PortSpace space, std::uint16_t port) {
  return std::uint64_t{static_cast<std::uint16_t>(space)} << 16 | port;
}
[[nodiscard]] constexpr std::uint16_t port_of(std::uint64_t service_id) {
  return static_cast<std::uint16_t>(service_id);
}

struct IpServiceHeader {
  static constexpr std::size_t kSize = 36;

  std::uint16_t source_port = 0;
  stack::IpAddress source;  ///< both of one family
  stack::IpAddress destination;

  /// Returns nothing if it is not such a header of version 0.
  [[nodiscard]] static std::optional<IpServiceHeader> parse(std::span<const std::uint8_t> data);
  void emit(std::span<std::uint8_t, kSize> data) const;
};

}  // namespace rockhopper::roce::cm
