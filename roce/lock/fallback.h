// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "roce/completion_queue.h"
#include "roce/lock/request.h"
#include "roce/lock/scope_builder.h"
#include "roce/queue_pair.h"

namespace rockhopper::roce::lock {

/// Scopes against a peer that does not execute locks, a standard RC responder: compare and swap
/// until the word is taken, then the accesses, then compare and swap to free it. Three round trips
/// at least, and the peer's word is looked at from here. The same ScopeBuilder, the same
/// ScopeResult; waiters keep no order, nobody takes a lock from a holder that is gone, and several
/// words cannot be taken together.
///
/// One scope at a time. Reads no clock: the caller tells the time with each call.
class FallbackScope {
 public:
  struct Config {
    std::uint64_t first_pause_ns = 5'000;  ///< behind the first look that failed; doubles
    std::uint64_t max_pause_ns = 200'000;
    std::uint64_t wr_id = UINT64_MAX;  ///< of requests made here, nobody else's
  };

  /// `scratch`: 8 bytes of local memory for what the word was. The queue pair signals what asks for
  /// it only.
  FallbackScope(QueuePair& qp, const Sge& scratch, const std::uint64_t& scratch_word,
                const Config& config)
      : qp_(qp), scratch_(scratch), found_(scratch_word), config_(config) {}
  FallbackScope(const FallbackScope&) = delete;
  FallbackScope& operator=(const FallbackScope&) = delete;

  /// `scope` and `result` stay where they are until done() or failure.
  [[nodiscard]] PostResult post(ScopeBuilder& scope, ScopeResult* result, std::uint64_t now_ns);
  /// Whether the completion was of a request made here; then it is used up.
  [[nodiscard]] bool take(const Completion& completion, std::uint64_t now_ns);
  /// Goes on after a pause.
  void poll(std::uint64_t now_ns);

  [[nodiscard]] bool busy() const { return state_ != State::idle; }
  /// When poll() has work; stack::kNever: when a completion comes.
  [[nodiscard]] std::uint64_t next_deadline_ns() const { return resume_ns_; }

 private:
  enum class State : std::uint8_t { idle, acquiring, pausing, accessing, releasing };

  [[nodiscard]] PostResult compare_swap(std::uint64_t compare, std::uint64_t swap);
  void look();
  void on_acquire(std::uint64_t now_ns);
  void access();
  void release();
  void on_release();
  void finish(WcStatus status, wire::LockCause cause);
  // What the word becomes; nothing: it does not allow it.
  [[nodiscard]] std::optional<std::uint64_t> taken(std::uint64_t word) const;
  [[nodiscard]] std::optional<std::uint64_t> freed(std::uint64_t word) const;

  QueuePair& qp_;
  Sge scratch_;
  const std::uint64_t& found_;
  Config config_;
  State state_ = State::idle;
  ScopeBuilder* scope_ = nullptr;
  ScopeResult* result_ = nullptr;
  std::uint64_t compare_ = 0;  ///< what the word is believed to be
  std::uint64_t held_ = 0;     ///< what it was made when it was taken
  std::uint64_t pause_ns_ = 0;
  std::uint64_t resume_ns_ = UINT64_MAX;
  std::uint64_t began_ns_ = 0;
  std::uint64_t looks_ = 0;
};

}  // namespace rockhopper::roce::lock
