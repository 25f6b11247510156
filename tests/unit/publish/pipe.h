// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <string_view>

#include <gtest/gtest.h>
#include <unistd.h>

#include "apps/common/tcp.h"

namespace rockhopper::apps::publish {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    reading = FileDescriptor(ends[0]);
    writing = FileDescriptor(ends[1]);
  }
  void write(std::string_view bytes) const {
    EXPECT_EQ(::write(writing.get(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }
  void close_writing() { const FileDescriptor closed = std::move(writing); }
  void close_reading() { const FileDescriptor closed = std::move(reading); }

  FileDescriptor reading;
  FileDescriptor writing;
};

/// While it lives, `fd` is what is given to it.
class Replaced {
 public:
  Replaced(int fd, int by) : fd_(fd), saved_(::dup(fd)) { EXPECT_EQ(::dup2(by, fd), fd); }
  ~Replaced() { (void)::dup2(saved_.get(), fd_); }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  int fd_;
  FileDescriptor saved_;
};

}  // namespace rockhopper::apps::publish
