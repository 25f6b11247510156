// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/tracer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <rte_arp.h>
#include <rte_byteorder.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "stack/roce_locator.h"
#include "stack/time_units.h"

namespace rockhopper::stack {
namespace {

// All headers that a reader looks at, with IPv4 options.
constexpr std::uint32_t kLookMax = 14 + 4 + 60 + 8;

/// The first bytes of a packet, taken off from the front, never beyond their end.
class Reader {
 public:
  explicit Reader(const rte_mbuf* packet) : size_(std::min(packet->pkt_len, kLookMax)) {
    const void* data = rte_pktmbuf_read(packet, 0, size_, bytes_.data());
    if (data == nullptr) size_ = 0;
    if (data != nullptr && data != bytes_.data()) std::memcpy(bytes_.data(), data, size_);
  }
  template <typename Header>
  [[nodiscard]] bool take(Header& header) {
    if (size_ - at_ < sizeof(Header)) return false;
    std::memcpy(&header, bytes_.data() + at_, sizeof(Header));
    at_ += static_cast<std::uint32_t>(sizeof(Header));
    return true;
  }
  [[nodiscard]] bool skip(std::uint32_t bytes) {
    if (size_ - at_ < bytes) return false;
    at_ += bytes;
    return true;
  }

 private:
  std::array<std::uint8_t, kLookMax> bytes_{};
  std::uint32_t size_;
  std::uint32_t at_ = 0;
};

std::string mac_text(const rte_ether_addr& mac) {
  const std::uint8_t* b = mac.addr_bytes;
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", b[0], b[1], b[2], b[3], b[4],
                     b[5]);
}

std::string ip_text(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, address, text.data(), text.size());
  return text.data();
}

std::string udp_text(Reader& reader, const std::string& source, const std::string& destination) {
  rte_udp_hdr udp;
  if (!reader.take(udp)) return fmt::format("{} > {} UDP, cut short", source, destination);
  return fmt::format("{}.{} > {}.{} UDP {}", source, rte_be_to_cpu_16(udp.src_port), destination,
                     rte_be_to_cpu_16(udp.dst_port), rte_be_to_cpu_16(udp.dgram_len));
}

std::string ip_payload_text(Reader& reader, std::uint8_t protocol, const std::string& source,
                            const std::string& destination) {
  if (protocol == IPPROTO_UDP) return udp_text(reader, source, destination);
  return fmt::format("{} > {} IP protocol {}", source, destination, protocol);
}

std::string arp_text(Reader& reader) {
  rte_arp_hdr arp;
  if (!reader.take(arp)) return "ARP, cut short";
  const char* operation =
      arp.arp_opcode == rte_cpu_to_be_16(RTE_ARP_OP_REQUEST) ? "request" : "reply";
  return fmt::format("ARP {} {} > {}", operation, ip_text(AF_INET, &arp.arp_data.arp_sip),
                     ip_text(AF_INET, &arp.arp_data.arp_tip));
}

std::string ipv4_text(Reader& reader) {
  rte_ipv4_hdr ip;
  if (!reader.take(ip)) return "IPv4, cut short";
  const std::string source = ip_text(AF_INET, &ip.src_addr);
  const std::string destination = ip_text(AF_INET, &ip.dst_addr);
  const std::uint32_t length = rte_ipv4_hdr_len(&ip);
  if (length < sizeof(ip) || !reader.skip(length - static_cast<std::uint32_t>(sizeof(ip)))) {
    return fmt::format("{} > {} IPv4, bad header length", source, destination);
  }
  const auto fragment = rte_be_to_cpu_16(ip.fragment_offset);
  if ((fragment & (RTE_IPV4_HDR_OFFSET_MASK | RTE_IPV4_HDR_MF_FLAG)) != 0) {
    return fmt::format("{} > {} IPv4 fragment", source, destination);
  }
  return ip_payload_text(reader, ip.next_proto_id, source, destination);
}

std::string ipv6_text(Reader& reader) {
  rte_ipv6_hdr ip;
  if (!reader.take(ip)) return "IPv6, cut short";
  return ip_payload_text(reader, ip.proto, ip_text(AF_INET6, &ip.src_addr),
                         ip_text(AF_INET6, &ip.dst_addr));
}

/// Returns what a summary says up to the BTH.
std::string lower_layers_text(const rte_mbuf* packet) {
  Reader reader(packet);
  rte_ether_hdr ether;
  if (!reader.take(ether)) return "Ethernet, cut short";
  std::string text = fmt::format("{} > {} ", mac_text(ether.src_addr), mac_text(ether.dst_addr));
  std::uint16_t type = rte_be_to_cpu_16(ether.ether_type);
  if (rte_vlan_hdr vlan; type == RTE_ETHER_TYPE_VLAN && reader.take(vlan)) {
    text += fmt::format("vlan {} ", rte_be_to_cpu_16(vlan.vlan_tci) & 0xfff);
    type = rte_be_to_cpu_16(vlan.eth_proto);
  }
  switch (type) {
    case RTE_ETHER_TYPE_ARP:
      return text + arp_text(reader);
    case RTE_ETHER_TYPE_IPV4:
      return text + ipv4_text(reader);
    case RTE_ETHER_TYPE_IPV6:
      return text + ipv6_text(reader);
    default:
      return text + fmt::format("type {:#06x}", type);
  }
}

}  // namespace

std::string summarize(const rte_mbuf* packet) {
  std::string text = lower_layers_text(packet);
  if (const auto bth = read_bth(packet)) {
    text += fmt::format(" RoCE opcode {:#04x} qpn {:#08x} psn {}", bth->opcode,
                        bth->destination_qpn, bth->psn);
  }
  return text;
}

void Tracer::trace(const char* direction, std::uint32_t length, const std::string& text,
                   std::uint64_t now_ns) {
  fmt::print(out_, "{}.{:09} {} {} {}\n", now_ns / kNsPerSecond, now_ns % kNsPerSecond, direction,
             length, text);
}

std::uint16_t Tracer::rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  const std::uint16_t received = inner_.rx_burst(packets, count, now_ns);
  for (std::uint16_t i = 0; i < received; ++i) {
    trace("rx", packets[i]->pkt_len, summarize(packets[i]), now_ns);
  }
  return received;
}

std::uint16_t Tracer::tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  // Read before they are sent, as afterwards they belong to the link.
  std::vector<std::pair<std::uint32_t, std::string>> lines;
  lines.reserve(count);
  for (std::uint16_t i = 0; i < count; ++i) {
    lines.emplace_back(packets[i]->pkt_len, summarize(packets[i]));
  }
  const std::uint16_t sent = inner_.tx_burst(packets, count, now_ns);
  for (std::uint16_t i = 0; i < sent; ++i) {
    trace("tx", lines[i].first, lines[i].second, now_ns);
  }
  return sent;
}

}  // namespace rockhopper::stack
