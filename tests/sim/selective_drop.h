// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "stack/link.h"
#include "tests/sim/rng.h"

namespace rockhopper::sim {

/// Loses some of the sent RoCEv2 packets: of those whose opcode is in a set ("only
/// acknowledgements", "only the last packet of messages") a percentage, so that the protocol meets
/// one kind of loss far more often than a uniform loss would show it; and single ones by their
/// number.
class SelectiveDrop final : public stack::Link {
 public:
  /// `inner` is not owned.
  SelectiveDrop(stack::Link& inner, std::uint64_t seed, std::set<std::uint8_t> opcodes,
                unsigned percent, std::set<std::uint64_t> numbers, unsigned marked_percent)
      : inner_(inner),
        rng_(seed),
        opcodes_(std::move(opcodes)),
        percent_(percent),
        numbers_(std::move(numbers)),
        marked_percent_(marked_percent) {}

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override {
    return inner_.rx_burst(packets, count, now_ns);
  }
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override {
    return inner_.next_deadline_ns();
  }
  [[nodiscard]] rte_ether_addr mac() const override { return inner_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return inner_.mtu(); }

  /// From the nth packet on, counted as offered(), nothing that is sent arrives.
  void cut_from(std::uint64_t number) { cut_from_ = number; }
  /// While true, nothing that is sent arrives.
  void cut(bool cut) { cut_ = cut; }
  /// RoCEv2 packets that were to be sent.
  [[nodiscard]] std::uint64_t offered() const { return offered_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  /// Returns what sums up the headers down to the BTH of all frames that were to be sent, in order.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }

 private:
  stack::Link& inner_;
  Rng rng_;
  std::set<std::uint8_t> opcodes_;
  unsigned percent_;
  std::set<std::uint64_t> numbers_;
  unsigned marked_percent_;
  std::uint64_t offered_ = 0;
  std::uint64_t cut_from_ = UINT64_MAX;
  bool cut_ = false;
  std::uint64_t dropped_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace rockhopper::sim
