// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

namespace rockhopper::stack {

/// Tells a thread that may be asleep that there is something to take: the way in which a protocol,
/// which does no I/O, wakes an application. EventFd is one.
class Notifier {
 public:
  Notifier() = default;
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;
  virtual ~Notifier() = default;
  /// Called from the middle of the protocol's work: must be quick and must not call the protocol.
  virtual void notify() noexcept = 0;
};

}  // namespace rockhopper::stack
