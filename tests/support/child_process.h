// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace rockhopper::test {

/// A program that a test runs beside itself, with its standard input and output on pipes; standard
/// error goes to the test's. Killed at the end if it still runs.
class ChildProcess {
 public:
  /// `arguments[0]` is looked up in PATH. Fails the test if it cannot be started.
  explicit ChildProcess(std::vector<std::string> arguments);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// The next line of output without its end; empty when the output has ended or nothing came
  /// within `timeout_ms`.
  [[nodiscard]] std::string read_line(int timeout_ms = 60'000);
  void write(const std::string& text) const;
  void close_input();
  void kill() const;
  /// Waits for the end. The exit status, or 128 + the signal that ended it; -1 after `timeout_ms`.
  [[nodiscard]] int wait(int timeout_ms = 120'000);

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string buffered_;
};

/// Runs a program to its end and returns its status as ChildProcess::wait() does.
[[nodiscard]] int run(std::vector<std::string> arguments);

/// A child of fork() that has called `act` and waits, until it is killed at the end. Nothing of it
/// is seen by the test but what it has done to files and the like; only the calling thread is in
/// it.
class ForkedProcess {
 public:
  explicit ForkedProcess(const std::function<void()>& act);
  ForkedProcess(const ForkedProcess&) = delete;
  ForkedProcess& operator=(const ForkedProcess&) = delete;
  ~ForkedProcess();

 private:
  pid_t pid_;
};

/// A new directory under /tmp, emptied and removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace rockhopper::test
