// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>

#include "apps/node/background_thread.h"
#include "apps/verbs/node/lingering.h"
#include "apps/verbs/node/link.h"
#include "apps/verbs/node/settings.h"
#include "apps/verbs/node/spinning.h"
#include "stack/error.h"

namespace rockhopper::verbs {

class Node;

/// Decides which thread moves a node's packets, and when. A turn sends, receives and handles, in a
/// Section.
///
/// The application's threads take turns when they poll an empty completion queue, and send at once
/// what they post. A thread of ours, "rh-progress", which no signal reaches, either *watches*: it
/// sleeps and looks now and then whether the application still takes turns; or it *serves*: it
/// takes turns while packets move, then sleeps on the link, where peers wake it, until the
/// engine's next deadline.
///
/// It begins to serve when it has looked twice without a turn of the application between, and when
/// the application is about to sleep. It goes back to watching when the application has taken
/// packets several times as often as this thread, or has taken turns all the time beside it.
/// How often that takes grows with each time that it then had to come back for packets that nobody
/// took: an application that waits for bytes in its memory, between polls, keeps it serving.
///
/// Such an application is served without a change of threads where that has paid: a poll that has
/// found completions *lingers*, which is to take turns for some microseconds more.
class Progress {
 public:
  Progress(Node& node, ProgressMode mode) : node_(node), mode_(mode) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() = default;

  /// Starts the thread, if the mode has one. It sleeps on `link`, which is not owned. Errors:
  /// `exhausted`.
  [[nodiscard]] Expected<void> start(NodeLink& link);
  /// Ends the thread and waits for it. Not in a Section.
  void stop();

  /// A thread of the application has found a completion queue empty. Takes a turn, unless another
  /// thread has the engine or the mode forbids it; returns true if packets moved. `lingers`: it has
  /// found some, and waits for more. Not in a Section.
  bool turn_of_application(bool lingers = false);
  /// The application alone moves packets: it may not sleep where it waits for one.
  [[nodiscard]] bool is_inline_only() const { return mode_ == ProgressMode::inline_only; }
  /// A poll of the application has found completions and is about to return. Takes turns for up to
  /// Lingering::kLongestNs if WRITEs are expected that nobody will poll for. Not in a Section.
  void linger() {
    if (lingering_.is_wanted()) [[unlikely]] {
      wait_for_writes();
    }
  }
  /// Requests have been posted. In a Section.
  void on_posted();
  /// The same, but they leave at once: a peer may answer what is still to be sent, and UCX then
  /// writes into the buffer of a datagram whose completion it has not seen.
  void on_datagrams_posted() {
    posts_ = 0;
    on_posted();
  }
  /// Something else was changed that may be due earlier than all before. In a Section.
  void on_changed();
  /// The application is about to sleep until an event. In a Section.
  void on_armed();

 private:
  static constexpr unsigned kReluctanceMin = 4;
  static constexpr unsigned kReluctanceMax = 32;

  static void enter(void* self);
  void run();
  void watch();
  void serve();
  /// Takes turns until nothing moves and it is time to sleep; returns whether any packet moved.
  bool take_turns();
  bool turn();
  void wait_for_writes();
  /// WRITEs that were executed here, which the application may wait for without a poll.
  [[nodiscard]] std::uint64_t writes() const;
  void on_moved_by_application(bool lingers);
  /// In a Section: packets have moved.
  void tell_unless_watched();
  void begin_to_watch();
  void begin_to_serve();
  void go_to_sleep();
  void ring_if_asleep(std::uint64_t due_ns);

  Node& node_;
  const ProgressMode mode_;
  NodeLink* link_ = nullptr;
  std::atomic<bool> stop_{false};

  // Changed in a Section.
  unsigned posts_ = 0;                 ///< since the last turn
  bool sleeps_on_events_ = false;      ///< the application has asked for events
  std::uint64_t asleep_until_ns_ = 0;  ///< 0: the thread does not serve, or is awake
  bool serving_ = true;  ///< until it is seen that the application does; the thread changes it
  unsigned moves_ = 0;   ///< of packets by the application; each one by the thread halves them
  unsigned reluctance_ = kReluctanceMin;  ///< so many of them end the serving

  std::atomic<std::uint32_t> application_turns_{0};
  std::atomic<std::uint32_t> empty_polls_{0};     ///< of the application, in a row; about right
  std::atomic<std::uint64_t> writes_at_post_{0};  ///< writes() when it last posted
  Lingering lingering_;
  std::atomic<std::uint32_t> wanted_{0};  ///< a futex: 1 ends the watching
  std::atomic<bool> dispensable_{false};  ///< true ends the serving

  // What follows is the thread's own.
  std::uint64_t look_ns_ = 0;        ///< from one look to the next
  std::uint64_t term_began_ns_ = 0;  ///< of watching or serving
  std::uint32_t turns_seen_ = 0;     ///< of the application
  Spinning spinning_;
  BackgroundThread thread_;
};

}  // namespace rockhopper::verbs
