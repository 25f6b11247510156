// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/mr_check.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace rockhopper::verbs {
namespace {

// From Linux 5.14 on; the headers of the C library may be older.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;
/// Pages that are asked for at a time.
constexpr std::size_t kPagesAtATime = 1u << 14;

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

/// Something is mapped everywhere.
bool is_mapped(std::byte* begin, std::size_t length, std::size_t page) {
  std::vector<unsigned char> residence(std::min(length / page, kPagesAtATime));
  while (length > 0) {
    const std::size_t piece = std::min(length, kPagesAtATime * page);
    if (mincore(begin, piece, residence.data()) != 0) return false;
    begin += piece;
    length -= piece;
  }
  return true;
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
  if (!can_populate(page)) return is_mapped(pages, bytes, page) ? 0 : EFAULT;
  const int error = populate(pages, bytes, writable ? kPopulateWrite : kPopulateRead);
  if (error == 0) return 0;
  // EINVAL: no right to write, or memory of a device, which cannot be populated at all.
  if (error != EINVAL || populate(pages, bytes, kPopulateRead) == 0) return EFAULT;
  return is_mapped(pages, bytes, page) ? 0 : EFAULT;
}

}  // namespace rockhopper::verbs
