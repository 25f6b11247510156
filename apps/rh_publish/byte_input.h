// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "apps/common/file_descriptor.h"
#include "stack/error.h"

namespace rockhopper::apps::publish {

/// The bytes of a file, or of standard input, in order and without waiting.
class ByteInput {
 public:
  /// How often a file that is followed is asked for more.
  static constexpr std::uint64_t kFollowNs = 50'000'000;

  enum class Read : std::uint8_t {
    bytes,      ///< some were added to bytes()
    nothing,    ///< for now
    end,        ///< there are no more
    restarted,  ///< the file that is followed begins anew: what is in bytes() has no continuation
  };

  /// "-" is standard input, which cannot be followed. `follow`: at its end a file is not over, but
  /// may grow, shrink (it begins anew then) or be replaced by another one of that name.
  [[nodiscard]] static Expected<ByteInput> open(const std::string& path, bool follow);

  /// Asks the system for more.
  [[nodiscard]] Expected<Read> read(std::uint64_t now_ns);
  /// What has been read and not been taken.
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::span(buffer_).subspan(begin_, end_ - begin_);
  }
  /// Takes the first `count` of them.
  void take(std::size_t count) { begin_ += count; }

  [[nodiscard]] const std::string& name() const { return name_; }

  [[nodiscard]] std::uint64_t truncations() const { return truncations_; }
  [[nodiscard]] std::uint64_t replacements() const { return replacements_; }

 private:
  static constexpr std::size_t kChunkBytes = 64 << 10;

  ByteInput() = default;
  [[nodiscard]] Expected<void> open_file();
  void make_room();
  /// At the end of a file that is followed.
  [[nodiscard]] Expected<Read> look(std::uint64_t now_ns);

  std::string path_;
  std::string name_;  ///< for people
  bool follow_ = false;
  bool regular_ = false;
  FileDescriptor file_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool seen_another_ = false;  ///< at the last look the name was another file's
  off_t offset_ = 0;           ///< read so far, of a regular file
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;  ///< of what has not been taken
  std::size_t end_ = 0;    ///< of what has been read
  std::uint64_t next_look_ns_ = 0;
  std::uint64_t truncations_ = 0;
  std::uint64_t replacements_ = 0;
};

}  // namespace rockhopper::apps::publish
