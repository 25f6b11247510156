// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <string>

#include "apps/common/tcp.h"
#include "stack/error.h"

namespace rockhopper::apps::subscribe {

/// Bytes on their way into a file or to standard output. What a pipe does not take yet waits here,
/// so that nobody has to wait for its reader.
class OutputStream {
 public:
  /// What may wait before is_full() says so.
  static constexpr std::size_t kFullBytes = 1 << 20;

  [[nodiscard]] static OutputStream standard_output();
  /// A new file, or one that is overwritten.
  [[nodiscard]] static Expected<OutputStream> create(const std::string& path);
  /// Takes over a descriptor; `name` is for people.
  OutputStream(FileDescriptor file, std::string name);

  /// To append to.
  [[nodiscard]] std::string& buffer() { return buffer_; }
  /// Nothing should be appended before flush() has made room.
  [[nodiscard]] bool is_full() const { return waiting() >= kFullBytes; }
  [[nodiscard]] std::size_t waiting() const { return buffer_.size() - written_; }

  /// Writes what can be written without waiting. An error is one line: a full disk, a closed pipe.
  [[nodiscard]] Expected<void> flush();

 private:
  [[nodiscard]] bool may_block_now() const;

  FileDescriptor file_;
  std::string name_;
  bool regular_ = false;
  std::string buffer_;
  std::size_t written_ = 0;  ///< of buffer_
};

}  // namespace rockhopper::apps::subscribe
