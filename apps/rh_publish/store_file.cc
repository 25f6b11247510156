// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/store_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rockhopper::apps::publish {

Expected<PageMemory> open_store_file(const std::string& path, std::size_t bytes) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    return fail(ErrorCode::io, "{} cannot be opened: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::io, "{} is no file", path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::busy, "{} is another publisher's store", path);
  }
  if (status.st_size != 0 && static_cast<std::size_t>(status.st_size) != bytes) {
    return fail(ErrorCode::invalid_argument,
                "{} has {} bytes, a store of this size {}; remove it to begin anew", path,
                status.st_size, bytes);
  }
  // With the place on the disk, of a file that is there, too (cp makes holes of zeros): writing
  // into a hole of a file system that is full would end with SIGBUS.
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    // A file that did not become one is no store of the wrong size the next time.
    if (status.st_size == 0) (void)::ftruncate(file.get(), 0);
    return fail(ErrorCode::io, "{} cannot have {} bytes: {}", path, bytes, std::strerror(error));
  }
  return PageMemory::map(std::move(file), bytes);
}

}  // namespace rockhopper::apps::publish
