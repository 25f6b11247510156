// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/tail_watches.h"

namespace rockhopper::publisher {

void TailWatches::watch(ServedSubscriber& subscriber, StoreGrant& grant, const StoreTail& known) {
  counters_.watches.add();
  if (grant.watching == StoreGrant::Watching::answer) return;
  end(subscriber, grant);
  OfferedStore& store = *grant.store;
  const StoreTail tail = store.store->tail();
  if (known != tail) {
    // Changed while the request was on its way.
    grant.watching = StoreGrant::Watching::answer;
    ++subscriber.answers;
    return;
  }
  // What others wait for has come.
  if (!store.watchers.empty() && tail != store.watched_tail) answer(store);
  if (store.watchers.empty()) watched_.push_back(&store);
  store.watched_tail = tail;
  store.watchers.push_back(&subscriber);
  grant.watching = StoreGrant::Watching::waiting;
}

void TailWatches::end(ServedSubscriber& subscriber, StoreGrant& grant) {
  if (grant.watching == StoreGrant::Watching::answer) --subscriber.answers;
  if (grant.watching == StoreGrant::Watching::waiting) {
    OfferedStore& store = *grant.store;
    std::erase(store.watchers, &subscriber);
    if (store.watchers.empty()) std::erase(watched_, &store);
  }
  grant.watching = StoreGrant::Watching::no;
}

/// All watchers of the store are to be answered.
void TailWatches::answer(OfferedStore& store) {
  for (ServedSubscriber* subscriber : store.watchers) {
    subscriber->find_grant(store.store->id())->watching = StoreGrant::Watching::answer;
    ++subscriber->answers;
  }
  store.watchers.clear();
  std::erase(watched_, &store);
}

void TailWatches::answer_all() {
  while (!watched_.empty()) {
    answer(*watched_.back());
  }
}

bool TailWatches::look() {
  bool any = false;
  // From the end, as those that are answered leave.
  for (std::size_t i = watched_.size(); i-- > 0;) {
    OfferedStore& store = *watched_[i];
    if (store.store->tail() == store.watched_tail) continue;
    answer(store);
    any = true;
  }
  return any;
}

std::size_t TailWatches::count() const {
  std::size_t count = 0;
  for (const OfferedStore* store : watched_) {
    count += store->watchers.size();
  }
  return count;
}

}  // namespace rockhopper::publisher
