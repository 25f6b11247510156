// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rockhopper::wire {

/// One way to compute the CRC-32 of Ethernet, with zlib's conventions: that of no bytes is 0, and
/// that of some bytes goes on behind others'.
struct Crc32Kernel {
  std::string_view name;
  bool usable;  ///< this processor, and its operating system, have what it needs
  std::uint32_t (*add)(std::uint32_t crc, const std::uint8_t* bytes, std::size_t length);
  /// As add() of `from`, which is copied to `to` in the same pass. Each byte is read once, so that
  /// the CRC is that of what was copied, also while somebody else writes to `from`. The two ranges
  /// share no byte.
  std::uint32_t (*copy)(std::uint32_t crc, std::uint8_t* to, const std::uint8_t* from,
                        std::size_t length);
};

/// The environment variable that names the kernel to use; not set or empty: the fastest one.
inline constexpr const char* kCrc32Variable = "ROCKHOPPER_CRC";

/// Returns all kernels, the fastest one last. The first is usable anywhere.
[[nodiscard]] std::span<const Crc32Kernel> crc32_kernels();

/// What a value of the variable asks for. `kernel` is null if it cannot be had, and `error` says
/// why, in one line.
struct Crc32Choice {
  const Crc32Kernel* kernel;
  std::string error;
};
[[nodiscard]] Crc32Choice choose_crc32_kernel(std::string_view name);

/// Returns the kernel of this process: what the variable said when it began. The fastest one if
/// that cannot be had, which crc32_error() tells then; it is empty otherwise.
[[nodiscard]] const Crc32Kernel& crc32_kernel();
[[nodiscard]] const std::string& crc32_error();

}  // namespace rockhopper::wire
