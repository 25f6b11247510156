// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/memory_check.h"

#include <cerrno>
#include <cstddef>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stack/uncancelled.h"

namespace rockhopper::verbs {
namespace {

// From Linux 5.14 on; the headers of the C library may be older.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;

/// Returns 0 or an errno.
int populate(void* begin, std::size_t length, int advice) {
  int error = 0;
  do {
    error = madvise(begin, length, advice) == 0 ? 0 : errno;
  } while (error == EINTR || error == EAGAIN);
  return error;
}

/// The kernel knows how to populate: it does for a page that is there.
bool can_populate(std::size_t page) {
  static const bool known = [page] {
    void* memory = mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    const bool can = madvise(memory, page, kPopulateRead) == 0;
    munmap(memory, page);
    return can;
  }();
  return known;
}

/// Whether a byte of each page can be read, as the kernel finds out that copies it. Returns 0 or an
/// errno.
int touch(const std::byte* begin, std::size_t length, std::size_t page) {
  const stack::Uncancelled uncancelled;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  int error = 0;
  for (std::size_t at = 0; at < length && error == 0; at += page) {
    std::byte copy{};
    if (write(ends[1], begin + at, 1) != 1 || read(ends[0], &copy, 1) != 1) error = errno;
  }
  close(ends[0]);
  close(ends[1]);
  return error;
}

}  // namespace

int check_memory(const void* base, std::uint64_t length, bool writable) {
  if (length == 0) return 0;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(base);
  const std::uintptr_t begin = first / page * page;
  if (first + length < first || first + length > UINTPTR_MAX - page) return EFAULT;
  const std::uintptr_t end = (first + length + page - 1) / page * page;
  auto* pages = reinterpret_cast<std::byte*>(begin);
  const std::size_t bytes = end - begin;
  if (!can_populate(page)) return touch(pages, bytes, page);
  const int error = populate(pages, bytes, writable ? kPopulateWrite : kPopulateRead);
  if (error == 0) return 0;
  // EINVAL: no right to write, or memory of a device, which cannot be populated at all.
  if (error != EINVAL || populate(pages, bytes, kPopulateRead) == 0) return EFAULT;
  return touch(pages, bytes, page);
}

}  // namespace rockhopper::verbs
