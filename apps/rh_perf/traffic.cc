// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/traffic.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "apps/common/pattern.h"
#include "apps/rh_perf/atomic_words.h"
#include "apps/rh_perf/lock_words.h"

namespace rockhopper::apps::perf {

Traffic::Traffic(Backend& backend, const Agreement& agreement, const Layout& layout, Side remote,
                 Watch& watch)
    : backend_(backend),
      agreement_(agreement),
      layout_(layout),
      remote_(std::move(remote)),
      watch_(watch),
      qps_(agreement.qps) {}

std::span<std::byte> Traffic::local(std::uint16_t qp, std::uint64_t slot, std::size_t length) {
  return backend_.memory().subspan(layout_.local(qp, slot), length);
}

std::span<std::byte> Traffic::target(std::uint16_t qp, std::uint64_t slot, std::size_t length) {
  return backend_.memory().subspan(layout_.target(qp, slot), length);
}

Expected<void> Traffic::start(const RunSpec& spec) {
  spec_ = spec;
  completed_ = 0;
  received_ = 0;
  for (std::uint16_t qp = 0; qp < agreement_.qps; ++qp) {
    QueuePairState& state = qps_[qp];
    state.posted = 0;
    state.received = 0;
    if (spec.operation == Operation::send && state.next_receive_slot == 0) {
      miss_receives(qp, agreement_.receive_depth);
    }
    if (spec.kind == RunKind::validation) {
      for (std::uint32_t slot = 0; slot < layout_.slots(); ++slot) {
        prepare_validation(qp, slot);
      }
    } else if (spec.operation != Operation::send) {
      const auto area = target(qp, 0, spec.size);
      std::memset(area.data(), 0, area.size());
    }
  }
  if (spec.operation == Operation::lock) {
    const auto words = target(0, 0, kLockWordCount * kWordBytes);
    std::memset(words.data(), 0, words.size());
  }
  return post_missing_receives();
}

void Traffic::prepare_validation(std::uint16_t qp, std::uint64_t slot) {
  const auto area = target(qp, slot, spec_.size);
  switch (spec_.operation) {
    case Operation::send:
    case Operation::write:
      // Not what will come, so that nothing passes for having come.
      fill_pattern(area, ~spec_.seed, message_number(qp, slot));
      break;
    case Operation::read:
      fill_pattern(area, spec_.seed, message_number(qp, slot));
      break;
    case Operation::cas:
    case Operation::faa:
      store_word(area, atomic_words(spec_.seed, message_number(qp, slot)).before);
      break;
    case Operation::lock:
      break;
  }
}

Expected<void> Traffic::post(std::uint16_t qp, std::span<const SendRequest> requests) {
  const std::size_t taken = backend_.post_sends(qp, requests);
  qps_[qp].outstanding += static_cast<std::uint32_t>(taken);
  outstanding_ += taken;
  qps_[qp].posted += taken;
  if (taken == requests.size()) return {};
  // The reason is a failed request, whose completion tells more.
  ROCKHOPPER_TRY(poll());
  return fail(ErrorCode::invalid_state, "queue pair {} takes no more requests", qp);
}

Expected<bool> Traffic::poll() {
  ROCKHOPPER_TRY(auto polled, poll_unwatched());
  ROCKHOPPER_TRY(watch_.turn(polled));
  return polled;
}

Expected<bool> Traffic::poll_unwatched() {
  const std::size_t count = backend_.poll(done_);
  for (std::size_t i = 0; i < count; ++i) {
    ROCKHOPPER_TRY(take(done_[i]));
  }
  if (!receives_missing_.empty()) ROCKHOPPER_TRY(post_missing_receives());
  return count > 0;
}

Expected<void> Traffic::take(const Done& done) {
  const WorkId id = WorkId::decode(done.id);
  if (id.qp >= agreement_.qps) return fail(ErrorCode::io, "a completion of no queue pair of ours");
  if (id.receive && done.comes_again) {
    miss_receives(id.qp, 1);
    return {};
  }
  if (!done.error.empty()) {
    return fail(ErrorCode::io, "{} of {} bytes on queue pair {} failed: {}",
                id.receive ? "receive" : name_of(spec_.operation), spec_.size, id.qp, done.error);
  }
  if (id.receive) return take_receive(done, id);
  QueuePairState& state = qps_[id.qp];
  state.outstanding -= static_cast<std::uint32_t>(id.value);
  outstanding_ -= id.value;
  completed_ += id.value;
  if (!std::exchange(state.freed, true)) freed_.push_back(id.qp);
  return {};
}

void Traffic::take_freed(std::vector<std::uint16_t>& out) {
  out.clear();
  std::swap(out, freed_);
  for (const std::uint16_t qp : out) {
    qps_[qp].freed = false;
  }
}

Expected<void> Traffic::take_receive(const Done& done, const WorkId& id) {
  QueuePairState& state = qps_[id.qp];
  if (done.byte_len != spec_.size) {
    return fail(ErrorCode::io, "a message of {} bytes came where {} were sent", done.byte_len,
                spec_.size);
  }
  if (spec_.kind == RunKind::validation) {
    const auto wrong = find_pattern_mismatch(target(id.qp, id.value, spec_.size), spec_.seed,
                                             message_number(id.qp, state.received));
    if (wrong) {
      return fail(ErrorCode::io, "invalid data: message {} of queue pair {} differs at offset {}",
                  state.received, id.qp, *wrong);
    }
  }
  ++state.received;
  ++received_;
  miss_receives(id.qp, 1);
  return {};
}

void Traffic::miss_receives(std::uint16_t qp, std::uint32_t count) {
  if (qps_[qp].receives_missing == 0) receives_missing_.push_back(qp);
  qps_[qp].receives_missing += count;
}

Expected<void> Traffic::post_missing_receives() {
  for (const std::uint16_t qp : receives_missing_) {
    QueuePairState& state = qps_[qp];
    while (state.receives_missing > 0) {
      const std::size_t count = std::min<std::size_t>(receives_.size(), state.receives_missing);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t slot = state.next_receive_slot++ % layout_.slots();
        receives_[i] = {WorkId{true, qp, slot}.encode(), layout_.target(qp, slot),
                        agreement_.size_max};
      }
      if (backend_.post_receives(qp, {receives_.data(), count}) != count) {
        return fail(ErrorCode::invalid_state, "queue pair {} takes no receives", qp);
      }
      state.receives_missing -= static_cast<std::uint32_t>(count);
    }
  }
  receives_missing_.clear();
  return {};
}

