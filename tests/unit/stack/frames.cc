// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/unit/stack/frames.h"

#include <stdexcept>

#include <arpa/inet.h>

namespace rockhopper::test::frames {
namespace {

Bytes u8(std::uint8_t value) { return {value}; }
Bytes u16(std::size_t value) {
  return {static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)};
}
Bytes u32(std::size_t value) { return join({u16(value >> 16 & 0xffff), u16(value & 0xffff)}); }
Bytes of(const Mac& mac) { return {mac.begin(), mac.end()}; }

Bytes pseudo_header(const std::string& source, const std::string& destination,
                    std::uint8_t protocol, std::size_t length) {
  return join({ip(source), ip(destination), u32(length), u32(protocol)});
}

}  // namespace

Bytes join(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Bytes ip(const std::string& text) {
  Bytes bytes(text.find(':') == std::string::npos ? 4 : 16);
  if (inet_pton(bytes.size() == 4 ? AF_INET : AF_INET6, text.c_str(), bytes.data()) != 1) {
    throw std::invalid_argument(text);
  }
  return bytes;
}

Bytes checksum(const Bytes& bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += static_cast<std::uint64_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  }
  while (sum > 0xffff) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return u16(~sum & 0xffff);
}

Bytes ethernet(const Mac& destination, const Mac& source, std::uint16_t type,
               const Bytes& payload) {
  return join({of(destination), of(source), u16(type), payload});
}

Bytes ethernet_tagged(const Mac& destination, const Mac& source, std::uint16_t tci,
                      std::uint16_t type, const Bytes& payload) {
  return join({of(destination), of(source), u16(0x8100), u16(tci), u16(type), payload});
}

Bytes ip_packet(const std::string& source, const std::string& destination, std::uint8_t protocol,
                const Bytes& payload, const IpOptions& options) {
  const Bytes from = ip(source);
  const Bytes to = ip(destination);
  if (from.size() == 16) {
    return join(
        {u32(std::size_t{6} << 28 | std::size_t{options.traffic_class} << 20 | options.flow_label),
         u16(payload.size()), u8(protocol), u8(options.hop_limit), from, to, payload});
  }
  const Bytes before = join({u8(0x45), u8(options.traffic_class), u16(20 + payload.size()), u16(0),
                             u16(options.fragment), u8(options.hop_limit), u8(protocol)});
  return join({before, checksum(join({before, u16(0), from, to})), from, to, payload});
}

Bytes udp(std::uint16_t source_port, std::uint16_t destination_port, const Bytes& payload,
          std::uint16_t checksum_value) {
  return join({u16(source_port), u16(destination_port), u16(8 + payload.size()),
               u16(checksum_value), payload});
}

Bytes udp_checked(const std::string& source, const std::string& destination,
                  std::uint16_t source_port, std::uint16_t destination_port, const Bytes& payload) {
  const Bytes sum = checksum(join({pseudo_header(source, destination, 17, 8 + payload.size()),
                                   udp(source_port, destination_port, payload)}));
  const auto value = static_cast<std::uint16_t>(sum[0] << 8 | sum[1]);
  // RFC 768: a sum of zero is sent as all ones.
  return udp(source_port, destination_port, payload, value == 0 ? 0xffff : value);
}

Bytes icmp(std::uint8_t type, std::uint8_t code, const Bytes& rest) {
  return join({u8(type), u8(code), checksum(join({u8(type), u8(code), u16(0), rest})), rest});
}

Bytes icmpv6(const std::string& source, const std::string& destination, std::uint8_t type,
             std::uint8_t code, const Bytes& rest) {
  const Bytes pseudo = pseudo_header(source, destination, 58, 4 + rest.size());
  return join(
      {u8(type), u8(code), checksum(join({pseudo, u8(type), u8(code), u16(0), rest})), rest});
}

Bytes arp(std::uint16_t operation, const Mac& sender, const std::string& sender_ip,
          const Mac& target, const std::string& target_ip) {
  return join({u16(1), u16(0x0800), u8(6), u8(4), u16(operation), of(sender), ip(sender_ip),
               of(target), ip(target_ip)});
}

Bytes neighbour(std::uint8_t flags, const std::string& target, const Bytes& options) {
  return join({u8(flags), u8(0), u16(0), ip(target), options});
}

Bytes link_option(std::uint8_t type, const Mac& mac) { return join({u8(type), u8(1), of(mac)}); }

}  // namespace rockhopper::test::frames
