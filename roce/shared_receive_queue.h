// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "roce/completion_queue.h"
#include "roce/types.h"
#include "roce/work_queue.h"
#include "roce/work_request.h"
#include "stack/error.h"

namespace rockhopper::roce {

class Engine;

/// Attributes of a shared receive queue, as ibv_srq_attr.
struct SrqAttributes {
  std::uint32_t max_wr = 64;  ///< 1 to kMaxSrqWr
  std::uint32_t max_sge = 1;  ///< 1 to kMaxSge; fixed at creation
  /// Fewer waiting requests than this raise srq_limit_reached, once; then it is 0 again. Creation
  /// ignores it.
  std::uint32_t srq_limit = 0;
};

/// What modify() can set; bit values as in enum ibv_srq_attr_mask.
enum SrqAttributeMask : std::uint32_t {
  kSrqMaxWr = 1u << 0,
  kSrqLimit = 1u << 1,
};

inline constexpr std::uint32_t kMaxSrqWr = 1u << 16;
/// SRQs of an engine.
inline constexpr std::uint32_t kMaxSrq = 1u << 16;

/// What an SRQ is made with, as ibv_srq_init_attr.
struct SrqInit {
  /// That of the buffers; may be another than the queue pairs'. With XRC, that of all that peers
  /// name too.
  ProtectionDomain pd;
  SrqAttributes attributes;
  XrcDomain xrcd{};               ///< not none: an SRQ of XRC, for the targets of this domain,
  CompletionQueue* cq = nullptr;  ///< and where its receives complete; must outlive it
};

/// Receive requests that queue pairs share (IBTA vol. 1, 10.2.9). A queue pair takes the oldest
/// when the first packet of a message arrives; from then on the request is the queue pair's, and
/// completes in its completion queue. Owned by the engine that made it; belongs to its thread.
class SharedReceiveQueue {
 public:
  SharedReceiveQueue(const SharedReceiveQueue&) = delete;
  SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;

  /// 24 bits, unpredictable. With XRC, what the peer says to address it (ibv_get_srq_num).
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] ProtectionDomain pd() const { return pd_; }
  [[nodiscard]] XrcDomain xrcd() const { return xrcd_; }
  [[nodiscard]] CompletionQueue* cq() const { return cq_; }

  /// As ibv_modify_srq: all or nothing. max_wr cannot be less than the requests that wait. A limit
  /// that is not reached when it is set raises its event at once.
  [[nodiscard]] Expected<void> modify(const SrqAttributes& attributes, std::uint32_t mask);
  /// As ibv_query_srq.
  [[nodiscard]] SrqAttributes query() const;
  /// As ibv_post_srq_recv for one request.
  [[nodiscard]] PostResult post_recv(const RecvWr& wr);
  /// Requests that wait.
  [[nodiscard]] std::size_t depth() const { return queue_.size(); }

  // For the engine and its queue pairs.
  SharedReceiveQueue(Engine& engine, std::uint32_t number, const SrqInit& init);
  /// Returns the next request; null if none waits.
  [[nodiscard]] const RecvWqe* front() const { return queue_.empty() ? nullptr : &queue_.front(); }
  /// Moves the next request to `to`, which is empty. Returns false if none waits.
  [[nodiscard]] bool take(RecvQueue& to);
  /// Queue pairs that use it are `change` more.
  void count_users(int change) { users_ += static_cast<std::uint32_t>(change); }
  [[nodiscard]] std::uint32_t users() const { return users_; }

 private:
  void check_limit();

  Engine& engine_;
  std::uint32_t number_;
  ProtectionDomain pd_;
  XrcDomain xrcd_;
  CompletionQueue* cq_;
  RecvQueue queue_;
  std::uint32_t limit_ = 0;
  std::uint32_t users_ = 0;
};

}  // namespace rockhopper::roce
