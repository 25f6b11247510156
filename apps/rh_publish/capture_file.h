// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "stack/error.h"

struct gzFile_s;

namespace rockhopper::apps::publish {

/// A capture's bytes as libpcap takes them: unpacked if the file is compressed (gzip), and with
/// interfaces that are alike. libpcap refuses a pcapng file whose interfaces differ in link type or
/// snap length, which mergecap writes and tshark reads; the bytes of a packet are the same in any
/// case. All else goes through as it is, damaged or not.
class CaptureFile {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<CaptureFile>> open(const std::string& path);
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;
  ~CaptureFile() = default;

  /// A stream of them, for one reader, who closes it. The object must outlive it.
  [[nodiscard]] std::FILE* stream();
  /// Why the compressed bytes cannot be unpacked; empty: they can.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  struct Closer {
    void operator()(gzFile_s* file) const;
  };
  using File = std::unique_ptr<gzFile_s, Closer>;

  explicit CaptureFile(File file) : file_(std::move(file)) {}
  /// As read(): bytes, 0 at the end, -1 after an error.
  [[nodiscard]] long read(char* to, std::size_t size);
  /// Reads the beginning of the next block into head_, and changes what has to be. Returns false
  /// after an error.
  [[nodiscard]] bool begin_block();
  [[nodiscard]] bool fill_head(std::size_t size);
  [[nodiscard]] std::uint32_t word_at(std::size_t offset) const;
  [[nodiscard]] long unpack(void* to, std::size_t size);

  File file_;
  std::string error_;
  bool is_checked_ = false;                 ///< whether it has blocks
  bool has_blocks_ = false;                 ///< pcapng, and as far as it is followed
  bool is_other_order_ = false;             ///< of bytes, in this section
  std::optional<std::uint16_t> link_type_;  ///< the first interface's, in the file's order of bytes
  std::array<char, 16> head_{};             ///< of the block, to be handed out
  std::size_t head_size_ = 0;
  std::size_t head_taken_ = 0;
  std::uint64_t rest_ = 0;  ///< of the block behind it
};

}  // namespace rockhopper::apps::publish
