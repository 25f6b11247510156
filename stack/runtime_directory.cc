// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/runtime_directory.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stack/segment/reader/runtime_path.h"

namespace rockhopper::stack {

Expected<void> make_private_directory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(ErrorCode::io, "cannot make the directory {}: {}", path, std::strerror(errno));
  }
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) {
    return fail(ErrorCode::io, "cannot look at {}: {}", path, std::strerror(errno));
  }
  if (!S_ISDIR(status.st_mode) || status.st_uid != getuid() || (status.st_mode & 077) != 0) {
    return fail(ErrorCode::io, "{} is not a directory of this user alone", path);
  }
  return {};
}

Expected<std::string> runtime_directory() {
  char path[PATH_MAX];
  const RuntimePlace place = write_runtime_path(path, sizeof path);
  const bool is_elsewhere = place == RuntimePlace::missing || place == RuntimePlace::foreign;
  static std::atomic<bool> said{false};
  if (is_elsewhere && !said.exchange(true)) {
    fmt::print(stderr, "XDG_RUNTIME_DIR={} is {}; {} is used in its place\n",
               std::getenv("XDG_RUNTIME_DIR"),
               place == RuntimePlace::missing ? "not there" : "no directory of this user", path);
  }
  if (auto made = make_private_directory(path); !made) {
    return fail(ErrorCode::io, "{}; $XDG_RUNTIME_DIR chooses another one", made.error().message);
  }
  return std::string(path);
}

}  // namespace rockhopper::stack
