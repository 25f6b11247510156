// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/segment/directory.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include "stack/runtime_directory.h"

namespace rockhopper::stack::segment {
namespace {

/// A folder of this user in shared memory, which is never written to a disk.
Expected<std::string> user_directory() {
  if (access("/dev/shm", W_OK | X_OK) != 0) return runtime_directory();
  std::string path = "/dev/shm/rockhopper-" + std::to_string(getuid());
  ROCKHOPPER_TRY(make_private_directory(path));
  return path;
}

}  // namespace

Expected<std::string> directory() {
  if (const char* given = std::getenv("ROCKHOPPER_SEGMENT"); given != nullptr && *given != '\0') {
    ROCKHOPPER_TRY(make_private_directory(given));
    return std::string(given);
  }
  struct stat network = {};
  if (stat("/proc/self/ns/net", &network) != 0) {
    return fail(ErrorCode::io, "cannot look at /proc/self/ns/net: {}",
                std::generic_category().message(errno));
  }
  ROCKHOPPER_TRY(std::string path, user_directory());
  path += "/segment-" + std::to_string(network.st_ino);
  ROCKHOPPER_TRY(make_private_directory(path));
  return path;
}

}  // namespace rockhopper::stack::segment
