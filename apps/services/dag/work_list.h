// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "roce/completion_queue.h"
#include "roce/work_request.h"

namespace rockhopper::dag {

/// A request to the transport, of an operation.
struct Work {
  roce::WrOpcode opcode = roce::WrOpcode::rdma_read;
  std::byte* local = nullptr;
  std::uint32_t length = 0;
  std::uint64_t remote = 0;
  roce::MemoryKey rkey{};
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  roce::WcStatus status = roce::WcStatus::success;

  /// The connection was lost: it has been executed or it has not.
  [[nodiscard]] bool is_unknown() const { return status == roce::WcStatus::outcome_unknown; }
};

/// What an operation asks of the transport together: it is posted in that order, as there is room,
/// and completes in any.
///
///     0 <= outstanding_ <= posted_ <= size() <= kMax
class WorkList {
 public:
  static constexpr std::size_t kMax = 8;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] const Work& operator[](std::size_t index) const {
    assert(index < size_);
    return works_[index];
  }
  [[nodiscard]] const Work& back() const { return (*this)[size_ - std::size_t{1}]; }
  /// Something has been posted and is not complete.
  [[nodiscard]] bool is_outstanding() const { return outstanding_ > 0; }
  [[nodiscard]] bool is_posted() const { return posted_ == size_; }
  /// Returns the index of what is to be posted next. Requires that not all is posted.
  [[nodiscard]] std::size_t next() const {
    assert(!is_posted());
    return posted_;
  }

  /// Requires that nothing is outstanding.
  void clear() {
    assert(!is_outstanding());
    size_ = posted_ = 0;
  }
  Work& add(const Work& work) {
    assert(size_ < kMax);
    return works_[size_++] = work;
  }
  /// Makes room for another one in place of the last one, if there is none. Requires that nothing
  /// is outstanding.
  void make_room() {
    assert(!is_outstanding());
    if (size_ == kMax) posted_ = --size_;
  }
  /// Has everything posted once more. Requires that nothing is outstanding.
  void repeat() {
    assert(!is_outstanding());
    posted_ = 0;
  }
  /// What has not been posted never will be.
  void give_up() { posted_ = size_; }
  /// next() has been posted.
  void on_posted() {
    assert(!is_posted());
    ++posted_;
    ++outstanding_;
  }
  void on_complete(std::size_t index, roce::WcStatus status) {
    assert(outstanding_ > 0 && index < posted_);
    works_[index].status = status;
    --outstanding_;
  }

 private:
  std::array<Work, kMax> works_{};
  std::uint8_t size_ = 0;
  std::uint8_t posted_ = 0;       ///< from the first one on
  std::uint8_t outstanding_ = 0;  ///< of these
};

}  // namespace rockhopper::dag
