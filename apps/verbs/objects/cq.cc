// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/cq.h"

#include <algorithm>
#include <utility>

#include "apps/verbs/objects/channel.h"
#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/cq_ex.h"
#include "apps/verbs/objects/device.h"
#include "apps/verbs/objects/errors.h"

namespace rockhopper::verbs {
namespace {

constexpr std::uint64_t kKnownFields = std::uint64_t{IBV_WC_STANDARD_FLAGS} |
                                       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint64_t kTimes =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// Makes a queue; null with errno set if that is not possible.
Cq* make_cq(ibv_context* verbs, std::int64_t cqe, ibv_comp_channel* verbs_channel,
            std::int64_t comp_vector, Cq::Init init) {
  Context* context = Context::from(verbs);
  auto* channel = object_of<Channel>(verbs_channel);
  if (context == nullptr || (channel == nullptr) != (verbs_channel == nullptr) ||
      (channel != nullptr && &channel->owner() != context) || cqe < 1 || cqe > kMaxCqe ||
      comp_vector < 0 || comp_vector >= verbs->num_comp_vectors) {
    return refuse(EINVAL);
  }
  auto queue = roce::CompletionQueue::create(static_cast<std::uint32_t>(cqe));
  if (!queue) return refuse(queue.error());
  init.queue = std::move(*queue);
  init.channel = channel;
  const Section section(context->node());
  if (!section) return refuse(EIO);
  return new Cq(*context, std::move(init));
}

}  // namespace

Cq::Cq(Context& owner, Init init)
    : ibv_cq_ex{},
      Object(owner, kKind),
      queue_(std::move(init.queue)),
      raised_in_(init.channel),
      one_thread_(init.one_thread),
      completion_events_(mutex, cond, comp_events_completed),
      async_events_(mutex, cond, async_events_completed) {
  context = owner.verbs();
  channel = init.channel;
  cq_context = init.cq_context;
  handle = id();
  cqe = static_cast<int>(queue_->capacity());
  pthread_mutex_init(&mutex, nullptr);
  pthread_cond_init(&cond, nullptr);
  if (raised_in_ != nullptr) raised_in_->count_users(1);
  owner.add(*this);
  list();
}

void Cq::list() {
  show({.kind = ResourceKind::completion_queue, .values = {static_cast<std::uint32_t>(cqe)}});
}

Cq::~Cq() {
  pthread_cond_destroy(&cond);
  pthread_mutex_destroy(&mutex);
}

void Cq::end_events() {
  owner().remove(*this);
  queue_->request_notify(roce::Notify::none, nullptr);
  if (raised_in_ != nullptr) raised_in_->withdraw(*this);
}

void Cq::release() {
  end_events();
  if (raised_in_ != nullptr) raised_in_->count_users(-1);
  queue_.reset();
}

Expected<void> Cq::resize(std::uint32_t capacity) {
  poll_lock_.lock();
  auto resized = queue_->resize(capacity);
  if (resized) cqe = static_cast<int>(queue_->capacity());
  poll_lock_.unlock();
  list();
  return resized;
}

void Cq::discard(wire::Qpn qp) {
  poll_lock_.lock();
  queue_->discard(qp);
  told_ = std::min(told_, queue_->pushed());
  poll_lock_.unlock();
}

/// One that waits for any completion goes on to do so (IBTA vol. 1, 11.4.2.2). The specification
/// asks nothing for completions that are there already, and programs poll once more after arming.
/// UCX does not, and would sleep for ever: what has come since the last event, and has not been
/// polled, raises one at once. What that event has told of already does not, as perftest expects a
/// completion for each event.
void Cq::arm(bool solicited_only) {
  if (armed_ != roce::Notify::next) {
    armed_ = solicited_only ? roce::Notify::solicited_only : roce::Notify::next;
  }
  const bool at_once = has_completions() && queue_->pushed() > told_;
  queue_->request_notify(at_once ? roce::Notify::none : armed_, this);
  if (at_once) on_completion_event(*queue_);
}

void Cq::on_completion_event(roce::CompletionQueue& /*cq*/) {
  armed_ = roce::Notify::none;
  told_ = queue_->pushed();
  if (raised_in_ != nullptr) raised_in_->raise(*this);
}

std::size_t Cq::take(std::size_t most, ibv_wc* out) {
  poll_lock_.lock();
  const std::size_t count = queue_->poll(
      most, [&out](const roce::Completion& completion) { convert(completion, *out++); });
  poll_lock_.unlock();
  return count;
}

void Cq::begin_polling() {
  if (!one_thread_) poll_lock_.lock();
}

bool Cq::next(bool patient) {
  if (queue_->poll({&current_, 1}) == 0) {
    if (!patient || !node().progress().turn_of_application()) return false;
    if (queue_->poll({&current_, 1}) == 0) return false;
  }
  if (wants_times_) taken_ns_ = node().clock().now_ns();
  return true;
}

void Cq::end_polling() {
  if (!one_thread_) poll_lock_.unlock();
}

ibv_cq* create_cq(ibv_context* verbs, int cqe, void* cq_context, ibv_comp_channel* channel,
                  int comp_vector) {
  Cq* cq = make_cq(verbs, cqe, channel, comp_vector, {.cq_context = cq_context});
  return cq == nullptr ? nullptr : cq->verbs();
}

ibv_cq_ex* create_cq_ex(ibv_context* verbs, ibv_cq_init_attr_ex* init) {
  if (init == nullptr ||
      (init->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) != 0) {
    return refuse(EINVAL);
  }
  const std::uint32_t flags =
      (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? init->flags : 0;
  if ((init->wc_flags & ~kKnownFields) != 0) return refuse(EOPNOTSUPP);
  if ((flags & ~(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)) != 0) {
    return refuse(EOPNOTSUPP);
  }
  Cq* cq = make_cq(verbs, init->cqe, init->channel, init->comp_vector,
                   {.cq_context = init->cq_context,
                    .one_thread = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0});
  if (cq == nullptr) return nullptr;
  if ((init->wc_flags & kTimes) != 0) cq->want_times();
  set_operations(*cq, init->wc_flags);
  return cq;
}

int resize_cq(ibv_cq* verbs, int cqe) {
  auto* cq = object_of<Cq>(verbs);
  if (cq == nullptr || cqe < 1 || cqe > kMaxCqe) return EINVAL;
  const Section section(cq->node());
  if (!section) return EIO;
  // What has been posted completes first, where that needs no peer: it has to fit, too.
  cq->node().settle();
  const auto resized = cq->resize(static_cast<std::uint32_t>(cqe));
  return resized ? 0 : errno_of(resized.error());
}

/// Events are raised at once, whatever the moderation: it allows to delay them.
int modify_cq(ibv_cq* verbs, ibv_modify_cq_attr* attributes) {
  if (object_of<Cq>(verbs) == nullptr || attributes == nullptr) return EINVAL;
  return (attributes->attr_mask & ~IBV_CQ_ATTR_MODERATE) != 0 ? EINVAL : 0;
}

int destroy_cq(ibv_cq* verbs) {
  auto* cq = object_of<Cq>(verbs);
  if (cq == nullptr) return EINVAL;
  {
    const Section section(cq->node());
    if (!section) return 0;
    if (cq->queue().is_used()) return EBUSY;
    cq->end_events();
  }
  cq->completion_events().wait();
  cq->async_events().wait();
  const Section section(cq->node());
  if (!section) return 0;
  cq->abandon();
  delete cq;
  return 0;
}

int poll_cq(ibv_cq* verbs, int count, ibv_wc* completions) noexcept {
  auto* cq = object_of<Cq>(verbs);
  if (cq == nullptr || count < 0 || cq->node().abandoned()) return -1;
  Progress& progress = cq->node().progress();
  // A program that waits polls an empty queue all the time: that takes no lock of the queue.
  if (!cq->has_completions() && !progress.turn_of_application()) return 0;
  const std::size_t taken = cq->take(static_cast<std::size_t>(count), completions);
  if (taken > 0) progress.linger();
  return static_cast<int>(taken);
}

int req_notify_cq(ibv_cq* verbs, int solicited_only) noexcept {
  auto* cq = object_of<Cq>(verbs);
  if (cq == nullptr) return EINVAL;
  const Section section(cq->node());
  if (!section) return EIO;
  cq->arm(solicited_only != 0);
  if (cq->channel != nullptr) cq->node().progress().on_armed();
  return 0;
}

}  // namespace rockhopper::verbs
