// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>

namespace rockhopper::dag {

/// A client's lease at a server, as the client sees it: until when it holds, when it is to be
/// renewed, and what holds the next renewal up. Renewals have numbers, from 1 on in each
/// connection; over all connections together they count on, with a gap between two.
///
/// A client may change memory that it has seen to be a record's as long as the lease is not renewed
/// twice beyond that (kGraceRenewals): the server gives no memory to others before.
class Lease {
 public:
  /// How often it is renewed before it would end.
  static constexpr std::uint64_t kRenewals = 8;
  /// So many lower bits of a renewal's number are enough to tell it by.
  static constexpr std::uint64_t kNumberMask = 0x7fff;

  /// There is a connection, which the lease is of.
  [[nodiscard]] bool is_on() const { return lease_ns_ != 0; }
  /// By our clock it ends no later than by the server's.
  [[nodiscard]] bool has_ended(std::uint64_t now_ns) const { return is_on() && now_ns >= ends_ns_; }
  /// It is time for the next renewal.
  [[nodiscard]] bool is_due(std::uint64_t now_ns) const { return is_on() && now_ns >= next_ns_; }
  /// A renewal that was due has been found to have to wait.
  [[nodiscard]] bool is_held_up() const { return held_up_; }
  /// A hold() is in the way of the next renewal.
  [[nodiscard]] bool is_held() const { return holds_[(total() - 1) % holds_.size()] > 0; }
  /// Returns the number of the last renewal that has been posted.
  [[nodiscard]] std::uint64_t posted() const { return posted_; }
  /// Counts the renewals that are complete, over all connections; for hold().
  [[nodiscard]] std::uint64_t renewals() const { return earlier_ + complete_; }
  /// Returns when something is to be done, if nothing else happens; UINT64_MAX: never.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;

  /// A connection begins, whose lease holds for `lease_ns`, above 0, after each renewal.
  void begin(std::uint64_t lease_ns, std::uint64_t now_ns);
  /// The connection is lost.
  void end() { lease_ns_ = 0; }

  /// The next renewal, number posted() + 1, has been posted.
  void on_posted(std::uint64_t now_ns);
  /// The renewal whose number has these lower bits is complete.
  void on_complete(std::uint64_t number);
  /// The next renewal has to wait. Returns false if that was known.
  bool hold_up();

  /// For changes of memory that are made otherwise than by the client's operations: what was seen
  /// to be there by a READ that was posted when renewals() was `since` is not given to others until
  /// unhold(), as the lease is not renewed twice beyond `since` meanwhile. Each hold() that was
  /// true needs one unhold(), soon: without renewals the lease ends. Returns false if that is too
  /// long ago, as two renewals have been posted since, or one has and the next one is waiting for
  /// others already; or if there is no connection, or another one: to be READ again.
  [[nodiscard]] bool hold(std::uint64_t since);
  /// Harmless when the connection is lost, or is another one.
  void unhold(std::uint64_t since);

 private:
  [[nodiscard]] std::uint64_t total() const { return earlier_ + posted_; }
  [[nodiscard]] bool is_recent(std::uint64_t since) const;

  std::uint64_t lease_ns_ = 0;  ///< 0: there is no connection
  std::uint64_t ends_ns_ = 0;   ///< the server does not fence us before
  std::uint64_t next_ns_ = 0;   ///< when the next renewal is due
  std::uint64_t earlier_ = 0;   ///< renewals before this connection, and a gap
  std::uint64_t posted_ = 0;    ///< renewals of this connection
  std::uint64_t complete_ = 0;  ///< of these, up to this one; <= posted_
  bool held_up_ = false;
  /// hold()s, of odd and of even counts: of the last renewal and the one before.
  std::array<std::uint32_t, 2> holds_{};
  std::array<std::uint64_t, kRenewals> posted_ns_{};  ///< when the last ones were, by number
};

}  // namespace rockhopper::dag
