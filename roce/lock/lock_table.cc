// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/lock/lock_table.h"

#include <algorithm>
#include <atomic>
#include <cassert>

#include "roce/lock/lock_word.h"

namespace rockhopper::roce::lock {
namespace {

// Several engines may serve a word: after so many looks of one, the others have so much time.
constexpr std::uint64_t kLooksInARow = 8;
constexpr std::uint64_t kOthersFirstNs = 5'000;

std::uint64_t load(std::uint64_t* word) {
  return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

}  // namespace

bool Waiter::add(const Claim& claim) {
  if (count_ == kMaxClaims) return false;
  const auto end = claims_.begin() + count_;
  const auto place = std::find_if(claims_.begin(), end,
                                  [&](const Claim& other) { return other.word >= claim.word; });
  if (place != end && place->word == claim.word) return false;
  std::move_backward(place, end, end + 1);
  *place = claim;
  ++count_;
  return true;
}

bool Waiter::take_all() {
  for (std::uint8_t i = 0; i < count_; ++i) {
    if (claims_[i].take()) continue;
    line_.blocked_at = i;
    while (i-- > 0) {
      (void)(claims_[i].undo());
      claims_[i].previous = claims_[i].before;  // as others left it
    }
    return false;
  }
  return true;
}

std::uint64_t Waiter::looks() const {
  return line_.looks + (line_.word == nullptr ? 0 : line_.word->looks - line_.joined_at);
}

LockTable::LockTable(stack::TimingWheel& timers, const std::uint64_t& now_ns)
    : timers_(timers),
      now_ns_(now_ns),
      buckets_(new WaitedWords::bucket_type[kBuckets]),
      waited_(WaitedWords::bucket_traits(buckets_.get(), kBuckets)) {
  add_word();  // one more than waiters: the word that is looked at stays when its last one moves on
}

LockTable::~LockTable() { assert(idle()); }

void LockTable::attach(Region& region) {
  region.add_server();
  regions_.push_back({&region, region.releases()});
}

bool LockTable::detach(Region& region) {
  const auto found = std::ranges::find(regions_, &region, &Attached::region);
  if (found == regions_.end()) return true;
  const auto wants_it = [&](Waiter& waiter) {
    return std::ranges::find(waiter.claims(), &region, &Claim::region) != waiter.claims().end();
  };
  const auto waits_for_it = [&](WaitedWord& word) {
    return std::ranges::any_of(word.waiters, wants_it);
  };
  if (found->held > 0 || std::ranges::any_of(waited_, waits_for_it)) return false;
  regions_.erase(found);
  region.remove_server();
  return true;
}

/// Its claims are held from now on (1), or no more (-1).
void LockTable::count_held(Waiter& waiter, int change) {
  for (const Claim& claim : waiter.claims()) {
    std::ranges::find(regions_, claim.region, &Attached::region)->held += change;
  }
}

Region* LockTable::find(const void* word) const {
  for (const Attached& one : regions_) {
    if (one.region->contains(word)) return one.region;
  }
  return nullptr;
}

void LockTable::add_waiter() {
  if (++waiters_ >= words_.size()) add_word();
}

void LockTable::add_word() {
  words_.push_back(std::make_unique<WaitedWord>(*this, [](void* word, std::uint64_t) {
    auto& waited = *static_cast<WaitedWord*>(word);
    waited.table.on_retry_timer(waited);
  }));
  free_.reserve(words_.size());
  free_.push_back(words_.back().get());
}

WaitedWord* LockTable::find_waited(std::uint64_t* word) {
  const auto found = waited_.find(word);
  return found == waited_.end() ? nullptr : &*found;
}

/// Returns which claim is for a word with a queue that the request must not pass (LK-28); nothing:
/// it may look at all of them.
std::optional<std::uint8_t> LockTable::claim_behind_others(const Waiter& waiter) const {
  if (waiting_ == 0 || !waiter.limits().fifo) return std::nullopt;
  for (std::uint8_t i = 0; i < waiter.claims().size(); ++i) {
    const Claim& claim = waiter.claims()[i];
    const auto waited = waited_.find(claim.word);
    if (waited != waited_.end() &&
        (claim.mode == Mode::shared ? waited->writers > 0 : !waited->waiters.empty())) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<wire::LockCause> LockTable::begin(Waiter& waiter) {
  waiter.line().order = arrivals_++;
  waiter.line().arrived_ns = now_ns_;
  return again(waiter);
}

std::optional<wire::LockCause> LockTable::again(Waiter& waiter) {
  Region& region = *waiter.first().region;
  if (waiter.line().looks < waiter.limits().tries) {
    ++waiter.line().looks;
    region.count(&Region::Statistics::iterations);
    if (const auto behind = claim_behind_others(waiter)) {
      waiter.line().blocked_at = *behind;
      waiter.claims()[*behind].previous = load(waiter.claims()[*behind].word);
    } else if (waiter.take_all()) {
      count_held(waiter, 1);
      region.count(&Region::Statistics::grants);
      if (waiter.line().looks == 1) region.count(&Region::Statistics::immediate_grants);
      region.note_wait(now_ns_ - waiter.line().arrived_ns);
      return wire::LockCause::none;
    }
  }
  if (!waiter.may_look_again(waiter.line().looks)) {
    region.count(&Region::Statistics::failures);
    return wire::LockCause::tries;
  }
  return std::nullopt;
}

void LockTable::wait(Waiter& waiter) {
  waiter.first().region->count(&Region::Statistics::waits);
  join(waiter);
}

/// Puts it into the queue of the word that it was blocked at, before those that came later.
void LockTable::join(Waiter& waiter) {
  const Claim& claim = waiter.claims()[waiter.line().blocked_at];
  WaitedWord* waited = find_waited(claim.word);
  if (waited == nullptr) {
    waited = free_.back();
    free_.pop_back();
    waited->word = claim.word;
    waited->region = claim.region;
    waited->native = !claim.is_foreign();
    waited->seen = claim.previous;
    waited->looks = 0;
    waited->writers = waited->hurried = 0;
    waited->next_expiry = UINT64_MAX;
    waited_.insert(*waited);
    timers_.arm(waited->timer, now_ns_ + claim.region->config().retry_us * std::uint64_t{1000});
    if (waited->native) {
      // Whoever frees it from now on tells of it. Who did before was not seen to.
      const std::uint64_t found = std::atomic_ref<std::uint64_t>(*claim.word).fetch_or(kWaitersBit);
      if ((found & ~kWaitersBit) != (claim.previous & ~kWaitersBit)) set_dirty(*waited);
      waited->seen = found | kWaitersBit;
    }
  }
  auto place = waited->waiters.end();
  while (place != waited->waiters.begin() && std::prev(place)->line().order > waiter.line().order) {
    --place;
  }
  waited->waiters.insert(place, waiter);
  waiter.line().reader = claim.mode == Mode::shared;
  waited->writers += waiter.line().reader ? 0 : 1;
  waited->hurried += waiter.limits().fifo ? 0 : 1;
  waiter.line().word = waited;
  waiter.line().joined_at = waited->looks;
  if (waiter.limits().tries != wire::Lketh::kTriesUnlimited) {
    waited->next_expiry =
        std::min(waited->next_expiry, waited->looks + waiter.limits().tries - waiter.line().looks);
  }
  ++waiting_;
}

/// Out of its queue. The word stays until retire().
void LockTable::remove(Waiter& waiter) {
  WaitedWord& waited = *waiter.line().word;
  waiter.line().looks = waiter.looks();
  waiter.line().word = nullptr;
  waited.waiters.erase(waited.waiters.iterator_to(waiter));
  waited.writers -= waiter.line().reader ? 0 : 1;
  waited.hurried -= waiter.limits().fifo ? 0 : 1;
  --waiting_;
}

/// Nobody waits for the word any more.
void LockTable::retire(WaitedWord& waited) {
  if (!waited.waiters.empty() || waited.word == nullptr) return;
  // Where others serve the word too, somebody may wait there: the bit costs them a look at most.
  if (waited.native && !waited.region->has_several_servers()) {
    std::atomic_ref<std::uint64_t>(*waited.word).fetch_and(~kWaitersBit);
  }
  timers_.cancel(waited.timer);
  waited.dirty_hook.unlink();
  waited_.erase(waited_.iterator_to(waited));
  waited.word = nullptr;
  free_.push_back(&waited);
}

void LockTable::leave(Waiter& waiter) {
  if (!waiter.waits()) return;
  WaitedWord& waited = *waiter.line().word;
  remove(waiter);
  if (&waited == looked_at_) return;  // retired when the look is over
  retire(waited);
  // Those behind it may be next.
  if (waited.word != nullptr) set_dirty(waited);
}

/// One look at a word: as many of its waiters get it as it allows, in their order. Each of them may
/// be done with it before the next is asked.
void LockTable::look(WaitedWord& waited) {
  looked_at_ = &waited;
  ++waited.looks;
  waited.region->count(&Region::Statistics::iterations);
  bool others = false;
  bool writers = false;
  for (auto next = waited.waiters.begin(); next != waited.waiters.end();) {
    Waiter& waiter = *next++;
    const bool reader = waiter.line().reader;
    const bool behind = waiter.limits().fifo && (reader ? writers : others);
    if (!behind && waiter.take_all()) {
      remove(waiter);
      count_held(waiter, 1);
      decide(waiter, wire::LockCause::none);
      continue;
    }
    if (!behind && waiter.claims()[waiter.line().blocked_at].word != waited.word) {
      // It could have this word, but not another one: it waits there, unless this was its last
      // look, which expire() sees.
      if (waiter.may_look_again(waiter.looks())) {
        remove(waiter);
        join(waiter);
      }
      continue;
    }
    others = true;
    writers = writers || !reader;
    if (waited.hurried == 0) break;  // nobody behind it may pass it, nor finds the word any better
  }
  waited.seen = load(waited.word);
  expire(waited);
  looked_at_ = nullptr;
  retire(waited);
}

/// Ends the requests that have seen the word often enough.
void LockTable::expire(WaitedWord& waited) {
  if (waited.looks < waited.next_expiry) return;
  waited.next_expiry = UINT64_MAX;
  for (auto next = waited.waiters.begin(); next != waited.waiters.end();) {
    Waiter& waiter = *next++;
    const std::uint64_t looks = waiter.looks();
    if (!waiter.may_look_again(looks)) {
      remove(waiter);
      waiter.first().region->count(&Region::Statistics::failures);
      decide(waiter, wire::LockCause::tries);
    } else if (waiter.limits().tries != wire::Lketh::kTriesUnlimited) {
      waited.next_expiry =
          std::min(waited.next_expiry, waited.looks + waiter.limits().tries - looks);
    }
  }
}

void LockTable::decide(Waiter& waiter, wire::LockCause cause) {
  if (cause == wire::LockCause::none) {
    Region& region = *waiter.first().region;
    region.count(&Region::Statistics::grants);
    region.note_wait(now_ns_ - waiter.line().arrived_ns);
  }
  waiter.tell(cause, now_ns_);
}

bool LockTable::perform(Waiter& waiter, const wire::LockOperation& operation, bool add) {
  return give_back_by(waiter, [&](Claim& claim) { return claim.perform(operation, add); });
}

bool LockTable::give_back(Waiter& waiter) {
  return give_back_by(waiter, [](Claim& claim) { return claim.give_back(); });
}

bool LockTable::undo(Waiter& waiter) {
  return give_back_by(waiter, [](Claim& claim) { return claim.undo(); });
}

template <typename Free>
bool LockTable::give_back_by(Waiter& waiter, Free free) {
  bool all = true;
  count_held(waiter, -1);
  for (Claim& claim : waiter.claims()) {
    if (free(claim)) {
      note_change(claim);
    } else {
      all = false;
    }
  }
  return all;
}

/// It has been changed here. Other engines that serve the region are told if requests wait there,
/// and now and then they may look first: they would never find it free while it goes from one to
/// the next of those that wait here.
void LockTable::note_change(const Claim& claim) {
  const bool told =
      claim.region->has_several_servers() && LockWord::from(claim.previous).has_waiters();
  if (told) {
    claim.region->note_release();
    ++std::ranges::find(regions_, claim.region, &Attached::region)->releases;
  }
  if (waiting_ == 0) return;
  WaitedWord* waited = find_waited(claim.word);
  if (waited == nullptr) return;
  if (told && waited->looks % kLooksInARow == 0) {
    waited->dirty_hook.unlink();
    timers_.arm(waited->timer, now_ns_ + kOthersFirstNs);
    return;
  }
  set_dirty(*waited);
}

void LockTable::set_dirty(WaitedWord& waited) {
  if (!waited.dirty_hook.is_linked()) dirty_.push_back(waited);
}

void LockTable::look_for_changes(const std::byte* data, std::uint64_t length) {
  if (length == 0) return;
  const std::size_t first = BucketOf()(data);
  const std::size_t end = BucketOf()(data + length - 1) + 1;
  for (std::size_t i = first; i < end && i - first < kBuckets; ++i) {
    const std::size_t bucket = i % kBuckets;
    for (auto it = waited_.begin(bucket); it != waited_.end(bucket); ++it) {
      const auto offset = reinterpret_cast<std::uintptr_t>(it->word) + sizeof(std::uint64_t) -
                          reinterpret_cast<std::uintptr_t>(data) - 1;
      if (offset < length + sizeof(std::uint64_t) - 1) set_dirty(*it);
    }
  }
}

void LockTable::look_for_releases() {
  for (Attached& one : regions_) {
    const std::uint64_t releases = one.region->releases();
    if (releases == one.releases) continue;
    one.releases = releases;
    for (WaitedWord& waited : waited_) {
      if (waited.region == one.region && load(waited.word) != waited.seen) set_dirty(waited);
    }
  }
}

void LockTable::run() {
  look_for_releases();
  while (!dirty_.empty()) {
    WaitedWord& waited = dirty_.front();
    dirty_.pop_front();
    look(waited);
  }
}

/// Something may have changed the word that told nobody.
void LockTable::on_retry_timer(WaitedWord& waited) {
  timers_.arm(waited.timer, now_ns_ + waited.region->config().retry_us * std::uint64_t{1000});
  waited.dirty_hook.unlink();
  look(waited);
  run();
}

}  // namespace rockhopper::roce::lock
