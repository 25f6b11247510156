// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/live/shared_memory.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace rockhopper::live {

Expected<SharedMemory> SharedMemory::allocate(std::size_t bytes, const std::string& path) {
  int file = -1;
  if (!path.empty()) {
    file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
      const int error = errno;
      if (file >= 0) (void)::close(file);
      return fail(ErrorCode::io, "{}: {}", path, std::strerror(error));
    }
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
  const int error = errno;
  if (file >= 0) (void)::close(file);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::exhausted, "no {} bytes of shared memory: {}", bytes,
                std::strerror(error));
  }
  SharedMemory memory;
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) (void)::munmap(data_, size_);
}

}  // namespace rockhopper::live
