// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/unordered_set.hpp>

#include "roce/lock/region.h"
#include "roce/lock/waiter.h"
#include "stack/timing_wheel.h"

namespace rockhopper::roce::lock {

class LockTable;

/// What a LockTable keeps of a lock word that somebody waits for.
struct WaitedWord : boost::intrusive::unordered_set_base_hook<> {
  using DirtyHook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  /// `on_retry` is called with the word when its timer expires.
  WaitedWord(LockTable& its_table, stack::Timer::Callback on_retry)
      : table(its_table), timer(on_retry, this) {}

  LockTable& table;
  std::uint64_t* word = nullptr;
  Region* region = nullptr;
  boost::intrusive::list<Waiter> waiters;  ///< in the order of arrival
  std::uint64_t looks = 0;
  std::uint64_t seen = 0;         ///< its value when it was last looked at
  std::uint32_t writers = 0;      ///< waiters that want it for themselves
  std::uint32_t hurried = 0;      ///< waiters that do not keep the order of arrival
  std::uint64_t next_expiry = 0;  ///< of `looks`, at which the first waiter gives up, or earlier
  bool native = true;             ///< ours to set LockWord::kWaiters in
  stack::Timer timer;
  DirtyHook dirty_hook;  ///< linked: to be looked at
};

/// The lock requests of one engine that wait, by word: decides who is next. Only words that are
/// waited for are in it; a lock that is free costs nothing here. A word is looked at when something
/// of this process has changed it, and from time to time for changes that are not told of (LK-27);
/// one look serves all its waiters. Belongs to the engine's thread.
class LockTable {
 public:
  /// Both outlive it. `now_ns`: the time of the engine's call under way.
  LockTable(stack::TimingWheel& timers, const std::uint64_t& now_ns);
  ~LockTable();
  LockTable(const LockTable&) = delete;
  LockTable& operator=(const LockTable&) = delete;

  /// Serves locks in that memory from now on.
  void attach(Region& region);
  /// Returns false if requests wait for its words, or hold one.
  [[nodiscard]] bool detach(Region& region);
  /// Returns the region of the word; null if it is in none.
  [[nodiscard]] Region* find(const void* word) const;
  /// Room for one more waiter. Control path.
  void add_waiter();
  /// Gives back the room of a waiter that waits no more.
  void remove_waiter() { --waiters_; }
  /// Words that can be waited for at a time.
  [[nodiscard]] std::size_t words() const { return words_.size(); }

  /// Looks at the words of a request with at least one claim: granted (none), failed for that
  /// cause, or nothing: it can wait(), or come again().
  [[nodiscard]] std::optional<wire::LockCause> begin(Waiter& waiter);
  /// One more look for a request that has come again.
  [[nodiscard]] std::optional<wire::LockCause> again(Waiter& waiter);
  /// It will be told. Requires that begin() or again() has just said nothing.
  void wait(Waiter& waiter);
  /// It waits no more; `decide` is not called. No effect on one that does not wait.
  void leave(Waiter& waiter);

  /// The waiter's claims are free again, by its own wish. False: one of them was not held by it.
  [[nodiscard]] bool give_back(Waiter& waiter);
  /// The same for one foreign word: false, and it stays as it is, where the condition is not met.
  [[nodiscard]] bool perform(Waiter& waiter, const wire::LockOperation& operation, bool add);
  /// The same where it has no wish: its connection or its time is over.
  bool undo(Waiter& waiter);

  /// Something has been written to [data, data + length).
  void note_write(const std::byte* data, std::uint64_t length) {
    if (waiting_ != 0) [[unlikely]] {
      look_for_changes(data, length);
    }
  }
  /// Nothing waits: run() has no work.
  [[nodiscard]] bool idle() const { return waiting_ == 0; }
  /// Looks at the words that have changed, until there are none.
  void run();

 private:
  struct WordOf {
    using type = std::uint64_t*;
    type operator()(const WaitedWord& waited) const { return waited.word; }
  };
  /// Words near each other share a bucket: those in a range are found by its few buckets.
  struct BucketOf {
    std::size_t operator()(const void* at) const {
      return reinterpret_cast<std::uintptr_t>(at) / kBucketBytes;
    }
  };
  using WaitedWords =
      boost::intrusive::unordered_set<WaitedWord, boost::intrusive::key_of_value<WordOf>,
                                      boost::intrusive::hash<BucketOf>,
                                      boost::intrusive::power_2_buckets<true>>;
  using DirtyWords = boost::intrusive::list<
      WaitedWord,
      boost::intrusive::member_hook<WaitedWord, WaitedWord::DirtyHook, &WaitedWord::dirty_hook>,
      boost::intrusive::constant_time_size<false>>;
  struct Attached {
    Region* region;
    std::uint64_t releases;  ///< as last seen
    int held = 0;            ///< claims that were granted here
  };

  [[nodiscard]] std::optional<std::uint8_t> claim_behind_others(const Waiter& waiter) const;
  void add_word();
  void join(Waiter& waiter);
  void remove(Waiter& waiter);
  void retire(WaitedWord& waited);
  void look(WaitedWord& waited);
  void expire(WaitedWord& waited);
  void decide(Waiter& waiter, wire::LockCause cause);
  void set_dirty(WaitedWord& waited);
  void look_for_changes(const std::byte* data, std::uint64_t length);
  void look_for_releases();
  [[nodiscard]] WaitedWord* find_waited(std::uint64_t* word);
  void count_held(Waiter& waiter, int change);
  template <typename Free>
  [[nodiscard]] bool give_back_by(Waiter& waiter, Free free);
  void note_change(const Claim& claim);
  void on_retry_timer(WaitedWord& waited);

  static constexpr std::size_t kBuckets = 1024;
  static constexpr std::size_t kBucketBytes = 256;

  stack::TimingWheel& timers_;
  const std::uint64_t& now_ns_;
  std::vector<Attached> regions_;
  std::vector<std::unique_ptr<WaitedWord>> words_;  ///< all; more than waiters
  std::vector<WaitedWord*> free_;
  std::unique_ptr<WaitedWords::bucket_type[]> buckets_;
  WaitedWords waited_;
  DirtyWords dirty_;
  const WaitedWord* looked_at_ = nullptr;
  std::uint64_t arrivals_ = 0;
  std::uint32_t waiters_ = 0;  ///< that there are
  std::uint32_t waiting_ = 0;  ///< of these
};

}  // namespace rockhopper::roce::lock
