// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>

#include <rte_mbuf.h>

#include "roce/rx_packet.h"
#include "roce/wire/packet.h"
#include "roce/wire/psn.h"
#include "roce/wire/saeth.h"

namespace rockhopper::roce {

/// How many mbufs of received packets an engine may hold, so that ports do not run out of them.
struct HeldPacketBudget {
  std::uint32_t limit = 0;
  std::uint32_t used = 0;
};

/// Received packets that have come before others that precede them: by reference, until it is their
/// turn. All are within kWindow PSNs behind the one that is missing.
class HeldPackets {
 public:
  static constexpr std::uint32_t kWindow = wire::Saeth::kBits;

  enum class Result : std::uint8_t { held, duplicate, no_room };

  /// `budget` outlives it.
  explicit HeldPackets(HeldPacketBudget& budget) : budget_(budget) {}
  HeldPackets(const HeldPackets&) = delete;
  HeldPackets& operator=(const HeldPackets&) = delete;
  ~HeldPackets() { clear(); }

  /// `distance` from the missing PSN to the packet's: no_room unless 1 to kWindow, or when this one
  /// holds as many mbufs as are left of the engine's budget: so there is always something left.
  [[nodiscard]] Result hold(const RxPacket& packet, std::uint32_t distance);
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  /// Those behind `missing`.
  [[nodiscard]] wire::Saeth behind(wire::Psn missing) const;

  /// Gives the packet with `psn` to `visit(const RxPacket&)` and lets go of it. False: there is
  /// none.
  template <typename Visit>
  bool deliver(wire::Psn psn, Visit visit) {
    Slot& slot = slots_[psn.value % kWindow];
    if (slot.packet == nullptr || !(slot.psn == psn)) return false;
    const Slot taken = slot;
    forget(slot);
    std::array<std::uint8_t, wire::kHeadersMax> copy;
    wire::Headers headers;
    if (parse(taken, copy, headers)) {
      visit(RxPacket{headers,
                     {taken.packet, taken.offset + headers.payload_offset, headers.payload_length},
                     taken.l3_offset});
    }
    rte_pktmbuf_free(taken.packet);
    return true;
  }
  /// Lets go of those before `psn`, whose turn is over.
  void discard_before(wire::Psn psn);
  void clear();

 private:
  struct Slot {
    rte_mbuf* packet = nullptr;
    wire::Psn psn;
    std::uint32_t offset = 0;  ///< of the BTH from the start of the packet
    std::uint32_t l3_offset = 0;
    std::uint32_t length = 0;  ///< bytes from the BTH through the ICRC
    std::uint16_t mbufs = 0;
  };

  [[nodiscard]] static bool parse(const Slot& slot, std::array<std::uint8_t, wire::kHeadersMax>& to,
                                  wire::Headers& headers);
  void forget(Slot& slot);

  HeldPacketBudget& budget_;
  std::uint32_t count_ = 0;
  std::uint32_t mbufs_ = 0;
  std::array<Slot, kWindow> slots_{};  ///< by PSN modulo kWindow
};

}  // namespace rockhopper::roce
