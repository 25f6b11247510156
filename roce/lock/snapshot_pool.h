// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <boost/intrusive/list.hpp>

namespace rockhopper::roce::lock {

/// What READs under a lock have read, so that an answer that is asked for again is the same, though
/// the lock is long free (LK-23). Of a fixed size: the oldest that have been answered once make way
/// for new ones. Whoever asks for those again gets no answer, and never another one.
class SnapshotPool {
 public:
  static constexpr std::uint32_t kChunkBytes = 4096;

  /// Names a snapshot for ever, also when it is gone; a default one names none.
  struct Handle {
    std::uint32_t index = 0;
    std::uint32_t stamp = 0;
    [[nodiscard]] bool exists() const { return stamp != 0; }
  };

  explicit SnapshotPool(std::size_t bytes);
  SnapshotPool(const SnapshotPool&) = delete;
  SnapshotPool& operator=(const SnapshotPool&) = delete;

  /// Copies `length` bytes, at least 1. One that does not exist: there is no room.
  [[nodiscard]] Handle take(const std::byte* data, std::uint32_t length);
  /// Bytes [offset, ...) up to the next multiple of kChunkBytes; null: it is gone.
  [[nodiscard]] const std::byte* at(Handle handle, std::uint32_t offset) const;
  /// It has been sent in full once, and may make way.
  void set_answered(Handle handle);
  /// No effect on one that is gone.
  void release(Handle handle);

  [[nodiscard]] std::size_t free_chunks() const { return free_.size(); }

 private:
  /// One for each chunk; what is not `next` means something in the first of a snapshot.
  struct Chunk : boost::intrusive::list_base_hook<> {
    std::uint32_t next = 0;   ///< index of the next chunk
    std::uint32_t count = 0;  ///< of chunks
    std::uint32_t stamp = 0;
    bool used = false;
  };

  [[nodiscard]] bool holds(Handle handle) const;
  void free(std::uint32_t first);

  std::unique_ptr<std::byte[]> memory_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> free_;
  boost::intrusive::list<Chunk> answered_;  ///< first chunks, the oldest answer first
};

}  // namespace rockhopper::roce::lock
