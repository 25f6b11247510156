// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rockhopper::stack {

/// What a socket does not tell of an IPv4 packet, and sets by itself where it cuts a large datagram
/// into several: the identification, which the ICRC covers. How that depends on it is RoCE's
/// knowledge (roce/udp_identification.h). All of them are pure functions.
struct IdentificationRules {
  /// What all packets of so many bytes, from the IP header through the ICRC, have in common.
  std::uint32_t (*factor)(std::size_t length);
  /// The exclusive or of the ICRCs, as numbers whose first byte is the lowest, of two such packets
  /// that differ in this: the identification of one is 0.
  std::uint32_t (*change)(std::uint32_t factor, std::uint16_t identification);
  /// The identification with which the ICRC of `packet` is right, whose bytes have 0 there; 0 if
  /// there is none. That it is `likely` is found out soonest; `factor` is not used if that is 0.
  std::uint16_t (*find)(std::span<const std::uint8_t> packet, std::uint32_t factor,
                        std::uint16_t likely);
};

/// Applies the rules, and keeps the factor of the last length. One thread.
class Identification {
 public:
  /// `rules` may be null: then the identification is always 0.
  explicit Identification(const IdentificationRules* rules) : rules_(rules) {}

  [[nodiscard]] bool has_rules() const { return rules_ != nullptr; }
  /// With rules.
  [[nodiscard]] std::uint32_t change(std::size_t length, std::uint16_t identification) {
    return rules_->change(factor_of(length), identification);
  }
  [[nodiscard]] std::uint16_t find(std::span<const std::uint8_t> packet, std::uint16_t likely) {
    if (rules_ == nullptr) return 0;
    // The factor serves to try what is likely; 0, which most have, is tried without it.
    return rules_->find(packet, likely == 0 ? 0 : factor_of(packet.size()), likely);
  }

 private:
  [[nodiscard]] std::uint32_t factor_of(std::size_t length) {
    if (length != length_) {
      length_ = length;
      factor_ = rules_->factor(length);
    }
    return factor_;
  }

  const IdentificationRules* rules_;
  std::size_t length_ = 0;
  std::uint32_t factor_ = 0;
};

}  // namespace rockhopper::stack
