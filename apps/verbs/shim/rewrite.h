// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <climits>

namespace rockhopper::verbs {

/// The folder of the rendered tree that this process was started with; "" if there is none.
[[nodiscard]] const char* tree();

/// Whether the two are the same path as they are written. Several slashes are as one.
[[nodiscard]] bool is_same_path(const char* path, const char* other);

/// The path that a program is given in place of `path`: below the rendered tree for the folders of
/// RDMA devices, else `path` itself. It may be null, as a program's may.
class Rewritten {
 public:
  explicit Rewritten(const char* path);
  Rewritten(const Rewritten&) = delete;
  Rewritten& operator=(const Rewritten&) = delete;

  [[nodiscard]] const char* path() const { return path_; }

 private:
  const char* path_;
  char buffer_[PATH_MAX];
};

}  // namespace rockhopper::verbs
