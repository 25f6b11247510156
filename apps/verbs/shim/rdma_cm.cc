// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

// The connection manager's device, /dev/infiniband/rdma_cm, to which librdmacm writes its commands.
// What programs get is a descriptor of the engine library's, which can only be read: a write fails
// with EBADF, and only then it is looked whether it was meant for the device. So duplicates of the
// descriptor work too, and other writes cost nothing.

// Both forms of a function are made here, so the headers must not give one the name of the other.
#undef _FILE_OFFSET_BITS

#include "apps/verbs/shim/rdma_cm.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "apps/verbs/abi/device_files.h"
#include "apps/verbs/abi/devices.h"
#include "apps/verbs/abi/load.h"
#include "apps/verbs/shim/next.h"
#include "apps/verbs/shim/rewrite.h"

namespace rockhopper::verbs {
namespace {

bool was_opened = false;  // by most programs never

bool may_be_open() { return __atomic_load_n(&was_opened, __ATOMIC_RELAXED); }

ssize_t (*known_write)(int, const void*, std::size_t) = nullptr;
int (*known_close)(int) = nullptr;

/// The engine library has the other ends of the pipes, which it writes to.
bool is_channel(int fd, mode_t mode, ino_t inode) {
  return may_be_open() && S_ISFIFO(mode) && loaded_table().is_channel(inode) &&
         (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

/// Shows a descriptor of the device as what it stands for.
template <typename Stat>
int shown(int result, int fd, Stat* to) {
  if (result == 0 && is_channel(fd, to->st_mode, to->st_ino)) {
    to->st_mode = S_IFCHR | 0666;
    to->st_rdev = makedev(kRdmaCmMajor, kRdmaCmMinor);
  }
  return result;
}

}  // namespace

bool is_rdma_cm(const char* path) {
  return path != nullptr && tree()[0] != '\0' && is_same_path(path, "/dev/infiniband/rdma_cm");
}

int open_rdma_cm(int flags) {
  const Devices all = devices();
  if (all.count == 0) {
    errno = ENOENT;
    return -1;
  }
  if (!load_engine()) return -1;
  __atomic_store_n(&was_opened, true, __ATOMIC_RELAXED);
  return loaded_table().open_channel(&all.objects[0].device, flags);
}

}  // namespace rockhopper::verbs

// The parameters of these functions have names of their own, and types and lists of parameters
// cannot stand in parentheses.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses)

#define ROCKHOPPER_SHOWN extern "C" __attribute__((visibility("default")))

using rockhopper::verbs::next;

ROCKHOPPER_SHOWN ssize_t write(int fd, const void* buf, std::size_t n) {
  using namespace rockhopper::verbs;
  ssize_t result = next(known_write, "write")(fd, buf, n);
  if (result < 0 && errno == EBADF && may_be_open() &&
      !loaded_table().write_channel(fd, buf, n, &result)) {
    errno = EBADF;
  }
  return result;
}

ROCKHOPPER_SHOWN int close(int fd) {
  using namespace rockhopper::verbs;
  struct stat found = {};
  const bool ours = may_be_open() && fstat(fd, &found) == 0 && S_ISCHR(found.st_mode) &&
                    found.st_rdev == makedev(kRdmaCmMajor, kRdmaCmMinor);
  const int result = next(known_close, "close")(fd);
  if (ours) {
    const int error = errno;
    loaded_table().closed_channel();
    errno = error;
  }
  return result;
}

// The functions are declared by other names here, as in paths.cc.
#define ROCKHOPPER_STAT(name, parameters, arguments)                       \
  ROCKHOPPER_SHOWN int name parameters {                                   \
    static int(*known) parameters = nullptr;                               \
    return rockhopper::verbs::shown(next(known, #name) arguments, fd, to); \
  }

ROCKHOPPER_STAT(fstat, (int fd, struct stat* to), (fd, to))
ROCKHOPPER_STAT(fstat64, (int fd, struct stat64* to), (fd, to))
ROCKHOPPER_STAT(__fxstat, (int version, int fd, struct stat* to), (version, fd, to))
ROCKHOPPER_STAT(__fxstat64, (int version, int fd, struct stat64* to), (version, fd, to))

// NOLINTEND(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses)
