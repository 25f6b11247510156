// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rockhopper::apps::publish {

/// How messages lie in a stream of bytes.
enum class Framing : std::uint8_t {
  lines,    ///< each ends with LF, which is not part of it; the last one may lack it
  records,  ///< each behind its length, a little endian word of 32 bits
};

inline constexpr std::size_t kRecordLengthBytes = 4;

/// What the first bytes of a stream are.
struct Frame {
  enum class Kind : std::uint8_t {
    whole,
    partial,   ///< more bytes have to come
    too_long,  ///< its payload would be longer than allowed
  };
  Kind kind = Kind::partial;
  std::span<const std::byte> payload{};  ///< of a whole one
  std::size_t taken = 0;                 ///< bytes of a whole one, with all around the payload
  std::uint64_t length = 0;              ///< of the payload, as far as it is known
};

/// Looks at the first frame of `bytes`. Of lines the first `known` bytes have been looked at before
/// and have no end.
[[nodiscard]] Frame first_frame(Framing framing, std::span<const std::byte> bytes,
                                std::size_t known, std::size_t payload_max);

}  // namespace rockhopper::apps::publish
