// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/stream.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "apps/common/pattern.h"
#include "apps/common/steady_clock.h"

namespace rockhopper::apps::messages {
namespace {

std::uint64_t load_word(const std::byte* from) {
  std::uint64_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

Stream::Stream(Node& node, const Options& options, const RunSpec& spec)
    : Run(options.window),
      node_(node),
      options_(options),
      spec_(spec),
      layout_(node.layout()),
      random_(spec.seed),
      limit_(spec.warmup) {}

bool Stream::turn() {
  bool worked = node_.context().advance() > 0;
  if (goes_on()) {
    turn_phase();
    worked = inject_window() || worked;
  }
  tell_progress(completed_);
  return worked;
}

void Stream::turn_phase() {
  if (!measures_) {
    if (completed_ < limit_ || ledger_.outstanding() > 0) return;
    measures_ = true;
    callbacks_before_ = ledger_.calls();
    limit_ = spec_.iterations > 0 ? limit_ + spec_.iterations : UINT64_MAX;
    start_ns_ = steady_now_ns();
  } else if (completed_ == limit_ && ledger_.outstanding() == 0) {
    measurement_.seconds = static_cast<double>(steady_now_ns() - start_ns_) * 1e-9;
    measurement_.instructions = limit_ - spec_.warmup;
    measurement_.callbacks = ledger_.calls() - callbacks_before_;
    finish();
  } else if (limit_ == UINT64_MAX && steady_now_ns() - start_ns_ >= spec_.duration_ns) {
    limit_ = next_ + 1;
    drawn_.reset();
  }
}

bool Stream::inject_window() {
  const std::uint64_t before = next_;
  while (next_ < limit_ && next_ - completed_ < options_.window && ledger_.has_place(next_)) {
    const bool last = next_ + 1 == limit_;
    ami::Completion completion{.level = options_.level};
    // The end of a run is that everything has been delivered.
    if (last) completion.level = std::max(completion.level, ami::Level::remote);
    const bool callback = draw_callback();
    if (callback) completion.callback = {.function = &on_end, .context = this, .cookie = next_};
    if (options_.check) fill(next_);
    if (inject(next_, completion) == ami::Injected::again) break;
    if (options_.check) spoil(next_);
    drawn_.reset();
    if (callback) ledger_.expect(next_);
    without_callback_ = callback ? 0 : without_callback_ + 1;
    ++next_;
  }
  return next_ > before;
}

bool Stream::draw_callback() {
  // Once for each instruction: those with a callback find less room.
  if (!drawn_) {
    drawn_ = next_ + 1 == limit_ || without_callback_ + 1 >= options_.window ||
             options_.callbacks == 100 || random_.below(100) < options_.callbacks;
  }
  return *drawn_;
}

void Stream::end(std::uint64_t number, ami::Status status) {
  ledger_.call(number, status);
  if (status != ami::Status::ok) return;
  if (options_.check) {
    const auto there = is_there(number);
    if (there && !*there) {
      set_fault(fmt::format("{}: the callback of instruction {} came, and its data are not there",
                            name_of(spec_.operation), number));
    }
    measurement_.seen += there.value_or(false) ? 1 : 0;
  }
  completed_ = std::max(completed_, number + 1);
}

ami::Injected Stream::inject(std::uint64_t number, const ami::Completion& completion) {
  ami::Context& context = node_.context();
  const ami::Local local = node_.local(layout_.local(number), spec_.size);
  const ami::Remote target = node_.remote(layout_.target(number));
  switch (spec_.operation) {
    case Operation::put:
      return context.put(local, target, completion);
    case Operation::put_notify:
      return context.put_notify(local, target, node_.remote(layout_.word(number)).addr, number + 1,
                                completion);
    case Operation::get:
      return context.get(local, target, completion);
    case Operation::fetch_add:
      return context.fetch_add(local, node_.remote(layout_.word(0)), 1, completion);
    case Operation::am_lat:
    case Operation::am_bw:
      break;
  }
  return send(number, completion);
}

ami::Injected Stream::send(std::uint64_t number, const ami::Completion& completion) {
  // Only who compares content has to know which message it is.
  const auto header =
      options_.check ? std::as_bytes(std::span(&number, 1)) : std::span<const std::byte>();
  return node_.context().send(kServerId, kMessage, header,
                              node_.local(layout_.local(number), spec_.size), completion);
}

void Stream::fill(std::uint64_t number) {
  const auto local = node_.memory().subspan(layout_.local(number), spec_.size);
  if (spec_.operation == Operation::get || spec_.operation == Operation::fetch_add) {
    std::fill(local.begin(), local.end(), std::byte{0xee});
  } else {
    fill_pattern(local, spec_.seed, number);
  }
}

void Stream::spoil(std::uint64_t number) {
  const std::size_t header = spec_.operation == Operation::am_bw ? sizeof number : 0;
  if (spec_.operation == Operation::get || spec_.operation == Operation::fetch_add ||
      spec_.size + header > node_.immediate_bytes()) {
    return;
  }
  // It has been copied: its memory is ours again (AM-31).
  const auto local = node_.memory().subspan(layout_.local(number), spec_.size);
  std::fill(local.begin(), local.end(), std::byte{0xee});
}

std::optional<bool> Stream::is_there(std::uint64_t number) const {
  const auto own = node_.memory().subspan(layout_.local(number), spec_.size);
  switch (spec_.operation) {
    case Operation::get:
      return !find_pattern_mismatch(own, spec_.seed, number % layout_.slots);
    case Operation::fetch_add:
      return load_word(own.data()) == number;
    default:
      break;
  }
  const auto peer = node_.peer_memory();
  if (peer.empty() || options_.level == ami::Level::local) return std::nullopt;
  const std::uint64_t word = load_word(peer.data() + layout_.word(number));
  if (spec_.operation == Operation::am_bw) {
    if (options_.level != ami::Level::handled) return std::nullopt;
    return word == number + 1;
  }
  if (spec_.operation == Operation::put_notify && word != number + 1) return false;
  return !find_pattern_mismatch(peer.subspan(layout_.target(number), spec_.size), spec_.seed,
                                number);
}

}  // namespace rockhopper::apps::messages
