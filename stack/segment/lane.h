// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <rte_mbuf.h>

#include "stack/segment/layout.h"

namespace rockhopper::stack::segment {

/// Largest frame that a lane takes, in bytes: a quarter of it, so that there is room for one
/// wherever the last one ended.
inline constexpr std::uint32_t kFrameMax = Lane::kBytes / 4;

/// The sender's end of a lane. What it has put becomes visible by publish(). One thread.
class LaneWriter {
 public:
  /// `lane` outlives it. Goes on where the last sender has published.
  explicit LaneWriter(Lane& lane);

  /// Puts a copy of the frame, of any segments. Returns false if there is no room for it. Requires
  /// a frame of up to kFrameMax bytes.
  [[nodiscard]] bool put(const rte_mbuf& frame);
  /// Returns false if nothing was put since the last time.
  bool publish();
  /// What the other end says that it has taken out, now: a number that changes with each frame.
  [[nodiscard]] std::uint32_t taken() const { return lane_->taken.load(std::memory_order_acquire); }

 private:
  /// There are so many free bytes, as the other end says.
  [[nodiscard]] bool has_room(std::uint32_t bytes);

  Lane* lane_;
  std::uint32_t put_;
  std::uint32_t published_;
  std::uint32_t taken_;  ///< as last seen: the other end's line is read when that does not suffice
};

/// The receiver's end, from the lane's first frame on: its senders may change. One thread.
class LaneReader {
 public:
  /// A frame where it stands in the lane.
  struct Frame {
    std::span<const std::byte> bytes;
    bool without_icrc;  ///< see kWithoutIcrc
  };

  /// `lane` outlives it.
  explicit LaneReader(Lane& lane) : lane_(&lane) {}

  /// A frame waits, or damage does.
  [[nodiscard]] bool waits() const { return lane_->put.load(std::memory_order_acquire) != taken_; }
  /// A frame waits that was there when front() last looked.
  [[nodiscard]] bool waits_since_the_last_look() const { return put_ != taken_; }
  /// Returns the next frame, which stays where it is until pop(): it may change under the reader's
  /// eyes, so a copy is to be made and the original not looked at. Nothing: none waits. An empty
  /// one: what the sender has written makes no sense, and the lane has been emptied.
  [[nodiscard]] std::optional<Frame> front();
  /// The first frame is done with. Requires that front() has returned it.
  void pop();
  /// Gives the room of what was taken back to the sender.
  void release();

 private:
  [[nodiscard]] Frame empty_it();

  Lane* lane_;
  std::uint32_t put_ = 0;  ///< as last seen
  std::uint32_t taken_ = 0;
  std::uint32_t released_ = 0;
  std::uint32_t front_bytes_ = 0;  ///< of the frame that front() returned, with its length
};

}  // namespace rockhopper::stack::segment
