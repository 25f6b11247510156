// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/timing_wheel.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "stack/link.h"

namespace rockhopper::stack {

Timer::~Timer() {
  if (wheel_ != nullptr) wheel_->cancel(*this);
}

TimingWheel::TimingWheel(std::uint64_t tick_ns)
    : shift_(static_cast<unsigned>(std::bit_width(tick_ns)) - 1) {
  assert(tick_ns > 0);
}

TimingWheel::~TimingWheel() {
  for (TimerList& list : slots_) {
    list.clear_and_dispose([](Timer* timer) { timer->wheel_ = nullptr; });
  }
}

void TimingWheel::rearm(Timer& timer, std::uint64_t deadline_ns) {
  if (timer.wheel_ != nullptr) timer.wheel_->cancel(timer);
  if (deadline_ns == kNever) return;
  timer.wheel_ = this;
  timer.deadline_ns_ = deadline_ns;
  ++armed_count_;
  const std::uint64_t tick = to_tick(deadline_ns);
  if (tick <= target_tick_) {
    link(timer, kDueSlot, tick);
  } else {
    place_ahead(timer, tick);
  }
}

void TimingWheel::cancel(Timer& timer) {
  if (timer.wheel_ == nullptr) return;
  assert(timer.wheel_ == this);
  TimerList& list = slots_[timer.slot_];
  list.erase(TimerList::s_iterator_to(timer));
  if (timer.slot_ < kOverflowSlot && list.empty()) {
    occupied_[timer.slot_ / kSlots] &= ~(std::uint64_t{1} << timer.slot_ % kSlots);
  }
  timer.wheel_ = nullptr;
  --armed_count_;
}

void TimingWheel::place_ahead(Timer& timer, std::uint64_t tick) {
  assert(tick > current_tick_);
  const unsigned level =
      (static_cast<unsigned>(std::bit_width(tick ^ current_tick_)) - 1) / kDigitBits;
  if (level >= kLevels) {
    link(timer, kOverflowSlot, tick);
    return;
  }
  const auto digit = static_cast<std::uint32_t>(tick >> level * kDigitBits) % kSlots;
  occupied_[level] |= std::uint64_t{1} << digit;
  link(timer, level * kSlots + digit, tick);
}

void TimingWheel::link(Timer& timer, std::uint32_t slot, std::uint64_t tick) {
  timer.slot_ = slot;
  timer.placed_tick_ = tick;
  slots_[slot].push_back(timer);
}

/// The tick at which the next occupied slot begins, and that slot; kNever if there is none.
std::uint64_t TimingWheel::next_tick(std::uint32_t& slot) const {
  for (unsigned level = 0; level < kLevels; ++level) {
    if (occupied_[level] == 0) continue;
    const auto digit = static_cast<std::uint32_t>(std::countr_zero(occupied_[level]));
    slot = level * kSlots + digit;
    const unsigned digit_shift = level * kDigitBits;
    const std::uint64_t above = current_tick_ >> digit_shift >> kDigitBits << kDigitBits;
    return (above | digit) << digit_shift;
  }
  if (slots_[kOverflowSlot].empty()) return kNever;
  slot = kOverflowSlot;
  return ((current_tick_ >> kLevels * kDigitBits) + 1) << kLevels * kDigitBits;
}

/// Fires what is due in a slot whose time has come and sorts the rest anew.
void TimingWheel::work_off(std::uint32_t slot, std::uint64_t now_ns) {
  TimerList timers;
  timers.swap(slots_[slot]);
  if (slot < kOverflowSlot) occupied_[slot / kSlots] &= ~(std::uint64_t{1} << slot % kSlots);
  while (!timers.empty()) {
    Timer& timer = timers.front();
    timers.pop_front();
    const std::uint64_t tick = to_tick(timer.deadline_ns_);
    if (tick > current_tick_) {
      place_ahead(timer, tick);
      continue;
    }
    timer.wheel_ = nullptr;
    --armed_count_;
    timer.callback_(timer.context_, now_ns);
  }
}

void TimingWheel::advance(std::uint64_t now_ns) {
  target_tick_ = std::max(now_ns >> shift_, current_tick_);
  if (!slots_[kDueSlot].empty()) work_off(kDueSlot, now_ns);
  if (target_tick_ == current_tick_) return;  // as in most turns of a polling loop
  std::uint32_t slot = 0;
  for (std::uint64_t tick = next_tick(slot); tick <= target_tick_ && tick != kNever;
       tick = next_tick(slot)) {
    current_tick_ = tick;
    work_off(slot, now_ns);
  }
  current_tick_ = target_tick_;
}

std::uint64_t TimingWheel::next_deadline_ns() const {
  if (!slots_[kDueSlot].empty()) return current_tick_ << shift_;
  std::uint32_t slot = 0;
  const std::uint64_t tick = next_tick(slot);
  return tick == kNever ? kNever : tick << shift_;
}

}  // namespace rockhopper::stack
