// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/personality/roce_frame.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "stack/checksum.h"
#include "stack/ethernet.h"
#include "stack/ip_header.h"
#include "stack/roce_locator.h"

namespace rockhopper {

std::optional<RoceFrame> RoceFrame::of(rte_mbuf* packet) {
  if (packet->nb_segs != 1) return std::nullopt;
  const std::span<const std::uint8_t> bytes(rte_pktmbuf_mtod(packet, const std::uint8_t*),
                                            packet->data_len);
  stack::EthernetHeader ethernet;
  if (!stack::parse_ethernet(bytes, packet, ethernet)) return std::nullopt;
  const auto ip_bytes = bytes.subspan(ethernet.length);
  const bool ipv4 = ethernet.ether_type == RTE_ETHER_TYPE_IPV4;
  if (!ipv4 && ethernet.ether_type != RTE_ETHER_TYPE_IPV6) return std::nullopt;
  stack::IpHeader ip;
  const auto length = static_cast<std::uint32_t>(ip_bytes.size());
  // The link below may compute the checksum.
  const auto found = ipv4 ? stack::parse_ipv4(ip_bytes, length, true, ip)
                          : stack::parse_ipv6(ip_bytes, length, ip);
  if (found != stack::HostDrop::none || ip.protocol != IPPROTO_UDP ||
      ip.payload_length < sizeof(rte_udp_hdr) + wire::Bth::kSize + wire::Icrc::kSize) {
    return std::nullopt;
  }
  RoceFrame frame(packet, ethernet.length, ip);
  rte_udp_hdr udp;
  std::memcpy(&udp, bytes.data() + frame.udp_, sizeof udp);
  if (udp.dst_port != rte_cpu_to_be_16(stack::kRoceUdpPort)) return std::nullopt;
  const std::size_t transport = ip.payload_length - sizeof udp;
  const auto first = bytes.subspan(frame.udp_ + sizeof udp, transport);
  // What is behind the IP packet is padding of Ethernet.
  const std::size_t whole = frame.udp_ + sizeof udp + transport;
  if (packet->data_len > whole) {
    (void)rte_pktmbuf_trim(packet, static_cast<std::uint16_t>(packet->data_len - whole));
  }
  if (wire::parse_headers(first, transport, frame.headers_) != wire::ParseResult::ok) {
    return std::nullopt;
  }
  return frame;
}

std::uint8_t* RoceFrame::bytes() const { return rte_pktmbuf_mtod(packet_, std::uint8_t*); }

void RoceFrame::set_source_mac_zero() { std::fill_n(bytes() + RTE_ETHER_ADDR_LEN, 6, 0); }

void RoceFrame::set_traffic_class(std::uint8_t value) {
  std::uint8_t* ip = bytes() + l3_;
  if (is_ipv4()) {
    ip[1] = value;
  } else {
    ip[0] = static_cast<std::uint8_t>((ip[0] & 0xf0) | value >> 4);
    ip[1] = static_cast<std::uint8_t>(value << 4 | (ip[1] & 0x0f));
  }
}

void RoceFrame::set_ttl(std::uint8_t value) { bytes()[l3_ + (is_ipv4() ? 8 : 7)] = value; }

void RoceFrame::set_identification(std::uint16_t value) {
  if (is_ipv4()) wire::store_be16(bytes() + l3_ + 4, value);
}

void RoceFrame::set_source_port(std::uint16_t value) { wire::store_be16(bytes() + udp_, value); }

void RoceFrame::set_bth(const wire::Bth& bth_value) {
  headers_.bth = bth_value;
  headers_.bth.emit(std::span<std::uint8_t, wire::Bth::kSize>(bth(), wire::Bth::kSize));
}

void RoceFrame::set_reth(const wire::Reth& reth) {
  headers_.reth = reth;
  emit_headers();
}

void RoceFrame::set_syndrome(std::uint8_t syndrome) {
  headers_.aeth.syndrome = syndrome;
  emit_headers();
}

void RoceFrame::emit_headers() {
  std::array<std::uint8_t, wire::kHeadersMax> all{};
  const std::size_t length = wire::emit_headers(headers_, all);
  std::memcpy(bth(), all.data(), length);
}

bool RoceFrame::set_headers(const wire::Bth& bth_value, const std::optional<wire::Aeth>& aeth) {
  const std::size_t before = headers_.payload_offset;
  const std::size_t payload = headers_.payload_length + std::size_t{headers_.bth.pad_count};
  const std::size_t after = wire::Bth::kSize + (aeth ? wire::Aeth::kSize : 0);
  if (after > before && !resize(after + payload + wire::Icrc::kSize)) return false;
  std::memmove(bth() + after, bth() + before, payload);
  if (after <= before && !resize(after + payload + wire::Icrc::kSize)) return false;
  set_bth(bth_value);
  if (aeth) {
    aeth->emit(
        std::span<std::uint8_t, wire::Aeth::kSize>(bth() + wire::Bth::kSize, wire::Aeth::kSize));
  }
  return true;
}

bool RoceFrame::set_rest(std::span<const std::uint8_t> rest) {
  if (!resize(wire::Bth::kSize + rest.size() + wire::Icrc::kSize)) return false;
  std::copy(rest.begin(), rest.end(), bth() + wire::Bth::kSize);
  return true;
}

bool RoceFrame::resize(std::size_t length) {
  const std::size_t whole = udp_ + sizeof(rte_udp_hdr) + length;
  if (whole > packet_->data_len) {
    return rte_pktmbuf_append(packet_, static_cast<std::uint16_t>(whole - packet_->data_len)) !=
           nullptr;
  }
  return rte_pktmbuf_trim(packet_, static_cast<std::uint16_t>(packet_->data_len - whole)) == 0;
}

std::uint32_t RoceFrame::icrc() const {
  const std::size_t l3_length = udp_ + sizeof(rte_udp_hdr) + wire::Bth::kSize - l3_;
  const std::size_t rest = packet_->data_len - l3_ - l3_length - wire::Icrc::kSize;
  return wire::icrc_over({bytes() + l3_, l3_length},
                         std::span<const std::uint8_t>(bth() + wire::Bth::kSize, rest));
}

bool RoceFrame::has_right_icrc() const {
  return icrc() == wire::load_icrc(std::span<const std::uint8_t, wire::Icrc::kSize>(
                       bytes() + packet_->data_len - wire::Icrc::kSize, wire::Icrc::kSize));
}

void RoceFrame::seal(bool udp_checksum) {
  std::uint8_t* ip = bytes() + l3_;
  const auto udp_length = static_cast<std::uint16_t>(packet_->data_len - udp_);
  wire::store_be16(bytes() + udp_ + 4, udp_length);
  wire::store_be16(bytes() + udp_ + 6, 0);
  if (is_ipv4()) {
    const auto header = static_cast<std::uint16_t>(udp_ - l3_);
    wire::store_be16(ip + 2, static_cast<std::uint16_t>(header + udp_length));
    wire::store_be16(ip + 10, 0);
    const auto sum = static_cast<std::uint16_t>(
        ~stack::raw_checksum(packet_, static_cast<std::uint32_t>(l3_), header));
    std::memcpy(ip + 10, &sum, sizeof sum);
    packet_->ol_flags &= ~RTE_MBUF_F_TX_IP_CKSUM;
  } else {
    wire::store_be16(ip + 4, udp_length);
  }
  wire::store_icrc(icrc(), std::span<std::uint8_t, wire::Icrc::kSize>(
                               bytes() + packet_->data_len - wire::Icrc::kSize, wire::Icrc::kSize));
  if (!udp_checksum) return;
  const std::uint16_t sum = stack::add_checksums(
      stack::raw_checksum(packet_, static_cast<std::uint32_t>(udp_), udp_length),
      stack::pseudo_header_checksum(source_, destination_, IPPROTO_UDP, udp_length));
  const auto checksum = static_cast<std::uint16_t>(~sum);
  const std::uint16_t told = checksum == 0 ? std::uint16_t{0xffff} : checksum;
  std::memcpy(bytes() + udp_ + 6, &told, sizeof told);
}

}  // namespace rockhopper
