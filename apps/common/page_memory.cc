// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/page_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stack/memory_limit.h"

namespace rockhopper::apps {

Expected<PageMemory> PageMemory::allocate(std::size_t bytes) {
  // A buffer of no bytes still needs an address to be registered.
  return map(FileDescriptor(), std::max<std::size_t>(bytes, 1));
}

Expected<PageMemory> PageMemory::share(const char* name, std::size_t bytes) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return fail(ErrorCode::exhausted, "no memory of {} bytes: {}{}", bytes, std::strerror(errno),
                stack::memory_limit_text());
  }
  return map(std::move(file), bytes);
}

Expected<PageMemory> PageMemory::map(FileDescriptor file, std::size_t bytes, bool writable) {
  const int flags = file.valid() ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  // Touched here, so that no page fault falls into a measurement.
  void* data = ::mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                      flags | MAP_POPULATE, file.get(), 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::exhausted, "no memory of {} bytes: {}{}", bytes, std::strerror(errno),
                stack::memory_limit_text());
  }
  PageMemory memory;
  memory.file_ = std::move(file);
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  return memory;
}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PageMemory::~PageMemory() {
  if (data_ != nullptr) (void)::munmap(data_, size_);
}

std::string PageMemory::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get());
}

std::size_t PageMemory::page_size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace rockhopper::apps
