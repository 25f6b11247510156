// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/recovery/held_packets.h"

#include <algorithm>
#include <span>

namespace rockhopper::roce {

HeldPackets::Result HeldPackets::hold(const RxPacket& packet, std::uint32_t distance) {
  if (distance == 0 || distance > kWindow) return Result::no_room;
  const wire::Psn psn = packet.headers.bth.psn;
  Slot& slot = slots_[psn.value % kWindow];
  if (slot.packet != nullptr) return slot.psn == psn ? Result::duplicate : Result::no_room;
  const std::uint32_t left = budget_.limit - budget_.used;
  if (mbufs_ >= left || packet.payload.packet->nb_segs > left) return Result::no_room;
  // The receiver of the packet lets go of it; this is one more reference to it.
  auto* held = const_cast<rte_mbuf*>(packet.payload.packet);
  rte_pktmbuf_refcnt_update(held, 1);
  const wire::Headers& headers = packet.headers;
  slot = {.packet = held,
          .psn = psn,
          .offset = packet.payload.offset - headers.payload_offset,
          .l3_offset = packet.l3_offset,
          .length = std::uint32_t{headers.payload_offset} + headers.payload_length +
                    headers.bth.pad_count + static_cast<std::uint32_t>(wire::Icrc::kSize),
          .mbufs = held->nb_segs};
  ++count_;
  mbufs_ += slot.mbufs;
  budget_.used += slot.mbufs;
  return Result::held;
}

/// The packet was right when it came, and is not changed while it is held.
bool HeldPackets::parse(const Slot& slot, std::array<std::uint8_t, wire::kHeadersMax>& to,
                        wire::Headers& headers) {
  const auto length = std::min(slot.length, static_cast<std::uint32_t>(to.size()));
  const auto* head = static_cast<const std::uint8_t*>(
      rte_pktmbuf_read(slot.packet, slot.offset, length, to.data()));
  return head != nullptr &&
         wire::parse_headers({head, length}, slot.length, headers) == wire::ParseResult::ok;
}

void HeldPackets::forget(Slot& slot) {
  slot.packet = nullptr;
  --count_;
  mbufs_ -= slot.mbufs;
  budget_.used -= slot.mbufs;
}

wire::Saeth HeldPackets::behind(wire::Psn missing) const {
  wire::Saeth saeth{};
  std::uint32_t left = count_;
  for (std::uint32_t distance = 1; left != 0 && distance <= kWindow; ++distance) {
    const Slot& slot = slots_[(missing + distance).value % kWindow];
    if (slot.packet != nullptr && slot.psn == missing + distance) {
      saeth.set(distance - 1);
      --left;
    }
  }
  return saeth;
}

void HeldPackets::discard_before(wire::Psn psn) {
  if (count_ == 0) return;
  for (Slot& slot : slots_) {
    if (slot.packet != nullptr && wire::distance(slot.psn, psn) > 0) {
      rte_pktmbuf_free(slot.packet);
      forget(slot);
    }
  }
}

void HeldPackets::clear() {
  for (Slot& slot : slots_) {
    if (slot.packet == nullptr) continue;
    rte_pktmbuf_free(slot.packet);
    forget(slot);
  }
}

}  // namespace rockhopper::roce
