// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include <rdma/rdma_user_cm.h>
#include <sys/types.h>

#include "stack/descriptor.h"
#include "stack/error.h"

namespace rockhopper::verbs::cm {

struct Identifier;
struct Group;

/// An event that a program has not taken yet.
struct QueuedEvent {
  Identifier* owner = nullptr;    ///< of the listener, for a request
  Group* group = nullptr;         ///< of a membership in that group
  Identifier* request = nullptr;  ///< a request: the identifier that it has got
  rdma_ucm_event_resp response{};
};

/// An opened /dev/infiniband/rdma_cm: a descriptor that programs poll, duplicate and close, and the
/// events that wait there. The descriptor is the end of a pipe to read, with one byte in it while
/// there are events; a write to it fails, which is where the commands are caught. In a Section.
class Channel {
 public:
  /// `flags` as of open(). Gives the program's descriptor away. Errors: `exhausted`.
  [[nodiscard]] static Expected<std::unique_ptr<Channel>> open(int flags, int& fd);

  /// Whether a descriptor with that device and inode is this channel's.
  [[nodiscard]] bool has(dev_t device, ino_t inode) const {
    return device == device_ && inode == inode_;
  }
  [[nodiscard]] ino_t inode() const { return inode_; }
  /// All of the program's descriptors of it are closed.
  [[nodiscard]] bool is_closed() const;

  [[nodiscard]] bool is_empty() const { return events_.empty(); }
  void push(const QueuedEvent& event);
  /// Requires that there is one. `fd`: a descriptor of the channel.
  [[nodiscard]] QueuedEvent pop(int fd);
  /// Takes the events out that `match`, and hands them to `visit`.
  template <typename Match, typename Visit>
  void take_out(int fd, Match match, Visit visit) {
    std::deque<QueuedEvent> all;
    all.swap(events_);
    const bool was_readable = !all.empty();
    std::deque<QueuedEvent> taken;
    for (const QueuedEvent& event : all) {
      (match(event) ? taken : events_).push_back(event);
    }
    if (was_readable && events_.empty()) drain(fd);
    for (const QueuedEvent& event : taken) {
      visit(event);
    }
  }

 private:
  Channel(stack::Descriptor writer, dev_t device, ino_t inode);
  static void drain(int fd);

  stack::Descriptor writer_;
  const dev_t device_;
  const ino_t inode_;
  std::deque<QueuedEvent> events_;
};

}  // namespace rockhopper::verbs::cm
