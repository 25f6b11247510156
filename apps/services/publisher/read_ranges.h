// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rockhopper::publisher {

/// What a round READs of a ring's records: some pieces, the first one first, that lie behind each
/// other in the buffer. A batch of bytes at most (PB-23).
class ReadRanges {
 public:
  /// Pieces of a round; the last one may be what is between them too.
  static constexpr std::size_t kMax = 14;

  struct Range {
    std::uint64_t position = 0;
    std::uint64_t bytes = 0;
    std::size_t at = 0;  ///< in the buffer for records
    [[nodiscard]] std::uint64_t end() const { return position + bytes; }
  };

  [[nodiscard]] std::span<const Range> all() const { return std::span(ranges_).first(count_); }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// There is room for one more, or for none.
  [[nodiscard]] bool is_nearly_full() const { return count_ + 1 >= kMax; }
  [[nodiscard]] std::uint64_t batch_bytes() const { return batch_bytes_; }

  /// So many bytes at most from now on.
  void set_batch(std::uint64_t bytes) { batch_bytes_ = bytes; }
  /// Nothing is READ.
  void clear() { bytes_ = count_ = 0; }
  /// Adds what is from `begin` on before `end`, as far as the batch goes, and `most`; the range
  /// has no bytes if there is nothing of it.
  Range add(std::uint64_t begin, std::uint64_t end, std::uint64_t most) {
    const std::uint64_t room = batch_bytes_ - std::min<std::uint64_t>(batch_bytes_, bytes_);
    const bool possible = begin < end && count_ < kMax;
    const Range range{.position = begin,
                      .bytes = possible ? std::min({end - begin, room, most}) : 0,
                      .at = bytes_};
    if (range.bytes == 0) return range;
    ranges_[count_++] = range;
    bytes_ += range.bytes;
    return range;
  }

 private:
  std::uint64_t batch_bytes_ = 0;
  std::array<Range, kMax> ranges_{};
  std::size_t count_ = 0;  ///< of ranges_
  std::size_t bytes_ = 0;  ///< of these together
};

}  // namespace rockhopper::publisher
