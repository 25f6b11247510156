// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/byte_input.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rockhopper::apps::publish {
namespace {

Error io_error(const std::string& name) {
  return {ErrorCode::io, fmt::format("{} cannot be read: {}", name, std::strerror(errno))};
}

}  // namespace

Expected<ByteInput> ByteInput::open(const std::string& path, bool follow) {
  ByteInput input;
  input.path_ = path;
  input.follow_ = follow;
  input.name_ = path == "-" ? "standard input" : path;
  ROCKHOPPER_TRY(input.open_file());
  return input;
}

Expected<void> ByteInput::open_file() {
  // What standard input is remains open for others; a FIFO must not make us wait for its writer.
  FileDescriptor file(path_ == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                   : ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    return tl::make_unexpected(io_error(name_));
  }
  if (S_ISDIR(status.st_mode)) return fail(ErrorCode::io, "{} is a folder", name_);
  if (follow_ && (!S_ISREG(status.st_mode) || path_ == "-")) {
    return fail(ErrorCode::invalid_argument, "{} cannot be followed: only files can", name_);
  }
  file_ = std::move(file);
  regular_ = S_ISREG(status.st_mode);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  offset_ = 0;
  return {};
}

void ByteInput::make_room() {
  if (begin_ > 0) {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  // Twice as much each time, so that a long message is not copied for each of its chunks.
  if (buffer_.size() < end_ + kChunkBytes) {
    buffer_.resize(std::max(2 * buffer_.size(), end_ + kChunkBytes));
  }
}

Expected<ByteInput::Read> ByteInput::read(std::uint64_t now_ns) {
  if (now_ns < next_look_ns_) return Read::nothing;
  if (!regular_) {
    // Not by O_NONBLOCK, which whoever has the same terminal or pipe would have, too.
    pollfd item{file_.get(), POLLIN, 0};
    if (::poll(&item, 1, 0) <= 0) return Read::nothing;
  }
  make_room();
  const ssize_t got = ::read(file_.get(), buffer_.data() + end_, buffer_.size() - end_);
  if (got > 0) {
    seen_another_ = false;
    end_ += static_cast<std::size_t>(got);
    offset_ += got;
    next_look_ns_ = 0;
    return Read::bytes;
  }
  if (got == 0) return follow_ ? look(now_ns) : Read::end;
  if (errno == EAGAIN || errno == EINTR) return Read::nothing;
  return tl::make_unexpected(io_error(name_));
}

Expected<ByteInput::Read> ByteInput::look(std::uint64_t now_ns) {
  next_look_ns_ = now_ns + kFollowNs;
  struct stat own = {};
  struct stat named = {};
  if (::fstat(file_.get(), &own) != 0) return tl::make_unexpected(io_error(name_));
  if (own.st_size < offset_) {
    if (::lseek(file_.get(), 0, SEEK_SET) != 0) return tl::make_unexpected(io_error(name_));
    offset_ = 0;
    ++truncations_;
    next_look_ns_ = 0;
    return Read::restarted;
  }
  const bool another = own.st_size == offset_ && ::stat(path_.c_str(), &named) == 0 &&
                       (named.st_dev != device_ || named.st_ino != inode_);
  // Whoever writes may go on with the old file for a moment.
  if (!std::exchange(seen_another_, another) || !another) return Read::nothing;
  seen_another_ = false;
  if (!open_file()) return Read::nothing;  // gone already, or no file: later, perhaps
  ++replacements_;
  next_look_ns_ = 0;
  return Read::restarted;
}

}  // namespace rockhopper::apps::publish
