// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

// What libibverbs reads of /sys for programs. rh-run renders a tree for those that look there
// themselves; ibv_devices and ibv_devinfo are content with these functions, also without one.

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include "apps/verbs/abi/counter_files.h"
#include "apps/verbs/abi/device_files.h"
#include "apps/verbs/abi/environment.h"

namespace rockhopper::verbs {
namespace {

/// Returns what is read and ended with a zero, without a line's end; -1 if it does not fit.
int read_file(const char* path, const char* tree, char* to, std::size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  show_counter(fd, path, tree);
  const ssize_t result = read(fd, to, size);
  const int error = errno;
  close(fd);
  errno = error;
  if (result <= 0) return static_cast<int>(result);
  auto length = static_cast<std::size_t>(result);
  if (to[length - 1] == '\n') {
    --length;
  } else if (length == size) {
    errno = EMSGSIZE;
    return -1;
  }
  to[length] = '\0';
  return static_cast<int>(length);
}

bool is_of_ours(const char* path) {
  static constexpr char kClass[] = "/sys/class/infiniband";
  return std::strncmp(path, kClass, sizeof kClass - 1) == 0;
}

}  // namespace
}  // namespace rockhopper::verbs

extern "C" {

// As librdmacm and libibumad have it from rdma-core; no header of Debian declares them.
const char* ibv_get_sysfs_path();
int ibv_read_sysfs_file(const char* folder, const char* file, char* to, std::size_t size);

const char* ibv_get_sysfs_path() { return "/sys"; }

int ibv_read_sysfs_file(const char* folder, const char* file, char* to, std::size_t size) {
  using namespace rockhopper::verbs;
  char path[PATH_MAX];
  const bool ours = is_of_ours(folder);
  const char* tree = ours ? std::getenv(kTreeVariable) : nullptr;
  const int length =
      std::snprintf(path, sizeof path, "%s%s/%s", tree != nullptr ? tree : "", folder, file);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  if (!ours || tree != nullptr) return read_file(path, tree != nullptr ? tree : "", to, size);
  return read_device_file(folder, file, to, size);
}

}  // extern "C"
