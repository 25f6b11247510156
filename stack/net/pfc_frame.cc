// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/net/pfc_frame.h"

#include <cstring>

#include "stack/byte_order.h"

namespace rockhopper::stack::net {
namespace {

constexpr rte_ether_addr kMacControlGroup{{0x01, 0x80, 0xC2, 0x00, 0x00, 0x01}};
constexpr std::uint16_t kMacControl = 0x8808;
constexpr std::uint16_t kPfcOpcode = 0x0101;
constexpr std::uint16_t kFrameBytes = 60;  // the least, without its check sequence

// Offsets in the frame.
constexpr std::uint32_t kType = 12;
constexpr std::uint32_t kOpcode = 14;
constexpr std::uint32_t kEnable = 16;
constexpr std::uint32_t kTimes = 18;
constexpr std::uint32_t kUsed = kTimes + 2 * kPriorities;

void store_be16(std::uint8_t* bytes, std::uint16_t value) {
  bytes[0] = static_cast<std::uint8_t>(value >> 8);
  bytes[1] = static_cast<std::uint8_t>(value);
}

}  // namespace

std::optional<PfcFrame> parse_group_pfc(const rte_mbuf* packet) {
  const auto* bytes = rte_pktmbuf_mtod(packet, const std::uint8_t*);
  if (packet->data_len < kUsed || std::memcmp(bytes, &kMacControlGroup, sizeof kMacControlGroup) ||
      load_be16(bytes + kType) != kMacControl || load_be16(bytes + kOpcode) != kPfcOpcode) {
    return std::nullopt;
  }
  PfcFrame frame;
  frame.priorities = bytes[kEnable + 1];
  for (unsigned i = 0; i < kPriorities; ++i) {
    frame.quanta[i] = load_be16(bytes + kTimes + 2 * i);
  }
  return frame;
}

rte_mbuf* make_pfc(const PfcFrame& frame, const rte_ether_addr& source, rte_mempool* pool) {
  rte_mbuf* packet = rte_pktmbuf_alloc(pool);
  if (packet == nullptr) return nullptr;
  auto* bytes = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(packet, kFrameBytes));
  if (bytes == nullptr) {
    rte_pktmbuf_free(packet);
    return nullptr;
  }
  std::memset(bytes, 0, kFrameBytes);
  std::memcpy(bytes, &kMacControlGroup, sizeof kMacControlGroup);
  std::memcpy(bytes + sizeof kMacControlGroup, &source, sizeof source);
  store_be16(bytes + kType, kMacControl);
  store_be16(bytes + kOpcode, kPfcOpcode);
  store_be16(bytes + kEnable, frame.priorities);
  for (unsigned i = 0; i < kPriorities; ++i) {
    store_be16(bytes + kTimes + 2 * i, frame.quanta[i]);
  }
  return packet;
}

}  // namespace rockhopper::stack::net