Expected<void> Traffic::drain() {
  while (outstanding_ > 0) {
    ROCKHOPPER_TRY(poll());
  }
  return {};
}

std::vector<std::uint64_t> Traffic::target_words() {
  if (spec_.operation == Operation::lock) {
    const auto shared = target(0, 0, kLockWordCount * kWordBytes);
    return {load_word(shared), load_word(shared.subspan(kWordBytes))};
  }
  std::vector<std::uint64_t> words;
  for (std::uint16_t qp = 0; qp < agreement_.qps; ++qp) {
    words.push_back(load_word(target(qp, 0, kWordBytes)));
  }
  return words;
}

Expected<void> Traffic::check_validation() {
  if (spec_.operation == Operation::lock) {
    return check_lock_words(target_words(), std::uint64_t{agreement_.qps} * layout_.slots());
  }
  for (std::uint16_t qp = 0; qp < agreement_.qps; ++qp) {
    if (spec_.operation == Operation::send && qps_[qp].received != layout_.slots()) {
      return fail(ErrorCode::io, "{} of {} messages came on queue pair {}", qps_[qp].received,
                  layout_.slots(), qp);
    }
    for (std::uint32_t slot = 0; slot < layout_.slots(); ++slot) {
      const std::uint64_t number = message_number(qp, slot);
      if (spec_.operation == Operation::write) {
        const auto wrong = find_pattern_mismatch(target(qp, slot, spec_.size), spec_.seed, number);
        if (!wrong) continue;
        return fail(ErrorCode::io, "invalid data: WRITE {} of queue pair {} differs at offset {}",
                    slot, qp, *wrong);
      }
      if (!is_atomic(spec_.operation)) continue;
      const AtomicWords words = atomic_words(spec_.seed, number);
      const std::uint64_t expected =
          spec_.operation == Operation::cas ? words.operand : words.before + words.operand;
      const std::uint64_t found = load_word(target(qp, slot, kWordBytes));
      if (found == expected) continue;
      return fail(ErrorCode::io, "invalid data: word {} of queue pair {} is {:#x}, not {:#x}", slot,
                  qp, found, expected);
    }
  }
  return {};
}

}  // namespace rockhopper::apps::perf
