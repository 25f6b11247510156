// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "apps/services/publisher/reader_config.h"

namespace rockhopper::publisher {

/// When a reader READs next: at once while there is something, then less and less often, and never
/// more often than it is allowed to (PB-28).
class Pacing {
 public:
  explicit Pacing(const ReaderConfig& config) : config_(config) {}

  /// A round is due at once. `heartbeat_ns` is the publisher's interval, which is not to be missed;
  /// 0: it has none.
  void start(std::uint64_t heartbeat_ns, std::uint64_t now_ns);
  [[nodiscard]] std::uint64_t next_ns() const;
  void on_reads(std::uint64_t count, std::uint64_t now_ns);
  /// A round has ended. `news`: it has brought something; `more`: there is something to be read.
  void plan(bool news, bool more, std::uint64_t now_ns);
  /// It has ended, and what comes besides tells of what is new: the next one is with the next
  /// heart-beat, or
  void await_heartbeat(std::uint64_t now_ns);
  /// a little later, in case that something that it has told of does not come.
  void await_copies(std::uint64_t now_ns);
  /// There is something, or something is missing: a round is due at once, if it is allowed.
  void hurry(std::uint64_t now_ns);
  /// The longest that it may have to wait from one round to the next.
  [[nodiscard]] std::uint64_t slowest_ns() const;

 private:
  ReaderConfig config_;
  std::uint64_t heartbeat_ns_ = 0;
  std::uint64_t poll_ns_ = 0;
  std::uint64_t round_ns_ = 0;
  std::uint64_t allowed_ns_ = 0;
};

/// Whether a publisher lives: it is dead when nothing has changed for three heart-beats (PB-19).
class Liveness {
 public:
  /// `patience_ns`: the time of one heart-beat, or longer if it is looked for less often; 0: it
  /// never dies.
  void start(std::uint64_t patience_ns, std::uint64_t now_ns);
  /// Something has changed. True: it had been dead.
  [[nodiscard]] bool on_change(std::uint64_t now_ns);
  /// Returns true if it has died just now.
  [[nodiscard]] bool check(std::uint64_t now_ns);
  /// No check() comes for a while: begins anew with the next one.
  void look_away() { changed_ns_.reset(); }
  [[nodiscard]] bool dead() const { return dead_; }
  /// When check() is to be called at the latest.
  [[nodiscard]] std::uint64_t deadline_ns() const;

 private:
  static constexpr std::uint64_t kMissing = 3;

  std::uint64_t patience_ns_ = 0;
  std::optional<std::uint64_t> changed_ns_;
  bool dead_ = false;
};

}  // namespace rockhopper::publisher
