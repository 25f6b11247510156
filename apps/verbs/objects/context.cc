// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/context.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "apps/verbs/node/nodes.h"
#include "apps/verbs/objects/context_operations.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/cq.h"
#include "apps/verbs/objects/errors.h"
#include "apps/verbs/objects/qp.h"
#include "apps/verbs/objects/srq.h"

namespace rockhopper::verbs {
namespace {

constexpr std::uint32_t kMagic = 0x52684374;

bool is_about_queue_pair(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return true;
    default:
      return false;
  }
}

/// What counts the acknowledgements of such events; null where nobody waits for them.
Acknowledged* acknowledged_of(const ibv_async_event& event) {
  if (is_about_queue_pair(event.event_type)) {
    auto* qp = object_of<Qp>(event.element.qp);
    return qp == nullptr ? nullptr : &qp->async_events();
  }
  if (event.event_type == IBV_EVENT_CQ_ERR) {
    auto* cq = object_of<Cq>(event.element.cq);
    return cq == nullptr ? nullptr : &cq->async_events();
  }
  if (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
    auto* srq = object_of<Srq>(event.element.srq);
    return srq == nullptr ? nullptr : &srq->async_events();
  }
  return nullptr;
}

}  // namespace

Expected<Context*> Context::open(ibv_device* device) {
  ROCKHOPPER_TRY(Node * node, acquire_node());
  auto units = EventUnits::create();
  if (!units) {
    release_node(*node);
    return tl::make_unexpected(units.error());
  }
  const Section section(*node);
  return new Context(device, *node, std::move(*units));
}

Context::Context(ibv_device* device, Node& node, std::unique_ptr<EventUnits> units)
    : verbs_context{},
      node_(node),
      magic_(kMagic),
      number_(node.resources().next_context()),
      units_(std::move(units)) {
  context.device = device;
  // There is no driver to command, but some programs duplicate what is a descriptor elsewhere.
  context.cmd_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  context.async_fd = units_->fd();
  context.num_comp_vectors = 1;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&context.mutex, nullptr);
  set_operations(*this);
  node_.add_sink(*this);
  ResourceRecord record{.kind = ResourceKind::context, .context = number_};
  record.set_text(device->name);
  listing_.show(node_.resources(), record);
}

Context::~Context() {
  magic_ = 0;
  if (!node_.abandoned()) {
    {
      const Section section(node_);
      node_.remove_sink(*this);
      abandon_objects();
      listing_.leave();
    }
    release_node(node_);
  }
  objects_.clear();
  if (context.cmd_fd >= 0) close(context.cmd_fd);
  pthread_mutex_destroy(&context.mutex);
}

/// Users before what they use.
void Context::abandon_objects() {
  std::vector<Object*> left;
  for_each_object([&left](Object& object) { left.push_back(&object); });
  std::ranges::stable_sort(left, {}, [](const Object* object) { return object->kind(); });
  for (Object* object : left) {
    object->abandon();
  }
}

Context* Context::from(ibv_context* verbs) {
  if (verbs == nullptr || verbs->abi_compat != __VERBS_ABI_IS_EXTENDED) return nullptr;
  auto* extended = reinterpret_cast<verbs_context*>(reinterpret_cast<std::byte*>(verbs) -
                                                    offsetof(verbs_context, context));
  auto* context = static_cast<Context*>(extended);
  return context->magic_ == kMagic ? context : nullptr;
}

void Context::add(Qp& qp) { qps_.emplace(qp.qp_base.qp_num, &qp); }

void Context::remove(Qp& qp) {
  std::erase_if(qps_, [&qp](const auto& entry) { return entry.second == &qp; });
  withdraw([&qp](const ibv_async_event& event) {
    return is_about_queue_pair(event.event_type) && event.element.qp == &qp.qp_base;
  });
}

void Context::add(Cq& cq) { cqs_.emplace(&cq.queue(), &cq); }

void Context::remove(Cq& cq) {
  cqs_.erase(&cq.queue());
  withdraw([&cq](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq.verbs();
  });
}

void Context::add(Srq& srq) { srqs_.emplace(&srq.queue(), &srq); }

void Context::remove(Srq& srq) {
  srqs_.erase(&srq.queue());
  withdraw([&srq](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == &srq;
  });
}

std::size_t Context::list_queue_pairs() {
  for (const auto& [number, qp] : qps_) {
    qp->list();
  }
  return qps_.size();
}

void Context::push(const ibv_async_event& event) {
  events_.push_back(event);
  units_->add();
}

template <typename Match>
void Context::withdraw(Match match) {
  for (std::size_t gone = std::erase_if(events_, match); gone > 0; --gone) {
    units_->withdraw();
  }
}

void Context::on_async_event(const roce::AsyncEvent& event) {
  const auto type = type_of(event.type);
  if (!type) return;
  if (is_about_queue_pair(*type)) {
    on_queue_pair_event(event, *type);
  } else if (*type == IBV_EVENT_CQ_ERR) {
    if (const auto found = cqs_.find(event.cq); found != cqs_.end()) {
      push({.element = {.cq = found->second->verbs()}, .event_type = *type});
    }
  } else if (*type == IBV_EVENT_SRQ_LIMIT_REACHED) {
    if (const auto found = srqs_.find(event.srq); found != srqs_.end()) {
      push({.element = {.srq = found->second}, .event_type = *type});
    }
  } else {
    push({.element = {.port_num = 1}, .event_type = *type});
  }
}

void Context::on_queue_pair_event(const roce::AsyncEvent& event, ibv_event_type type) {
  const auto [first, last] = qps_.equal_range(event.qp_num.value);
  for (auto entry = first; entry != last; ++entry) {
    push({.element = {.qp = &entry->second->qp_base}, .event_type = type});
  }
}

int Context::take_event(ibv_async_event& event) {
  while (true) {
    if (const int error = units_->take(node_.progress()); error != 0) return error;
    const Section section(node_);
    if (!section) return EIO;
    // Nothing: the object that it was about was destroyed between the unit and this.
    if (events_.empty()) continue;
    event = events_.front();
    events_.pop_front();
    if (Acknowledged* counted = acknowledged_of(event); counted != nullptr) counted->give();
    return 0;
  }
}

ibv_context* open_device(ibv_device* device) {
  if (device == nullptr) return refuse(EINVAL);
  const auto context = Context::open(device);
  if (!context) {
    std::fprintf(stderr, "rockhopper: cannot open %s: %s\n", device->name,
                 context.error().message.c_str());
    return refuse(context.error());
  }
  return (*context)->verbs();
}

int close_device(ibv_context* verbs) {
  Context* context = Context::from(verbs);
  if (context == nullptr) return EINVAL;
  delete context;
  return 0;
}

int get_async_event(ibv_context* verbs, ibv_async_event* event) {
  Context* context = Context::from(verbs);
  if (context == nullptr || event == nullptr) return refuse(EINVAL);
  if (const int error = context->take_event(*event); error != 0) return refuse(error);
  return 0;
}

void ack_async_event(ibv_async_event* event) {
  if (event == nullptr) return;
  if (Acknowledged* counted = acknowledged_of(*event); counted != nullptr) counted->acknowledge(1);
}

}  // namespace rockhopper::verbs
