// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <pthread.h>

#include "stack/error.h"

namespace rockhopper {

/// A thread of ours in a program of somebody else: none of the program's signals reaches it, but
/// for those of what the thread does wrong itself. Joined at the end. For one thread.
class BackgroundThread {
 public:
  BackgroundThread() = default;
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;
  ~BackgroundThread() { join(); }

  /// Calls `function(argument)` in the thread, which gets the name, of up to 15 characters. Not
  /// while one runs. Errors: `exhausted`.
  [[nodiscard]] Expected<void> start(const char* name, void (*function)(void*), void* argument);
  [[nodiscard]] bool started() const { return started_; }
  void join();

 private:
  static void* enter(void* self);

  const char* name_ = "";
  void (*function_)(void*) = nullptr;
  void* argument_ = nullptr;
  pthread_t thread_{};
  bool started_ = false;
};

}  // namespace rockhopper
