// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/common/watch.h"
#include "apps/rh_perf/backend.h"
#include "apps/rh_perf/layout.h"
#include "stack/error.h"

namespace rockhopper::apps::perf {

/// The requests and completions of one end: keeps receives posted, counts what is outstanding, and
/// makes the target memory of a run ready and checks it afterwards.
class Traffic {
 public:
  /// References must outlive it. `remote` is the other end.
  Traffic(Backend& backend, const Agreement& agreement, const Layout& layout, Side remote,
          Watch& watch);

  /// Makes this end ready for the peer's requests of the run.
  [[nodiscard]] Expected<void> start(const RunSpec& spec);
  /// Moves packets and takes completions. True if there were any. Fails too when the watch does.
  [[nodiscard]] Expected<bool> poll();
  /// The same without the watch, for while something else is being waited for.
  [[nodiscard]] Expected<bool> poll_unwatched();
  /// Polls until no request of this end is outstanding.
  [[nodiscard]] Expected<void> drain();

  /// How many requests a queue pair takes now.
  [[nodiscard]] std::uint32_t room(std::uint16_t qp) const {
    return agreement_.window - qps_[qp].outstanding;
  }
  /// Replaces `out` by the queue pairs that have got room since the last call, each once.
  void take_freed(std::vector<std::uint16_t>& out);
  /// Posts requests, of which the signaled ones must have WorkIds whose value is the number of
  /// requests since the signaled one before, itself included. Requires room.
  [[nodiscard]] Expected<void> post(std::uint16_t qp, std::span<const SendRequest> requests);

  /// Since start().
  [[nodiscard]] std::uint64_t posted(std::uint16_t qp) const { return qps_[qp].posted; }
  [[nodiscard]] std::uint64_t completed() const { return completed_; }
  [[nodiscard]] std::uint64_t received() const { return received_; }
  [[nodiscard]] std::uint64_t packets() const { return backend_.packets(); }

  /// Where requests of the run act at the peer; scopes all at one place.
  [[nodiscard]] std::uint64_t remote_target(std::uint16_t qp, std::uint64_t slot) const {
    const bool shared = spec_.operation == Operation::lock;
    return remote_.address + (shared ? layout_.target(0, 0) : layout_.target(qp, slot));
  }
  [[nodiscard]] std::span<std::byte> local(std::uint16_t qp, std::uint64_t slot,
                                           std::size_t length);
  [[nodiscard]] std::span<std::byte> target(std::uint16_t qp, std::uint64_t slot,
                                            std::size_t length);

  /// After a validation: checks that all of the peer's requests have left here what they should.
  [[nodiscard]] Expected<void> check_validation();
  /// After a run of atomics: the word of each queue pair, which counts the requests; after one of
  /// scopes the words that they share, see check_lock_words().
  [[nodiscard]] std::vector<std::uint64_t> target_words();

  [[nodiscard]] const Agreement& agreement() const { return agreement_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] Watch& watch() { return watch_; }

  /// The number that a validation gives the message of a slot; the pattern follows from it.
  [[nodiscard]] std::uint64_t message_number(std::uint16_t qp, std::uint64_t slot) const {
    return slot * agreement_.qps + qp;
  }

 private:
  struct QueuePairState {
    std::uint32_t outstanding = 0;
    bool freed = false;  ///< is in freed_
    std::uint64_t posted = 0;
    std::uint64_t received = 0;
    std::uint32_t receives_missing = 0;  ///< to be posted; then it is in receives_missing_
    std::uint64_t next_receive_slot = 0;
  };

  [[nodiscard]] Expected<void> take(const Done& done);
  [[nodiscard]] Expected<void> take_receive(const Done& done, const WorkId& id);
  void miss_receives(std::uint16_t qp, std::uint32_t count);
  [[nodiscard]] Expected<void> post_missing_receives();
  void prepare_validation(std::uint16_t qp, std::uint64_t slot);

  Backend& backend_;
  const Agreement& agreement_;
  const Layout& layout_;
  const Side remote_;
  Watch& watch_;
  RunSpec spec_;
  std::vector<QueuePairState> qps_;
  std::uint64_t outstanding_ = 0;  ///< of all queue pairs
  std::uint64_t completed_ = 0;
  std::uint64_t received_ = 0;
  // Queue pairs with something to do, so that a turn does not look at thousands that have nothing.
  std::vector<std::uint16_t> freed_;
  std::vector<std::uint16_t> receives_missing_;
  std::array<Done, Backend::kBatch> done_;                ///< of one poll
  std::array<ReceiveRequest, Backend::kBatch> receives_;  ///< of one post
};

}  // namespace rockhopper::apps::perf
