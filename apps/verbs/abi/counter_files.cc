// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

// Files of /sys whose contents are the counters of all processes of the segment. What a program
// gets is a file in memory, named after the counter, with the number as it was; it can only be
// read.
#include "apps/verbs/abi/counter_files.h"

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rockhopper::verbs {
namespace {

using namespace stack::segment;

/// The kernel calls such a file "/memfd:rh-counter:counters/port_xmit_data (deleted)".
constexpr char kMemoryName[] = "rh-counter:";
constexpr char kMemoryPrefix[] = "/memfd:rh-counter:";
constexpr char kGone[] = " (deleted)";
constexpr char kPort[] = "/ports/1/";
constexpr char kClass[] = "/sys/class/infiniband/";
/// Slots whose tallies are read at once.
constexpr std::size_t kSlotsRead = 8;

/// A bit for each descriptor that shows a counter, or has done so: of most programs for none.
constexpr int kDescriptorsMax = 1024;
std::uint64_t shown_by[kDescriptorsMax / 64];

bool may_show(int fd) {
  return fd >= 0 && fd < kDescriptorsMax &&
         (__atomic_load_n(&shown_by[fd / 64], __ATOMIC_RELAXED) >> (fd % 64) & 1) != 0;
}

void note(int fd, bool shows) {
  if (fd >= kDescriptorsMax) return;
  const std::uint64_t bit = std::uint64_t{1} << (fd % 64);
  if (shows) {
    __atomic_fetch_or(&shown_by[fd / 64], bit, __ATOMIC_RELAXED);
  } else {
    __atomic_fetch_and(&shown_by[fd / 64], ~bit, __ATOMIC_RELAXED);
  }
}

const CounterFile* file_at(const char* path) {
  for (const CounterFile& file : kCounterFiles) {
    if (std::strcmp(file.path, path) == 0) return &file;
  }
  return nullptr;
}

/// The counter's name, behind its folder.
const char* name_of(const CounterFile& file) {
  constexpr std::size_t kPlain = sizeof "counters/" - 1;
  constexpr std::size_t kHardware = sizeof "hw_counters/" - 1;
  return file.path + (file.path[0] == 'c' ? kPlain : kHardware);
}

/// Whether the path may be that of a counter, as it is written: nearly none is. Programs open what
/// realpath() gives them, too, and files of a folder that they stand in.
bool may_be_counter(const char* path) {
  constexpr char kFolder[] = "counters";
  constexpr std::ptrdiff_t kSize = sizeof kFolder - 1;
  const char* slash = std::strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  const bool in_folder = slash == nullptr || (slash > path && slash[-1] == '.') ||
                         (slash - path >= kSize && std::memcmp(slash - kSize, kFolder, kSize) == 0);
  if (!in_folder) return false;
  for (const CounterFile& file : kCounterFiles) {
    if (std::strcmp(name_of(file), name) == 0) return true;
  }
  return false;
}

/// Writes the path by which /proc knows the descriptor itself.
void write_link(int fd, char* to, std::size_t size) {
  std::snprintf(to, size, "/proc/self/fd/%d", fd);
}

/// The path of what is open there; false if it cannot be told.
template <std::size_t kSize>
bool read_path(int fd, char (&path)[kSize]) {
  char link[32];
  write_link(fd, link, sizeof link);
  const ssize_t length = readlink(link, path, kSize - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  return true;
}

/// The counter that a file of the tree stands for; null if it is none. Folders above the tree's own
/// may be links.
const CounterFile* counter_in_tree(const char* path, const char* tree) {
  const char* name = std::strrchr(tree, '/');
  const char* found = name == nullptr ? nullptr : std::strstr(path, name);
  if (found == nullptr) return nullptr;
  const char* device = found + std::strlen(name);
  if (std::strncmp(device, kClass, sizeof kClass - 1) != 0) return nullptr;
  const char* port = std::strchr(device + sizeof kClass - 1, '/');
  if (port == nullptr || std::strncmp(port, kPort, sizeof kPort - 1) != 0) return nullptr;
  return file_at(port + sizeof kPort - 1);
}

/// The counter that a file in memory shows; null if it is another file.
const CounterFile* counter_in_memory(char* path) {
  const std::size_t length = std::strlen(path);
  constexpr std::size_t kTail = sizeof kGone - 1;
  if (std::strncmp(path, kMemoryPrefix, sizeof kMemoryPrefix - 1) != 0 || length < kTail ||
      std::strcmp(path + length - kTail, kGone) != 0) {
    return nullptr;
  }
  path[length - kTail] = '\0';
  return file_at(path + sizeof kMemoryPrefix - 1);
}

/// Adds all slots' tallies of these terms; none where there is no segment of this version.
std::uint64_t sum_of(const CounterFile& counter) {
  char path[PATH_MAX];
  if (counter.terms[0] == Tally::none || !write_segment_path(path, sizeof path)) return 0;
  const std::size_t length = std::strlen(path);
  std::snprintf(path + length, sizeof path - length, "/table");  // cut, it leads to nothing
  const int table = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (table < 0) return 0;
  std::uint64_t sum = 0;
  std::uint64_t magic = 0;
  std::uint64_t tallies[kSlotsRead][kTallies];
  bool good = pread(table, &magic, sizeof magic, 0) == sizeof magic && magic == kMagic;
  for (std::size_t slot = 0; good && slot < kSlotsMax; slot += kSlotsRead) {
    const std::size_t at = kTalliesAt + slot * sizeof tallies[0];
    good = pread(table, tallies, sizeof tallies, static_cast<off_t>(at)) == sizeof tallies;
    for (const auto& member : tallies) {
      for (const Tally term : counter.terms) {
        if (good && term != Tally::none) sum += member[static_cast<std::size_t>(term)];
      }
    }
  }
  close(table);
  return good ? sum : 0;
}

/// Makes the text of a file in memory that of the counter.
void write_text(int file, const CounterFile& counter) {
  char text[24];
  const int length =
      std::snprintf(text, sizeof text, "%llu\n",
                    static_cast<unsigned long long>(sum_of(counter) / counter.bytes));
  if (pwrite(file, text, static_cast<std::size_t>(length), 0) == length) {
    (void)!ftruncate(file, length);
  }
}

/// Another descriptor of the same file.
int reopen(int file, int flags) {
  char link[32];
  write_link(file, link, sizeof link);
  return open(link, flags | O_CLOEXEC);
}

void replace(int fd, const CounterFile& counter) {
  char name[96];
  std::snprintf(name, sizeof name, "%s%s", kMemoryName, counter.path);
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0) return;
  write_text(file, counter);
  const int readable = reopen(file, O_RDONLY);
  if (readable >= 0) {
    const bool closes = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
    if (dup3(readable, fd, closes ? O_CLOEXEC : 0) == fd) note(fd, true);
    close(readable);
  }
  close(file);
}

}  // namespace

void show_counter(int fd, const char* path, const char* tree) {
  if (fd < 0 || tree[0] == '\0' || !may_be_counter(path)) return;
  const int error = errno;
  char opened[PATH_MAX];
  const int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 && (flags & (O_ACCMODE | O_PATH)) == O_RDONLY && read_path(fd, opened)) {
    if (const CounterFile* counter = counter_in_tree(opened, tree); counter != nullptr) {
      replace(fd, *counter);
    }
  }
  errno = error;
}

void refresh_counter(int fd, std::int64_t offset) {
  if (!may_show(fd)) return;
  const int error = errno;
  char opened[PATH_MAX];
  const CounterFile* counter = read_path(fd, opened) ? counter_in_memory(opened) : nullptr;
  if (counter == nullptr) {
    note(fd, false);  // it is another file by now
  } else if (offset == 0 || (offset < 0 && lseek(fd, 0, SEEK_CUR) == 0)) {
    const int file = reopen(fd, O_WRONLY);
    if (file >= 0) {
      write_text(file, *counter);
      close(file);
    }
  }
  errno = error;
}

}  // namespace rockhopper::verbs
