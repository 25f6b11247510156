// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/shared_memory.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rockhopper::apps::messages {

Expected<SharedMemory> SharedMemory::create(std::size_t bytes) {
  FileDescriptor file(::memfd_create("rh-ami", MFD_CLOEXEC));
  if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return fail(ErrorCode::exhausted, "no memory of {} bytes: {}", bytes, std::strerror(errno));
  }
  return map(std::move(file), bytes, PROT_READ | PROT_WRITE);
}

Expected<SharedMemory> SharedMemory::open(const std::string& path, std::size_t bytes) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    return fail(ErrorCode::not_found, "{}: {}", path, std::strerror(errno));
  }
  // Pages that a file does not have are not to be looked at.
  if (!S_ISREG(status.st_mode) || static_cast<std::size_t>(status.st_size) != bytes) {
    return fail(ErrorCode::not_found, "{} has not {} bytes", path, bytes);
  }
  return map(std::move(file), bytes, PROT_READ);
}

Expected<SharedMemory> SharedMemory::map(FileDescriptor file, std::size_t bytes, int protection) {
  void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::exhausted, "no memory of {} bytes: {}", bytes, std::strerror(errno));
  }
  SharedMemory memory;
  memory.file_ = std::move(file);
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) (void)::munmap(data_, size_);
}

std::string SharedMemory::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get());
}

}  // namespace rockhopper::apps::messages
