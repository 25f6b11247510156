// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/succession.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace rockhopper::stack {

Succession::Succession(Descriptor reader, std::string path)
    : reader_(std::move(reader)), path_(std::move(path)) {}

Expected<std::unique_ptr<Succession>> Succession::open(const std::string& path) {
  if (::mkfifo(path.c_str(), S_IRUSR | S_IWUSR) != 0 && errno != EEXIST) {
    return fail(ErrorCode::io, "cannot make {}: {}", path, std::strerror(errno));
  }
  Descriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat found = {};
  if (!reader || ::fstat(reader.fd(), &found) != 0) {
    return fail(ErrorCode::io, "cannot open {}: {}", path, std::strerror(errno));
  }
  if (!S_ISFIFO(found.st_mode)) return fail(ErrorCode::invalid_state, "{} is no FIFO", path);
  return std::unique_ptr<Succession>(new Succession(std::move(reader), path));
}

Expected<bool> Succession::take() {
  if (writer_) return true;
  if (::flock(reader_.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return false;
    return fail(ErrorCode::io, "cannot lock {}: {}", path_, std::strerror(errno));
  }
  writer_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!writer_) return fail(ErrorCode::io, "cannot open {}: {}", path_, std::strerror(errno));
  return true;
}

void Succession::let_go() noexcept {
  reader_.reset();
  writer_.reset();
}

}  // namespace rockhopper::stack
