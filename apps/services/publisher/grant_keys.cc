// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/grant_keys.h"

#include <utility>

namespace rockhopper::publisher {

bool GrantKeys::give(ServedSubscriber& subscriber, StoreGrant& grant) {
  if (subscriber.way != nullptr) return register_for(subscriber, grant);
  auto window = engine_.allocate_window(pd_, roce::MemoryKind::window_type_2);
  if (!window) return false;
  grant.rkey = roce::next_generation(window->rkey);
  const auto rkey = static_cast<std::uint32_t>(grant.rkey);
  // It is bound before the answer leaves, as both go through the same send queue.
  const roce::SendWr bind{.wr_id = kBit | rkey,
                          .opcode = roce::WrOpcode::bind_mw,
                          .rkey = grant.rkey,
                          .mw_bind = {.mr = grant.store->region.key(),
                                      .addr = 0,
                                      .length = grant.store->store->memory().size(),
                                      .access = roce::kAccessRemoteRead | roce::kAccessZeroBased}};
  if (subscriber.qp->post_send(bind) == roce::PostResult::ok) {
    binding_.emplace(rkey, Binding{.subscriber = subscriber.id});
    return true;
  }
  (void)engine_.deallocate_window(grant.rkey);
  return false;
}

/// Nobody but who has the access key of its target reaches this protection domain.
bool GrantKeys::register_for(ServedSubscriber& subscriber, StoreGrant& grant) {
  const auto memory = grant.store->store->memory();
  auto region = engine_.register_memory_iova(subscriber.way->pd(), memory.data(), memory.size(),
                                             roce::kAccessRemoteRead, 0);
  if (!region) return false;
  grant.rkey = region->key;
  return true;
}

void GrantKeys::take(const ServedSubscriber& subscriber, const StoreGrant& grant) {
  const auto binding = binding_.find(static_cast<std::uint32_t>(grant.rkey));
  if (binding != binding_.end()) {
    // Its request would find no window. It ends once it is bound, before anybody can READ.
    binding->second.ended = true;
    return;
  }
  (void)(subscriber.way != nullptr ? engine_.deregister_memory(grant.rkey)
                                   : engine_.deallocate_window(grant.rkey));
}

void GrantKeys::end(std::uint32_t rkey, const Binding& binding) {
  if (binding.ended) (void)engine_.deallocate_window(roce::MemoryKey{rkey});
}

void GrantKeys::forget(SubscriberId subscriber) {
  std::erase_if(binding_, [&](const auto& entry) {
    if (entry.second.subscriber != subscriber) return false;
    end(entry.first, entry.second);
    return true;
  });
}

SubscriberId GrantKeys::on_bound(std::uint64_t wr_id) {
  const auto found = binding_.find(static_cast<std::uint32_t>(wr_id));
  if (found == binding_.end()) return SubscriberId{};
  const auto [rkey, binding] = *found;
  binding_.erase(found);
  end(rkey, binding);
  return binding.subscriber;
}

}  // namespace rockhopper::publisher
