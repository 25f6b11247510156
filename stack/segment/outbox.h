// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <rte_mbuf.h>

#include "stack/segment/lane.h"
#include "stack/time_units.h"

namespace rockhopper::stack::segment {

/// A receiver may take nothing out of a full lane for so long. It is alive then, as a rule, and
/// waits for a processor; what UC and UD lose nobody sends again.
inline constexpr std::uint64_t kStalledNs = 500 * kNsPerMs;
/// A look at a full lane counts as so much waiting at most: in a longer time the sender has had no
/// processor itself, and perhaps the receiver neither.
inline constexpr std::uint64_t kLookNs = 10 * kNsPerMs;

/// The sender's side of the way to one member: frames that find no room in the lane are held, in
/// order, so that frames to others can pass. A lane that stays full while nothing is taken out of
/// it is given up, as a switch does with a port that is paused for ever: what is held is dropped,
/// and all that comes, until something is taken out again. One thread.
class Outbox {
 public:
  enum class Result : std::uint8_t {
    put,      ///< into the lane: the caller frees the frame
    held,     ///< the outbox has the frame
    no_room,  ///< neither; nothing was changed
    stalled   ///< the receiver takes nothing
  };

  /// Holds up to `capacity` frames, which are mbufs of the sender's. `lane` outlives it.
  Outbox(Lane& lane, std::uint32_t capacity);
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;
  ~Outbox() { drop_held(); }

  /// Requires a frame of up to kFrameMax bytes. Does not hold it unless it `may_hold`.
  [[nodiscard]] Result send(rte_mbuf* frame, std::uint64_t now_ns, bool may_hold);
  /// The next frame is put, held, or dropped for good, if it may be held.
  [[nodiscard]] bool would_take() const { return stalled_ || held_count_ < held_.size(); }
  /// Puts what is held, as far as there is room. Returns how many frames were dropped: the lane is
  /// given up.
  std::uint32_t flush(std::uint64_t now_ns);
  /// See LaneWriter::publish().
  bool publish() { return writer_.publish(); }

  [[nodiscard]] std::uint32_t held() const { return held_count_; }
  /// The receiver has taken nothing for so long, as far as the sender has looked.
  [[nodiscard]] std::uint64_t waited_ns() const { return waited_ns_; }

 private:
  [[nodiscard]] rte_mbuf*& held_at(std::uint32_t i) { return held_[(first_ + i) % held_.size()]; }
  void look(std::uint64_t now_ns);
  [[nodiscard]] bool still_stalled();
  std::uint32_t drop_held();

  LaneWriter writer_;
  std::vector<rte_mbuf*> held_;  ///< a ring
  std::uint32_t first_ = 0;
  std::uint32_t held_count_ = 0;
  bool stalled_ = false;
  std::optional<std::uint32_t> taken_;  ///< what the receiver had taken at the last look
  std::uint64_t looked_ns_ = 0;
  std::uint64_t waited_ns_ = 0;
};

}  // namespace rockhopper::stack::segment
