// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <sys/stat.h>
#include <unistd.h>

#include "stack/segment/reader/runtime_path.h"

namespace rockhopper::stack::segment {

// What one has to know of a segment who reads it and is no member: in libraries that stand on the C
// library alone, too.

/// A table begins with it: another value is of another version of this library, or no table at all.
inline constexpr std::uint64_t kMagic = 0x36746e656d676552;  // "Regment6"
/// Members of a segment.
inline constexpr std::uint16_t kSlotsMax = 128;

/// Numbers of a slot that only its member writes, and that go on from those of the members before
/// it: their sums over all slots are those of the segment, and do not fall. What they count is
/// their writers' affair.
inline constexpr std::size_t kTallies = 64;
/// Where they stand in the file `table`, slot for slot: 8 bytes each, in the byte order of the
/// machine.
inline constexpr std::size_t kTalliesAt = 344'128;
inline constexpr std::size_t kTableBytes = kTalliesAt + kSlotsMax * kTallies * 8;

/// A folder of this user in shared memory, or else the runtime directory.
inline bool is_in_shared_memory() { return access("/dev/shm", W_OK | X_OK) == 0; }

/// Where the processes of this user and network namespace meet without having agreed on a place:
/// $ROCKHOPPER_SEGMENT, or a folder in /dev/shm, or where that is missing in the runtime directory.
/// Makes nothing. Returns false with errno set.
inline bool write_segment_path(char* to, std::size_t size) {
  const char* given = std::getenv("ROCKHOPPER_SEGMENT");
  char base[PATH_MAX];
  const auto user = static_cast<unsigned>(getuid());
  int length = 0;
  struct stat network = {};
  if (given != nullptr && *given != '\0') {
    length = std::snprintf(to, size, "%s", given);
  } else if (stat("/proc/self/ns/net", &network) != 0) {
    return false;
  } else if (const auto space = static_cast<unsigned long>(network.st_ino); is_in_shared_memory()) {
    length = std::snprintf(to, size, "/dev/shm/rockhopper-%u/segment-%lu", user, space);
  } else if (write_runtime_path(base, sizeof base); *base != '\0') {
    length = std::snprintf(to, size, "%s/segment-%lu", base, space);
  }
  if (length > 0 && static_cast<std::size_t>(length) < size) return true;
  errno = ENAMETOOLONG;
  return false;
}

}  // namespace rockhopper::stack::segment
