// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/store_memory.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rockhopper::apps::publish {

Expected<StoreMemory> StoreMemory::allocate(std::size_t bytes) {
  return map(FileDescriptor(), bytes, MAP_PRIVATE | MAP_ANONYMOUS);
}

Expected<StoreMemory> StoreMemory::open(const std::string& path, std::size_t bytes) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    return fail(ErrorCode::io, "{} cannot be opened: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::io, "{} is no file", path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::busy, "{} is another publisher's store", path);
  }
  if (status.st_size == 0) {
    // With the place on the disk: a store that is full of holes would end with SIGBUS.
    if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0) {
      return fail(ErrorCode::io, "{} cannot have {} bytes: {}", path, bytes, std::strerror(error));
    }
  } else if (static_cast<std::size_t>(status.st_size) != bytes) {
    return fail(ErrorCode::invalid_argument,
                "{} has {} bytes, a store of this size {}; remove it to begin anew", path,
                status.st_size, bytes);
  }
  return map(std::move(file), bytes, MAP_SHARED);
}

Expected<StoreMemory> StoreMemory::map(FileDescriptor file, std::size_t bytes, int flags) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, file.get(), 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::exhausted, "no memory of {} bytes: {}", bytes, std::strerror(errno));
  }
  StoreMemory memory;
  memory.file_ = std::move(file);
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  return memory;
}

StoreMemory::StoreMemory(StoreMemory&& other) noexcept
    : file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

StoreMemory& StoreMemory::operator=(StoreMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

StoreMemory::~StoreMemory() {
  if (data_ != nullptr) (void)::munmap(data_, size_);
}

}  // namespace rockhopper::apps::publish
