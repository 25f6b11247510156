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

namespace rockhopper::roce {

/// Where messages arrive: a shared receive queue with its buffers and its completion queue.
class ReceiveBuffers {
 public:
  /// `count` messages of up to `bytes` can wait. `engine` must outlive it, and it the queue pairs
  /// and targets that use it.
  [[nodiscard]] static Expected<std::unique_ptr<ReceiveBuffers>> create(Engine& engine,
                                                                        ProtectionDomain pd,
                                                                        std::uint32_t count,
                                                                        std::uint32_t bytes);
  ReceiveBuffers(const ReceiveBuffers&) = delete;
  ReceiveBuffers& operator=(const ReceiveBuffers&) = delete;
  ~ReceiveBuffers();

  [[nodiscard]] SharedReceiveQueue* srq() const { return srq_; }
  [[nodiscard]] CompletionQueue* cq() const { return cq_.get(); }

  /// Calls `take` with each completion and its bytes, none if it has failed, and posts the buffer
  /// again. True if there was any.
  template <typename Take>
  bool poll(const Take& take) {
    std::array<Completion, 16> completions;
    const std::size_t count = cq_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      const auto buffer = static_cast<std::uint32_t>(completions[i].wr_id);
      const bool good = completions[i].status == WcStatus::success;
      take(completions[i],
           std::span<const std::byte>(bytes_of(buffer), good ? completions[i].byte_len : 0));
      post(buffer);
    }
    return count > 0;
  }

 private:
  ReceiveBuffers(Engine& engine, std::uint32_t bytes) : engine_(engine), buffer_bytes_(bytes) {}
  [[nodiscard]] std::byte* bytes_of(std::uint32_t buffer) {
    return bytes_.data() + std::size_t{buffer} * buffer_bytes_;
  }
  void post(std::uint32_t buffer);

  Engine& engine_;
  std::uint32_t buffer_bytes_;
  std::unique_ptr<CompletionQueue> cq_;
  SharedReceiveQueue* srq_ = nullptr;
  std::vector<std::byte> bytes_;
  MemoryKey key_{};
};

}  // namespace rockhopper::roce
