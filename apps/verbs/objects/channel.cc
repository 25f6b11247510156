// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/channel.h"

#include <utility>

#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/errors.h"

namespace rockhopper::verbs {

Channel::Channel(Context& owner, std::unique_ptr<EventUnits> units)
    : ibv_comp_channel{}, Object(owner, kKind), units_(std::move(units)) {
  context = owner.verbs();
  fd = units_->fd();
}

void Channel::raise(Cq& cq) {
  cq.count_waiting(1);
  if (!cq.ChannelHook::is_linked()) raised_.push_back(cq);
  units_->add();
}

void Channel::withdraw(Cq& cq) {
  if (!cq.ChannelHook::is_linked()) return;
  cq.ChannelHook::unlink();
  for (; cq.waiting() != 0; cq.count_waiting(-1)) {
    units_->withdraw();
  }
}

Cq* Channel::take() {
  if (raised_.empty()) return nullptr;
  Cq& cq = raised_.front();
  raised_.pop_front();
  cq.count_waiting(-1);
  if (cq.waiting() != 0) raised_.push_back(cq);
  cq.completion_events().give();
  return &cq;
}

ibv_comp_channel* create_comp_channel(ibv_context* verbs) {
  Context* context = Context::from(verbs);
  if (context == nullptr) return refuse(EINVAL);
  auto units = EventUnits::create();
  if (!units) return refuse(EMFILE);
  const Section section(context->node());
  if (!section) return refuse(EIO);
  return new Channel(*context, std::move(*units));
}

int destroy_comp_channel(ibv_comp_channel* verbs) {
  auto* channel = object_of<Channel>(verbs);
  if (channel == nullptr) return EINVAL;
  const Section section(channel->node());
  if (!section) return 0;
  if (channel->is_used()) return EBUSY;
  delete channel;
  return 0;
}

int get_cq_event(ibv_comp_channel* verbs, ibv_cq** cq, void** cq_context) {
  auto* channel = object_of<Channel>(verbs);
  if (channel == nullptr || cq == nullptr || cq_context == nullptr) return refuse(EINVAL);
  while (true) {
    if (const int error = channel->units().take(channel->node().progress()); error != 0) {
      return refuse(error);
    }
    const Section section(channel->node());
    if (!section) return refuse(EIO);
    // Nothing: the queue was destroyed between the unit and this.
    if (Cq* raised = channel->take(); raised != nullptr) {
      *cq = raised->verbs();
      *cq_context = raised->cq_context;
      return 0;
    }
  }
}

void ack_cq_events(ibv_cq* verbs, unsigned count) {
  auto* cq = object_of<Cq>(verbs);
  if (cq != nullptr) cq->completion_events().acknowledge(count);
}

}  // namespace rockhopper::verbs
