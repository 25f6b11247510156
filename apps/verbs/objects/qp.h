// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <infiniband/verbs.h>

#include "apps/verbs/objects/acknowledged.h"
#include "apps/verbs/objects/domain.h"
#include "apps/verbs/objects/extended_qp.h"
#include "apps/verbs/objects/object.h"
#include "apps/verbs/objects/send_batch.h"
#include "roce/queue_pair.h"

namespace rockhopper::verbs {

class Xrcd;

/// The engine's queue pair, which ends with the last handle. Made and ended in a Section.
class SharedQueuePair {
 public:
  SharedQueuePair(roce::Engine& engine, roce::QueuePair& queue_pair)
      : engine_(engine), queue_pair_(queue_pair) {}
  SharedQueuePair(const SharedQueuePair&) = delete;
  SharedQueuePair& operator=(const SharedQueuePair&) = delete;
  ~SharedQueuePair() { engine_.destroy_qp(&queue_pair_); }
  [[nodiscard]] roce::QueuePair& queue_pair() { return queue_pair_; }
  /// The local ACK timeout that the program has asked for; the engine's is longer.
  [[nodiscard]] std::uint8_t timeout() const { return timeout_; }
  void note_timeout(std::uint8_t timeout) { timeout_ = timeout; }

 private:
  roce::Engine& engine_;
  roce::QueuePair& queue_pair_;
  std::uint8_t timeout_ = 0;
};

/// A handle of a queue pair; those of XRC targets are several when ibv_open_qp made some of them.
class Qp final : public ExtendedQp, public Object {
 public:
  static constexpr Kind kKind = Kind::queue_pair;

  /// What it is for the program. Objects are this context's, and null where there is none.
  struct Init {
    void* qp_context = nullptr;
    Pd* pd = nullptr;
    ibv_cq* send_cq = nullptr;
    ibv_cq* recv_cq = nullptr;
    ibv_srq* srq = nullptr;
    Xrcd* xrcd = nullptr;
    ibv_qp_type type = IBV_QPT_RC;
    std::shared_ptr<SharedQueuePair> shared{};
  };
  /// In a Section.
  Qp(Context& owner, const Init& init);
  ~Qp() override;
  [[nodiscard]] static Qp* from(ibv_qp* verbs) {
    static_assert(offsetof(ibv_qp_ex, qp_base) == 0);
    return from(reinterpret_cast<ibv_qp_ex*>(verbs));
  }
  [[nodiscard]] static Qp* from(ibv_qp_ex* verbs) {
    return static_cast<Qp*>(static_cast<ExtendedQp*>(verbs));
  }
  [[nodiscard]] ibv_qp* verbs() { return &qp_base; }

  [[nodiscard]] roce::QueuePair& queue_pair() { return shared_->queue_pair(); }
  [[nodiscard]] const std::shared_ptr<SharedQueuePair>& shared() const { return shared_; }
  [[nodiscard]] Acknowledged& async_events() { return async_events_; }
  /// What ibv_wr_* have gathered; null without IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.
  [[nodiscard]] SendBatch* batch() { return batch_.get(); }
  void make_batch();
  /// In a Section: the state that programs see is the engine's. As in rdma-core only where they
  /// have asked for it or changed it: UCX asserts it before each post.
  void show_state();
  /// In a Section: lists it as it is now.
  void list();
  /// In a Section: requests have been posted to it.
  void on_posted();

 private:
  void release() override;

  std::shared_ptr<SharedQueuePair> shared_;
  Xrcd* const xrcd_;
  Acknowledged async_events_;
  PdUser user_;
  std::unique_ptr<SendBatch> batch_;
};

// Verbs.
[[nodiscard]] ibv_qp* create_qp(ibv_pd* verbs, ibv_qp_init_attr* init);
[[nodiscard]] ibv_qp* create_qp_ex(ibv_context* verbs, ibv_qp_init_attr_ex* init);
[[nodiscard]] ibv_qp* open_qp(ibv_context* verbs, ibv_qp_open_attr* attributes);
[[nodiscard]] ibv_qp_ex* qp_to_qp_ex(ibv_qp* verbs);
[[nodiscard]] int destroy_qp(ibv_qp* verbs);
[[nodiscard]] int attach_mcast(ibv_qp* verbs, const ibv_gid* gid, std::uint16_t lid);
[[nodiscard]] int detach_mcast(ibv_qp* verbs, const ibv_gid* gid, std::uint16_t lid);
[[nodiscard]] int query_ece(ibv_qp* verbs, ibv_ece* ece);
[[nodiscard]] int set_ece(ibv_qp* verbs, ibv_ece* ece);

}  // namespace rockhopper::verbs
