// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/output_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/common/signals.h"

namespace rockhopper::apps {
namespace {

constexpr std::array<std::string_view, 4> kStandardOutput{"-", "/dev/stdout", "/dev/fd/1",
                                                          "/proc/self/fd/1"};
constexpr std::chrono::milliseconds kLook{20};

Error cannot_write(const std::string& path) {
  return {ErrorCode::io, fmt::format("{} cannot be written: {}", path, std::strerror(errno))};
}

}  // namespace

bool is_standard_output(std::string_view path) {
  return std::find(kStandardOutput.begin(), kStandardOutput.end(), path) != kStandardOutput.end();
}

Expected<void> refuse_standard_output(std::string_view option, std::string_view path) {
  if (!is_standard_output(path)) return {};
  return fail(ErrorCode::invalid_argument,
              "{} {}: a file for each is written, so standard output cannot be it", option, path);
}

Expected<FileDescriptor> claim_standard_output() {
  static bool is_claimed = false;
  if (std::exchange(is_claimed, true)) {
    return fail(ErrorCode::busy, "standard output cannot be that of two options");
  }
  (void)std::fflush(stdout);
  FileDescriptor file(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!file.valid() || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return tl::make_unexpected(cannot_write("standard output"));
  }
  return file;
}

Expected<FileDescriptor> open_fifo(const std::string& path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0 || !S_ISFIFO(found.st_mode)) return FileDescriptor();
  for (bool said = false;; said = true) {
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    if (file.valid()) {
      // From here on it waits for its reader, as a pipe does.
      (void)::fcntl(file.get(), F_SETFL, O_WRONLY);
      return file;
    }
    if (errno != ENXIO) return tl::make_unexpected(cannot_write(path));
    if (!said) fmt::print(stderr, "waiting for a reader of the FIFO {}\n", path);
    if (stop_requested()) return tl::make_unexpected(interrupted());
    std::this_thread::sleep_for(kLook);
  }
}

Expected<OutputFile> open_output(const std::string& path) {
  ROCKHOPPER_TRY(const auto opened,
                 is_standard_output(path) ? claim_standard_output() : open_fifo(path));
  std::FILE* file = opened.valid() ? ::fdopen(::fcntl(opened.get(), F_DUPFD_CLOEXEC, 0), "w")
                                   : std::fopen(path.c_str(), "we");
  if (file == nullptr) return tl::make_unexpected(cannot_write(path));
  return OutputFile(file);
}

Expected<void> close_output(OutputFile file, const std::string& path) {
  const bool failed_before = std::ferror(file.get()) != 0;
  if (std::fclose(file.release()) == 0 && !failed_before) return {};
  return tl::make_unexpected(cannot_write(path));
}

}  // namespace rockhopper::apps
