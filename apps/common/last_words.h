// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

namespace rockhopper::apps {

/// What parts of a program that have ended leave for its last line. Main thread only.
struct LastWords {
  /// Something that was asked for is not complete, as a capture whose disk is full: the program
  /// fails with this even if its work is done. Empty: all is complete.
  std::string incomplete;
  /// Packets that were dropped for reasons that explain a failure; shown behind one. Empty: none.
  std::string drops;
};

[[nodiscard]] inline LastWords& last_words() {
  static LastWords words;
  return words;
}

}  // namespace rockhopper::apps
