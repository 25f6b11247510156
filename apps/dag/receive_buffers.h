// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "roce/engine.h"

namespace rockhopper::dag {

/// Where messages arrive: a shared receive queue with its buffers and its completion queue.
class ReceiveBuffers {
 public:
  /// `count` messages of up to `bytes` can wait. `engine` must outlive it, and it the targets that
  /// use it.
  [[nodiscard]] static Expected<std::unique_ptr<ReceiveBuffers>> create(roce::Engine& engine,
                                                                        roce::ProtectionDomain pd,
                                                                        std::uint32_t count,
                                                                        std::uint32_t bytes);
  ReceiveBuffers(const ReceiveBuffers&) = delete;
  ReceiveBuffers& operator=(const ReceiveBuffers&) = delete;
  ~ReceiveBuffers();

  [[nodiscard]] roce::SharedReceiveQueue* srq() const { return srq_; }
  [[nodiscard]] roce::CompletionQueue* cq() const { return cq_.get(); }

  /// Calls `take` with the bytes of each message, or none for a receive that has failed, and posts
  /// the buffer again. True if there was any.
  template <typename Take>
  bool poll(const Take& take) {
    std::array<roce::Completion, 16> completions;
    const std::size_t count = cq_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      const auto buffer = static_cast<std::uint32_t>(completions[i].wr_id);
      const bool good = completions[i].status == roce::WcStatus::success;
      take(std::span<const std::byte>(bytes_of(buffer), good ? completions[i].byte_len : 0));
      post(buffer);
    }
    return count > 0;
  }

 private:
  ReceiveBuffers(roce::Engine& engine, std::uint32_t bytes)
      : engine_(engine), buffer_bytes_(bytes) {}
  [[nodiscard]] std::byte* bytes_of(std::uint32_t buffer) {
    return bytes_.data() + std::size_t{buffer} * buffer_bytes_;
  }
  void post(std::uint32_t buffer);

  roce::Engine& engine_;
  std::uint32_t buffer_bytes_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  roce::SharedReceiveQueue* srq_ = nullptr;
  std::vector<std::byte> bytes_;
  roce::MemoryKey key_{};
};

}  // namespace rockhopper::dag
