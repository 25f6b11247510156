// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/domain.h"

#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/errors.h"

namespace rockhopper::verbs {

Pd::Pd(Context& owner, Pd* parent, ThreadDomain* thread_domain)
    : ibv_pd{},
      Object(owner, kKind),
      parent_(parent),
      thread_domain_(thread_domain),
      engine_pd_(parent != nullptr ? parent->engine_pd() : owner.engine().allocate_pd()) {
  context = owner.verbs();
  handle = id();
  if (parent_ != nullptr) parent_->count_users(1);
  if (thread_domain_ != nullptr) thread_domain_->count_users(1);
  show({.kind = ResourceKind::protection_domain});
}

void Pd::release() {
  if (thread_domain_ != nullptr) thread_domain_->count_users(-1);
  if (parent_ != nullptr) {
    parent_->count_users(-1);
  } else {
    (void)owner().engine().deallocate_pd(engine_pd_);
  }
}

ThreadDomain::ThreadDomain(Context& owner) : ibv_td{}, Object(owner, kKind) {
  context = owner.verbs();
}

ibv_pd* alloc_pd(ibv_context* verbs) {
  Context* context = Context::from(verbs);
  if (context == nullptr) return refuse(EINVAL);
  const Section section(context->node());
  if (!section) return refuse(EIO);
  return new Pd(*context);
}

int dealloc_pd(ibv_pd* verbs) { return end_unused<Pd>(verbs); }

ibv_td* alloc_td(ibv_context* verbs, ibv_td_init_attr* init) {
  Context* context = Context::from(verbs);
  if (context == nullptr || init == nullptr || init->comp_mask != 0) return refuse(EINVAL);
  const Section section(context->node());
  if (!section) return refuse(EIO);
  return new ThreadDomain(*context);
}

int dealloc_td(ibv_td* verbs) {
  auto* td = object_of<ThreadDomain>(verbs);
  if (td == nullptr) return EINVAL;
  const Section section(td->node());
  if (!section) return 0;
  if (td->is_used()) return EBUSY;
  td->abandon();
  delete td;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* verbs, ibv_parent_domain_init_attr* init) {
  constexpr std::uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  Context* context = Context::from(verbs);
  if (context == nullptr || init == nullptr || (init->comp_mask & ~kKnown) != 0) {
    return refuse(EINVAL);
  }
  auto* parent = object_of<Pd>(init->pd);
  auto* td = object_of<ThreadDomain>(init->td);
  if (parent == nullptr || &parent->owner() != context ||
      (td == nullptr) != (init->td == nullptr) || (td != nullptr && &td->owner() != context)) {
    return refuse(EINVAL);
  }
  if ((init->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0 &&
      (init->alloc == nullptr || init->free == nullptr)) {
    return refuse(EINVAL);
  }
  const Section section(context->node());
  if (!section) return refuse(EIO);
  return new Pd(*context, parent, td);
}

}  // namespace rockhopper::verbs
