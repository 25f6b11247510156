// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

namespace rockhopper::apps {

/// A line on the terminal about long work; nothing where standard error is not a terminal.
class Progress {
 public:
  explicit Progress(std::string what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Wipes the line.
  ~Progress();

  /// Cheap: reads the clock, and prints twice a second at most. `total` 0: unknown.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  std::uint64_t next_ns_;
};

}  // namespace rockhopper::apps
