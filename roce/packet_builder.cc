// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/packet_builder.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>

#include <rte_udp.h>

#include "stack/ethernet.h"
#include "stack/roce_locator.h"
#include "stack/without_icrc.h"

namespace rockhopper::roce {
namespace {

// Room that every segment keeps, so that padding and ICRC never need one of their own.
constexpr std::uint32_t kTrailerMax = 3 + wire::Icrc::kSize;
// A packet with less is read once more, in one computation with its headers.
constexpr std::uint32_t kOnePassMin = wire::kShortIcrcMax;

}  // namespace

PacketBuilder::PacketBuilder(rte_mempool* pool, const stack::Host& host, const stack::Flow& flow,
                             wire::Headers& headers, std::uint32_t payload_length)
    : pool_(pool),
      packet_(rte_pktmbuf_alloc(pool)),
      last_(packet_),
      l3_offset_(flow.l3_offset),
      l3_length_(static_cast<std::uint8_t>(flow.header_length - flow.l3_offset + wire::Bth::kSize)),
      pad_(wire::pad_count(payload_length)),
      in_one_pass_(!flow.omits_icrc && payload_length >= kOnePassMin) {
  if (packet_ == nullptr) return;
  if (flow.omits_icrc) packet_->ol_flags |= stack::kWithoutIcrc;
  headers.bth.pad_count = pad_;
  const wire::OpcodeInfo& opcode = wire::info(headers);
  const std::uint32_t header_bytes = wire::Bth::kSize + opcode.header_bytes;
  host.encapsulate(flow, packet_, header_bytes + payload_length + pad_ + wire::Icrc::kSize);
  auto* transport = rte_pktmbuf_mtod_offset(packet_, std::uint8_t*, flow.header_length);
  const std::size_t length = wire::emit_headers(headers, opcode, {transport, wire::kHeadersMax});
  assert(length == header_bytes);
  packet_->data_len = static_cast<std::uint16_t>(packet_->data_len + length);
  packet_->pkt_len += static_cast<std::uint32_t>(length);
  if (in_one_pass_) {
    const std::size_t l3 = l3_length_ - wire::Bth::kSize;
    icrc_.add_packet({transport - l3, l3 + length}, l3_length_);
  }
}

PacketBuilder::~PacketBuilder() { rte_pktmbuf_free(packet_); }

bool PacketBuilder::append(const std::byte* data, std::uint32_t length) {
  while (length > 0) {
    const std::uint32_t room = rte_pktmbuf_tailroom(last_) - kTrailerMax;
    if (room == 0) {
      rte_mbuf* segment = rte_pktmbuf_alloc(pool_);
      if (segment == nullptr) {
        rte_pktmbuf_free(packet_);
        packet_ = nullptr;
        return false;
      }
      last_->next = segment;
      last_ = segment;
      ++packet_->nb_segs;
      continue;
    }
    const std::uint32_t piece = std::min(room, length);
    auto* to = rte_pktmbuf_mtod_offset(last_, std::uint8_t*, last_->data_len);
    if (in_one_pass_) {
      icrc_.add_copied({reinterpret_cast<const std::uint8_t*>(data), piece}, to);
    } else {
      std::memcpy(to, data, piece);
    }
    last_->data_len = static_cast<std::uint16_t>(last_->data_len + piece);
    packet_->pkt_len += piece;
    data += piece;
    length -= piece;
  }
  return true;
}

std::uint32_t PacketBuilder::icrc_of_all() const {
  const std::span<const std::uint8_t> head{
      rte_pktmbuf_mtod_offset(packet_, const std::uint8_t*, l3_offset_), l3_length_};
  return packet_icrc(packet_, head, l3_offset_,
                     packet_->pkt_len - static_cast<std::uint32_t>(wire::Icrc::kSize));
}

rte_mbuf* PacketBuilder::finish() {
  assert(packet_ != nullptr);
  auto* trailer = rte_pktmbuf_mtod_offset(last_, std::uint8_t*, last_->data_len);
  std::memset(trailer, 0, sizeof(std::uint32_t));
  const auto trailer_length = static_cast<std::uint32_t>(pad_ + wire::Icrc::kSize);
  last_->data_len = static_cast<std::uint16_t>(last_->data_len + trailer_length);
  packet_->pkt_len += trailer_length;

  std::uint32_t icrc = 0;
  if (in_one_pass_) {
    icrc_.add({trailer, pad_});
    icrc = icrc_.value();
  } else if (!stack::is_without_icrc(packet_)) {
    icrc = icrc_of_all();
  }
  wire::store_icrc(icrc, std::span<std::uint8_t, wire::Icrc::kSize>(trailer + pad_, 4));
  rte_mbuf* packet = packet_;
  packet_ = nullptr;
  return packet;
}

rte_mbuf* build_acknowledge(rte_mempool* pool, const stack::Host& host, const stack::Flow& flow,
                            const wire::Bth& bth, const wire::Aeth& aeth) {
  constexpr std::uint32_t kHeaders = wire::Bth::kSize + wire::Aeth::kSize;
  rte_mbuf* packet = rte_pktmbuf_alloc(pool);
  if (packet == nullptr) return nullptr;
  host.encapsulate(flow, packet, kHeaders + wire::Icrc::kSize);
  auto* transport = rte_pktmbuf_mtod_offset(packet, std::uint8_t*, flow.header_length);
  bth.emit(std::span<std::uint8_t, wire::Bth::kSize>(transport, wire::Bth::kSize));
  aeth.emit(
      std::span<std::uint8_t, wire::Aeth::kSize>(transport + wire::Bth::kSize, wire::Aeth::kSize));
  std::uint32_t icrc = 0;
  if (flow.omits_icrc) {
    packet->ol_flags |= stack::kWithoutIcrc;
  } else {
    const std::uint32_t l3_length = flow.header_length - std::uint32_t{flow.l3_offset};
    wire::Icrc computed;
    computed.add_packet({transport - l3_length, l3_length + kHeaders},
                        l3_length + wire::Bth::kSize);
    icrc = computed.value();
  }
  wire::store_icrc(
      icrc, std::span<std::uint8_t, wire::Icrc::kSize>(transport + kHeaders, wire::Icrc::kSize));
  packet->data_len = static_cast<std::uint16_t>(flow.header_length + kHeaders + wire::Icrc::kSize);
  packet->pkt_len = packet->data_len;
  return packet;
}

std::uint32_t packet_icrc(const rte_mbuf* packet, std::span<const std::uint8_t> head,
                          std::uint32_t l3_offset, std::uint32_t end) {
  wire::Icrc icrc;
  if (packet->nb_segs == 1) {
    icrc.add_packet(
        {rte_pktmbuf_mtod_offset(packet, const std::uint8_t*, l3_offset), end - l3_offset},
        head.size());
    return icrc.value();
  }
  icrc.add_ip_udp_bth(head);
  std::uint32_t skip = l3_offset + static_cast<std::uint32_t>(head.size());
  std::uint32_t left = end - skip;
  for (const rte_mbuf* segment = packet; segment != nullptr && left > 0; segment = segment->next) {
    if (skip >= segment->data_len) {
      skip -= segment->data_len;
      continue;
    }
    const std::uint32_t piece = std::min<std::uint32_t>(left, segment->data_len - skip);
    icrc.add({rte_pktmbuf_mtod_offset(segment, const std::uint8_t*, skip), piece});
    left -= piece;
    skip = 0;
  }
  return icrc.value();
}

void add_icrc(rte_mbuf* packet) {
  packet->ol_flags &= ~stack::kWithoutIcrc;
  const auto bth = stack::find_bth(packet);
  if (!bth || packet->nb_segs != 1) return;
  auto* frame = rte_pktmbuf_mtod(packet, std::uint8_t*);
  stack::EthernetHeader ethernet;
  if (!stack::parse_ethernet({frame, packet->data_len}, packet, ethernet)) return;
  const std::uint32_t l3 = ethernet.length;
  const std::uint32_t udp = *bth - static_cast<std::uint32_t>(sizeof(rte_udp_hdr));
  const std::uint32_t end = udp + wire::load_be16(frame + udp + offsetof(rte_udp_hdr, dgram_len));
  const auto icrc_at = static_cast<std::uint32_t>(end - wire::Icrc::kSize);
  const auto behind_bth = static_cast<std::uint32_t>(*bth + wire::Bth::kSize);
  if (end > packet->data_len || end < behind_bth + wire::Icrc::kSize) return;
  wire::store_icrc(packet_icrc(packet, {frame + l3, behind_bth - l3}, l3, icrc_at),
                   std::span<std::uint8_t, wire::Icrc::kSize>(frame + icrc_at, wire::Icrc::kSize));
}

}  // namespace rockhopper::roce
