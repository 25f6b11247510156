// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>

/// What was on the wire, from a capture: independent of who believes to have received what.
namespace rockhopper::test {

/// A file for a capture, gone at the end.
class CaptureFile {
 public:
  CaptureFile();
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;
  ~CaptureFile();
  [[nodiscard]] std::string path() const { return folder_ / "capture.pcapng"; }

 private:
  std::filesystem::path folder_;
};

struct CapturedFrame {
  std::uint64_t time_ns = 0;
  std::span<const std::uint8_t> bytes;
};
/// Calls `take` with each frame of a capture that can be read to its end.
void for_each_frame(const std::string& path, const std::function<void(const CapturedFrame&)>& take);

/// Bytes that nobody but some may get: of random content, so that eight of them in a row tell.
class Secrets {
 public:
  void add(std::span<const std::byte> bytes);
  /// Whether any eight bytes of what was added are in these.
  [[nodiscard]] bool are_in(std::span<const std::uint8_t> bytes) const;
  [[nodiscard]] std::size_t size() const { return windows_.size(); }

 private:
  static constexpr unsigned kFilterBits = 20;
  std::unordered_set<std::uint64_t> windows_;
  std::unique_ptr<std::bitset<1u << kFilterBits>> filter_ =
      std::make_unique<std::bitset<1u << kFilterBits>>();
};

}  // namespace rockhopper::test
