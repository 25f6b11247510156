// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "roce/lock/request.h"
#include "roce/queue_pair.h"
#include "roce/work_request.h"

namespace rockhopper::roce::lock {

/// Puts together a scope: acquire, READs, WRITEs and atomics, release. All of it leaves before any
/// answer (LK-1 to LK-3), and completes with the release, whose completion is the only one unless
/// the queue pair signals all. Nothing waits in here.
///
///     ScopeBuilder scope({.addr = word, .rkey = rkey});
///     scope.write(local, record, rkey);
///     PostResult posted = scope.post(qp, wr_id, &result);
class ScopeBuilder {
 public:
  static constexpr std::size_t kMaxAccesses = 64;
  /// Longer scopes begin before all of them is there, unless forward() says otherwise.
  static constexpr std::uint64_t kStoreForwardBytes = 16u << 10;

  enum class Forward : std::uint8_t { automatic, store_forward, cut_through };

  /// What the queue pair or stream that it will be posted to allows.
  struct Limits {
    std::uint32_t path_mtu = 0;
    std::uint32_t max_rd_atomic = 0;
    std::uint32_t room = 0;  ///< requests that can be posted now
    std::uint32_t max_sge = 0;
  };

  explicit ScopeBuilder(const Word& word)
      : ScopeBuilder(word, word.shared ? Mode::shared : Mode::exclusive, {}, {}) {}
  /// A word of the caller's own layout: `acquire` and `release` are what take and free it.
  ScopeBuilder(const Word& word, Mode mode, const wire::LockOperation& acquire,
               const wire::LockOperation& release)
      : word_(word), release_operation_(release) {
    request_.mode = mode;
    request_.operation = acquire;
  }

  /// Another word, taken together with the first, which must be exclusive. False: there are too
  /// many.
  [[nodiscard]] bool also(const Word& word);
  /// The first of these limits ends the wait (LK-9).
  ScopeBuilder& tries(std::uint16_t most) {
    request_.tries = most;
    return *this;
  }
  ScopeBuilder& wait_us(std::uint32_t most) {
    request_.wait_us = most;
    return *this;
  }
  ScopeBuilder& owner(std::uint16_t name) {
    request_.owner = name;
    return *this;
  }
  ScopeBuilder& lease_us(std::uint32_t lease) {
    request_.lease_us = lease;
    return *this;
  }
  /// Waits behind those that came before, which is the default, or passes them when there is a
  /// chance.
  ScopeBuilder& fifo(bool on);
  /// Not to wait at the target, but to be told to come again after its RNR timer (LK-15).
  ScopeBuilder& resend(bool on);
  ScopeBuilder& forward(Forward how) {
    forward_ = how;
    return *this;
  }

  // Accesses, in this order. False: there are too many. The memory must stay valid until the scope
  // is complete.
  [[nodiscard]] bool read(const Sge& to, std::uint64_t remote_addr, MemoryKey rkey);
  [[nodiscard]] bool write(const Sge& from, std::uint64_t remote_addr, MemoryKey rkey);
  /// A READ, WRITE, atomic, FLUSH or ATOMIC WRITE; wr_id and kSendSignaled are kept. With one
  /// element of a list at most.
  [[nodiscard]] bool access(const SendWr& wr);

  /// All of it or nothing. `result` may be null.
  [[nodiscard]] PostResult post(QueuePair& qp, std::uint64_t wr_id, ScopeResult* result);
  /// By `post_one(SendWr&)`, which gives a PostResult and may fill in where a request goes.
  template <typename PostOne>
  [[nodiscard]] PostResult post(PostOne&& post_one, const Limits& limits, std::uint64_t wr_id,
                                ScopeResult* result) {
    if (const PostResult checked = prepare(limits, result); checked != PostResult::ok) {
      return checked;
    }
    PostResult posted = PostResult::ok;
    for (std::size_t i = 0; posted == PostResult::ok && i < count_ + 2; ++i) {
      SendWr wr = request_at(i, wr_id);
      posted = post_one(wr);
    }
    return posted;
  }

  /// PSNs behind the acquire, and whether the target is to wait for all of them: valid after
  /// post().
  [[nodiscard]] std::uint32_t psns() const { return request_.scope_psns; }
  [[nodiscard]] bool stores_and_forwards() const {
    return (request_.flags & wire::Lketh::kStoreForward) != 0;
  }

  // What it is made of so far.
  [[nodiscard]] const Word& first_word() const { return word_; }
  [[nodiscard]] std::size_t word_count() const { return 1 + more_count_; }
  [[nodiscard]] const Request& acquire() const { return request_; }
  /// Foreign modes: what frees the word.
  [[nodiscard]] const wire::LockOperation& release_operation() const { return release_operation_; }
  [[nodiscard]] std::size_t access_count() const { return count_; }
  /// Returns the acquire (0), the accesses, or the release, as post() posts them.
  [[nodiscard]] SendWr request_at(std::size_t index, std::uint64_t wr_id) const;

 private:
  struct Access {
    SendWr wr;
    Sge sge;
  };

  [[nodiscard]] PostResult prepare(const Limits& limits, ScopeResult* result);

  Word word_;
  Request request_{.flags = wire::Lketh::kFifo};
  Request release_request_{};
  wire::LockOperation release_operation_{};
  Forward forward_ = Forward::automatic;
  std::array<Word, kMaxClaims - 1> more_{};
  std::size_t more_count_ = 0;
  std::array<Access, kMaxAccesses> accesses_{};
  std::size_t count_ = 0;
};

}  // namespace rockhopper::roce::lock
