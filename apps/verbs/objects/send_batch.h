// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/verbs/node/engine_lock.h"
#include "roce/queue_pair.h"
#include "roce/work_request.h"

namespace rockhopper::verbs {

/// Send requests that a thread gathers between ibv_wr_start() and ibv_wr_complete(), with the bytes
/// of those that are inline. They are posted together, or none of them if one is wrong by itself or
/// there is no room for all.
class SendBatch {
 public:
  /// What each request may have.
  struct Limits {
    std::uint32_t elements = 0;
    std::uint32_t inline_bytes = 0;
  };
  explicit SendBatch(const Limits& limits) : limits_(limits) {}
  SendBatch(const SendBatch&) = delete;
  SendBatch& operator=(const SendBatch&) = delete;

  /// Waits until no other thread gathers.
  void begin();
  /// A further request; what follows is about it, until the next.
  [[nodiscard]] roce::SendWr& add(roce::WrOpcode opcode, std::uint64_t wr_id,
                                  std::uint32_t send_flags);
  /// The request in hand. Requires that there is one.
  [[nodiscard]] roce::SendWr& current() { return requests_.back().wr; }
  [[nodiscard]] bool empty() const { return requests_.empty(); }
  void set_elements(std::span<const roce::Sge> list);
  /// The program's bytes, which become the request's, behind those that it has.
  void begin_inline();
  void append_inline(const void* bytes, std::size_t length);
  /// The request in hand cannot be posted.
  void refuse(int error) {
    if (error_ == 0) error_ = error;
  }
  /// Posts all, in a Section; returns an errno. end() is still to be called.
  [[nodiscard]] int post(roce::QueuePair& qp);
  /// Another thread may gather.
  void end() { lock_.unlock(); }

 private:
  struct Request {
    roce::SendWr wr{};
    std::size_t first = 0;  ///< element, or byte of an inline one
    std::size_t count = 0;
    bool is_inline = false;
  };

  [[nodiscard]] roce::PostResult post_one(roce::QueuePair& qp, Request& request);

  const Limits limits_;
  EngineLock lock_;
  std::vector<Request> requests_;
  std::vector<roce::Sge> elements_;
  std::vector<std::byte> bytes_;
  int error_ = 0;
};

}  // namespace rockhopper::verbs
