// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>

#include <boost/intrusive/list.hpp>
#include <infiniband/verbs.h>

#include "apps/verbs/objects/cq.h"
#include "apps/verbs/objects/event_units.h"
#include "apps/verbs/objects/object.h"

namespace rockhopper::verbs {

/// A completion channel: completion queues that have events, the one that has waited longest first.
class Channel final : public ibv_comp_channel, public Object {
 public:
  static constexpr Kind kKind = Kind::channel;

  /// In a Section.
  Channel(Context& owner, std::unique_ptr<EventUnits> units);
  [[nodiscard]] static Channel* from(ibv_comp_channel* verbs) {
    return static_cast<Channel*>(verbs);
  }

  // In a Section.
  /// Completion queues that use it are `change` more.
  void count_users(int change) { refcnt += change; }
  [[nodiscard]] bool is_used() const { return refcnt != 0; }
  void raise(Cq& cq);
  /// The queue's events that nobody has taken are gone.
  void withdraw(Cq& cq);
  /// The queue whose event is next, which is taken; null if there is none.
  [[nodiscard]] Cq* take();

  [[nodiscard]] EventUnits& units() { return *units_; }

 private:
  std::unique_ptr<EventUnits> units_;
  boost::intrusive::list<Cq, boost::intrusive::base_hook<ChannelHook>,
                         boost::intrusive::constant_time_size<false>>
      raised_;
};

// Verbs.
[[nodiscard]] ibv_comp_channel* create_comp_channel(ibv_context* verbs);
[[nodiscard]] int destroy_comp_channel(ibv_comp_channel* verbs);
[[nodiscard]] int get_cq_event(ibv_comp_channel* verbs, ibv_cq** cq, void** cq_context);
void ack_cq_events(ibv_cq* verbs, unsigned count);

}  // namespace rockhopper::verbs
