// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

#include "apps/verbs/objects/acknowledged.h"
#include "apps/verbs/objects/domain.h"
#include "apps/verbs/objects/object.h"
#include "roce/shared_receive_queue.h"

namespace rockhopper::verbs {

class Xrcd;

/// A shared receive queue, also one of XRC.
class Srq final : public ibv_srq, public Object {
 public:
  static constexpr Kind kKind = Kind::shared_receive_queue;

  /// In a Section. `queue` is the engine's. `xrcd` is null but with XRC.
  Srq(Pd& owner, roce::SharedReceiveQueue& queue, void* owner_context, Xrcd* xrcd);
  ~Srq() override;
  [[nodiscard]] static Srq* from(ibv_srq* verbs) { return static_cast<Srq*>(verbs); }

  [[nodiscard]] roce::SharedReceiveQueue& queue() { return queue_; }
  [[nodiscard]] Acknowledged& async_events() { return async_events_; }

 private:
  void release() override;

  roce::SharedReceiveQueue& queue_;
  Xrcd* const xrcd_;
  Acknowledged async_events_;
  PdUser user_;
};

// Verbs.
[[nodiscard]] ibv_srq* create_srq(ibv_pd* verbs, ibv_srq_init_attr* init);
[[nodiscard]] ibv_srq* create_srq_ex(ibv_context* verbs, ibv_srq_init_attr_ex* init);
[[nodiscard]] int modify_srq(ibv_srq* verbs, ibv_srq_attr* attributes, int mask);
[[nodiscard]] int query_srq(ibv_srq* verbs, ibv_srq_attr* attributes);
[[nodiscard]] int get_srq_num(ibv_srq* verbs, std::uint32_t* number);
[[nodiscard]] int destroy_srq(ibv_srq* verbs);

}  // namespace rockhopper::verbs
