// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/runtime_directory.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

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
  const char* base = std::getenv("XDG_RUNTIME_DIR");
  const std::string path = base != nullptr && *base != '\0'
                               ? std::string(base) + "/rockhopper"
                               : "/tmp/rockhopper-" + std::to_string(getuid());
  if (auto made = make_private_directory(path); !made) {
    return fail(ErrorCode::io, "{}; $XDG_RUNTIME_DIR chooses another one", made.error().message);
  }
  return path;
}

}  // namespace rockhopper::stack
