// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/output_stream.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rockhopper::apps::subscribe {

OutputStream OutputStream::standard_output() {
  return {FileDescriptor(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)), "standard output"};
}

Expected<OutputStream> OutputStream::create(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) {
    return fail(ErrorCode::io, "{} cannot be written: {}", path, std::strerror(errno));
  }
  return OutputStream(std::move(file), path);
}

OutputStream::OutputStream(FileDescriptor file, std::string name)
    : file_(std::move(file)), name_(std::move(name)) {
  struct stat status = {};
  regular_ = ::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode);
}

bool OutputStream::may_block_now() const {
  if (regular_) return false;
  pollfd item{file_.get(), POLLOUT, 0};
  return ::poll(&item, 1, 0) == 0;
}

Expected<void> OutputStream::flush() {
  while (waiting() > 0 && !may_block_now()) {
    // A pipe that is ready has room for PIPE_BUF bytes, and waits if it is given more than it has.
    const std::size_t piece = regular_ ? waiting() : std::min<std::size_t>(waiting(), PIPE_BUF);
    const ssize_t wrote = ::write(file_.get(), buffer_.data() + written_, piece);
    if (wrote >= 0) {
      written_ += static_cast<std::size_t>(wrote);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return fail(ErrorCode::io, "{} cannot be written: {}", name_, std::strerror(errno));
    }
  }
  if (waiting() == 0 || written_ >= kFullBytes) {
    buffer_.erase(0, written_);
    written_ = 0;
  }
  return {};
}

}  // namespace rockhopper::apps::subscribe
