// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <string>

#include "stack/descriptor.h"
#include "stack/error.h"

namespace rockhopper::stack {

/// A role that one process at a time has, and that another one can take as soon as it has ended,
/// however it ended. Who has it holds the lock of a FIFO, and its only end to write; who waits for
/// it holds an end to read, of which the kernel says that the other one was closed.
///
/// One thread, but for let_go().
class Succession {
 public:
  /// `path` is of the FIFO, which is made if it is not there. Errors: `io`; `invalid_state` if it
  /// is something else.
  [[nodiscard]] static Expected<std::unique_ptr<Succession>> open(const std::string& path);

  /// Takes the role if nobody has it; true from then on. Errors: `io`.
  [[nodiscard]] Expected<bool> take();
  /// For poll() and epoll, without events that are asked for: hung up when another process has had
  /// the role and has ended. Nobody need have the role before that.
  [[nodiscard]] int vacancy() const { return reader_.fd(); }
  /// In a child of fork(), which is not to keep the role. Nothing else may be called then.
  void let_go() noexcept;

 private:
  explicit Succession(Descriptor reader, std::string path);

  Descriptor reader_;
  Descriptor writer_;  ///< of who has the role
  const std::string path_;
};

}  // namespace rockhopper::stack
