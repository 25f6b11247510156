// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Who waits for something new in a store (PB-29). Writers know nothing of it: it is the engine's
// thread that looks at the tails of stores that are watched, at each turn.
#include "apps/services/publisher/publisher_state.h"

namespace rockhopper::publisher {

void Publisher::on_request(Subscriber& subscriber, const Watch& request) {
  const std::size_t index = subscriber.find_grant(request.store_id);
  if (index == subscriber.grants.size()) {
    // Revoked meanwhile perhaps, of which it is told; else it is none of its business.
    counters_.refused_watch.add();
    return;
  }
  counters_.watches.add();
  Grant& grant = subscriber.grants[index];
  if (grant.watching == Grant::Watching::answer) return;
  end_watch(subscriber, grant);
  OfferedStore& store = *stores_.at(request.store_id);
  const StoreTail tail = store.store->tail();
  if (request.known != tail) {
    // Changed while the request was on its way.
    grant.watching = Grant::Watching::answer;
    ++subscriber.answers;
    return;
  }
  if (store.watchers.empty()) {
    watched_.push_back(&store);
  } else if (tail != store.watched_tail) {
    answer_watchers(store);
    watched_.push_back(&store);
  }
  store.watched_tail = tail;
  store.watchers.push_back(&subscriber);
  grant.watching = Grant::Watching::waiting;
}

/// The grant has none any more.
void Publisher::end_watch(Subscriber& subscriber, Grant& grant) {
  if (grant.watching == Grant::Watching::answer) --subscriber.answers;
  if (grant.watching == Grant::Watching::waiting) {
    OfferedStore& store = *stores_.at(grant.store_id);
    std::erase(store.watchers, &subscriber);
    if (store.watchers.empty()) std::erase(watched_, &store);
  }
  grant.watching = Grant::Watching::no;
}

void Publisher::answer_watchers(OfferedStore& store) {
  for (Subscriber* subscriber : store.watchers) {
    subscriber->grants[subscriber->find_grant(store.store->id())].watching =
        Grant::Watching::answer;
    ++subscriber->answers;
  }
  store.watchers.clear();
  std::erase(watched_, &store);
}

void Publisher::answer_all_watchers() {
  while (!watched_.empty()) answer_watchers(*watched_.back());
}

/// True if any of them has another tail.
bool Publisher::look_at_watched() {
  bool any = false;
  // From the end, as those that are answered leave.
  for (std::size_t i = watched_.size(); i-- > 0;) {
    OfferedStore& store = *watched_[i];
    if (store.store->tail() == store.watched_tail) continue;
    answer_watchers(store);
    any = true;
  }
  return any;
}

/// Each with the tail as it is now, so that a subscriber that is slow misses nothing by it.
bool Publisher::send_answers(Subscriber& subscriber) {
  bool sent = false;
  for (Grant& grant : subscriber.grants) {
    if (subscriber.answers == 0) break;
    if (grant.watching != Grant::Watching::answer) continue;
    const Changed answer{.store_id = grant.store_id,
                         .tail = stores_.at(grant.store_id)->store->tail()};
    if (!post(subscriber, answer)) break;
    grant.watching = Grant::Watching::no;
    --subscriber.answers;
    counters_.watch_answers.add();
    sent = true;
  }
  return sent;
}

std::size_t Publisher::watch_count() const {
  std::size_t count = 0;
  for (const OfferedStore* store : watched_) count += store->watchers.size();
  return count;
}

}  // namespace rockhopper::publisher
