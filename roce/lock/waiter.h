// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include <boost/intrusive/list.hpp>

#include "roce/lock/claim.h"
#include "roce/wire/lkaeth.h"
#include "roce/wire/lketh.h"

namespace rockhopper::roce::lock {

struct WaitedWord;

/// Words that one request can take together (LK-32).
inline constexpr std::size_t kMaxClaims = 8;

/// A request for one lock or several, from its arrival to its decision, and what it holds then.
/// What embeds one is told of the decision.
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
  /// The greatest token of all that it was granted, which is that of the last word.
  [[nodiscard]] std::uint64_t token() const { return claims_[count_ - 1u].token; }
  [[nodiscard]] bool waits() const { return line_.word != nullptr; }
  /// Times that its words have been looked at (LK-9).
  [[nodiscard]] std::uint64_t looks() const;

  /// Forgets the last request. Requires that it does not wait.
  void reset(const Limits& limits) {
    assert(!waits());
    count_ = 0;
    line_.looks = 0;
    limits_ = limits;
  }
  /// To add() them anew; what is known of the request else stays.
  void forget_claims() { count_ = 0; }
  /// Adds a claim, in the order of addresses. Returns false if it has kMaxClaims, or that word
  /// already.
  [[nodiscard]] bool add(const Claim& claim);

  // For the lock table.
  /// Where it stands in the table's lines.
  struct Line {
    std::uint64_t order = 0;  ///< of its arrival
    std::uint64_t arrived_ns = 0;
    std::uint64_t looks = 0;      ///< before it came to `word`
    WaitedWord* word = nullptr;   ///< where it waits
    std::uint64_t joined_at = 0;  ///< looks at `word` before it came there
    bool reader = false;          ///< for a shared lock there
    std::uint8_t blocked_at = 0;  ///< the claim for which it has to wait
  };
  [[nodiscard]] Line& line() { return line_; }
  [[nodiscard]] const Line& line() const { return line_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }
  [[nodiscard]] std::span<const Claim> claims() const { return {claims_.data(), count_}; }
  /// Takes all that is claimed, or nothing. Returns false then, and line().blocked_at says of a
  /// claim that is not to be had.
  [[nodiscard]] bool take_all();
  [[nodiscard]] bool may_look_again(std::uint64_t looks) const {
    return limits_.tries == wire::Lketh::kTriesUnlimited || looks < limits_.tries;
  }
  /// It is decided.
  void tell(wire::LockCause cause, std::uint64_t now_ns) const { decide_(context_, cause, now_ns); }

 private:
  Decide decide_;
  void* context_;
  std::array<Claim, kMaxClaims> claims_{};
  std::uint8_t count_ = 0;  ///< <= kMaxClaims
  Limits limits_{};
  Line line_;
};

}  // namespace rockhopper::roce::lock
