// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <boost/intrusive/list.hpp>

#include "roce/lock/claim.h"
#include "roce/wire/lkaeth.h"
#include "roce/wire/lketh.h"

namespace rockhopper::roce::lock {

class WaitedWord;

/// Words that one request can take together (LK-32).
inline constexpr std::size_t kMaxClaims = 8;

/// A request for one lock or several, from its arrival to its decision, and what it holds then.
/// Whoever embeds one is told of the decision.
class Waiter : public boost::intrusive::list_base_hook<> {
 public:
  /// Called once for each request that waits: `cause` none if it is granted. Called from
  /// LockTable::run() or a timer; may begin the next request at once.
  using Decide = void (*)(void* context, wire::LockCause cause, std::uint64_t now_ns);

  Waiter(Decide decide, void* context) : decide_(decide), context_(context) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  struct Limits {
    std::uint16_t tries = wire::Lketh::kTriesUnlimited;
    bool fifo = true;
  };

  [[nodiscard]] std::span<Claim> claims() { return {claims_.data(), count_}; }
  [[nodiscard]] Claim& first() { return claims_[0]; }
  [[nodiscard]] const Claim& first() const { return claims_[0]; }
  /// Of all that it was granted: the greatest, that of the last word.
  [[nodiscard]] std::uint64_t token() const { return claims_[count_ - 1u].token; }
  [[nodiscard]] bool waits() const { return word_ != nullptr; }
  /// Times that its words have been looked at (LK-9).
  [[nodiscard]] std::uint64_t looks() const;

  /// Forgets the last request.
  void reset(const Limits& limits) {
    count_ = 0;
    looks_ = 0;
    limits_ = limits;
  }
  /// To add() them anew; what is known of the request else stays.
  void forget_claims() { count_ = 0; }
  /// False: it has kMaxClaims, or that word already. Kept in the order of addresses.
  [[nodiscard]] bool add(const Claim& claim);

 private:
  friend class LockTable;

  /// All claims, or none of them. Else the index of one that is not to be had is in `blocked_at_`.
  [[nodiscard]] bool take_all();
  [[nodiscard]] bool may_look_again(std::uint64_t looks) const {
    return limits_.tries == wire::Lketh::kTriesUnlimited || looks < limits_.tries;
  }
  Decide decide_;
  void* context_;
  std::array<Claim, kMaxClaims> claims_{};
  std::uint8_t count_ = 0;
  std::uint8_t blocked_at_ = 0;
  Limits limits_{};
  std::uint64_t order_ = 0;  ///< of its arrival
  std::uint64_t arrived_ns_ = 0;
  std::uint64_t looks_ = 0;      ///< before it came to word_
  WaitedWord* word_ = nullptr;   ///< where it waits
  bool reader_ = false;          ///< for a shared lock there
  std::uint64_t joined_at_ = 0;  ///< looks at word_ before it came there
};

}  // namespace rockhopper::roce::lock
