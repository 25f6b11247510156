// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/store_reader.h"

#include <algorithm>

#include "stack/link.h"

namespace rockhopper::publisher {

std::string_view to_string(ReaderState state) {
  static constexpr std::array<std::string_view, 7> kNames{
      "discover", "granted", "catchup", "live", "lapped", "epoch changed", "publisher dead"};
  const auto index = static_cast<std::size_t>(state);
  return index < kNames.size() ? kNames[index] : "?";
}

void StoreReader::start(const StoreInfo& info, std::uint64_t now_ns) {
  info_ = info;
  cancel();
  pacing_.start(info.heartbeat_ns, now_ns);
  liveness_.start(info.heartbeat_ns == 0 ? 0 : std::max(info.heartbeat_ns, pacing_.slowest_ns()),
                  now_ns);
  enter(ReaderState::granted);
}

void StoreReader::cancel() {
  request_count_ = 0;
  watching_ = Watching::no;
}

void StoreReader::close() {
  cancel();
  enter(ReaderState::discover);
}

void StoreReader::pause(bool paused) {
  if (paused == paused_) return;
  paused_ = paused;
  // Who does not look cannot miss heart-beats.
  liveness_.look_away();
}

void StoreReader::enter(ReaderState state) {
  if (state == state_) return;
  state_ = state;
  listener_.on_state(state);
}

bool StoreReader::is_due(std::uint64_t now_ns) const {
  return !paused_ && state_ != ReaderState::discover && request_count_ == 0 &&
         watching_ == Watching::no && now_ns >= pacing_.next_ns();
}

void StoreReader::request(std::uint64_t offset, std::span<std::byte> to) {
  requests_[request_count_++] = {.offset = offset, .to = to};
}

std::span<const ReadRequest> StoreReader::begin_round(std::uint64_t now_ns) {
  counters_.reads.add(request_count_);
  pacing_.on_reads(request_count_, now_ns);
  return {requests_.data(), request_count_};
}

void StoreReader::tick(std::uint64_t now_ns) {
  if (paused_ || state_ == ReaderState::discover || !liveness_.check(now_ns)) return;
  counters_.deaths.add();
  enter(ReaderState::publisher_dead);
  // READs find out whether there is still a way to it, and whether it lives again.
  watching_ = Watching::no;
}

void StoreReader::rest_at(std::uint64_t position) {
  if (!config_.watch || liveness_.dead()) return;
  watching_ = Watching::wanted;
  known_tail_ = {.epoch = epoch_, .position = position};
}

std::optional<StoreTail> StoreReader::next_watch() const {
  if (paused_ || watching_ != Watching::wanted) return std::nullopt;
  return known_tail_;
}

void StoreReader::on_watch() {
  watching_ = Watching::asked;
  counters_.watches.add();
}

bool StoreReader::on_tail(const StoreTail& tail, std::uint64_t now_ns) {
  if (watching_ != Watching::asked) return false;
  if (liveness_.on_change(now_ns)) counters_.revivals.add();
  if (tail == known_tail_) {
    watching_ = Watching::wanted;
    counters_.unchanged.add();
    return true;
  }
  watching_ = Watching::no;
  counters_.wake_ups.add();
  pacing_.hurry(now_ns);
  if (tail.epoch == epoch_) expect(tail.position);
  return true;
}

void StoreReader::set_watch(bool watch) {
  config_.watch = watch;
  if (!watch) watching_ = Watching::no;
}

std::uint64_t StoreReader::next_deadline_ns() const {
  if (paused_ || state_ == ReaderState::discover) return stack::kNever;
  const bool answer_awaited = request_count_ != 0 || watching_ == Watching::asked;
  const std::uint64_t round_ns = answer_awaited ? stack::kNever : pacing_.next_ns();
  return std::min(round_ns, liveness_.deadline_ns());
}

}  // namespace rockhopper::publisher
