// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/reading.h"

#include <fmt/format.h>

namespace rockhopper::dag {
namespace {

/// Words of an output's place.
constexpr std::size_t kPlaceWords = 2;
constexpr std::size_t kPlaceBytes = kPlaceWords * sizeof(std::uint64_t);

}  // namespace

void NodeAttempt::Reading::begin() {
  NodeInputs& inputs = attempt_.inputs_;
  inputs.begin(attempt_.copy_.node(), attempt_.origin_.run, at_.cache);
  at_.counters.inputs_cached.add(inputs.cached());
  if (inputs.cached() == inputs.size()) return prepare();
  if (!attempt_.words_.reserve(inputs.size() * kPlaceBytes)) {
    return attempt_.fail("no memory for its inputs");
  }
  attempt_.enter(Stage::placing);
}

bool NodeAttempt::Reading::post_places() {
  const NodeInputs& inputs = attempt_.inputs_;
  for (std::size_t& i = attempt_.posted_; i < inputs.size(); ++i) {
    if (inputs.is_cached(i)) continue;
    if (at_.home.room() <= Workplace::kLinkReserve) return false;
    attempt_.read(word_address(inputs.source(i).address, kOutputWord), attempt_.words_,
                  i * kPlaceBytes, kPlaceBytes);
  }
  return true;
}

bool NodeAttempt::Reading::post_inputs() {
  NodeInputs& inputs = attempt_.inputs_;
  for (std::size_t& i = attempt_.posted_; i < inputs.size() && inputs.status() == Status::ok; ++i) {
    if (inputs.is_cached(i)) continue;
    switch (start(i)) {
      case Started::yes:
        at_.counters.inputs_read.add();
        ++attempt_.outstanding_;
        break;
      case Started::no_room:
        return false;
      case Started::invalid:
        inputs.fail(Status::damaged);
        break;
      case Started::unreachable:
        inputs.fail(Status::unreachable);
        break;
    }
  }
  return true;
}

Started NodeAttempt::Reading::start(std::size_t input) {
  const auto words = attempt_.found().subspan(input * kPlaceWords, kPlaceWords);
  const OutputPlace place = OutputPlace::from(words[0], words[1]);
  return at_.init.client.read(
      at_.init.client.own({.server = place.server,
                           .entry = {.incarnation = place.incarnation,
                                     .address = place.address,
                                     .length = static_cast<std::uint32_t>(place.length)}}),
      at_.context(AskKind::input, attempt_.index_, static_cast<std::uint32_t>(input)));
}

void NodeAttempt::Reading::on_result(std::uint32_t input, const Result& result) {
  if (result.status != Status::ok) {
    attempt_.inputs_.fail(result.status);
  } else if (input < attempt_.inputs_.size()) {
    attempt_.inputs_.take(input, result.data);
  }
}

void NodeAttempt::Reading::on_inputs() {
  NodeInputs& inputs = attempt_.inputs_;
  if (!attempt_.is_wanted()) return attempt_.give_up();
  if (inputs.status() != Status::ok) {
    return attempt_.fail(fmt::format("an input cannot be read: {}", to_string(inputs.status())));
  }
  inputs.fill(at_.cache, attempt_.origin_.run);
  prepare();
}

void NodeAttempt::Reading::prepare() {
  attempt_.stage_ = Stage::prepared;
  at_.queue.push({.priority = attempt_.origin_.priority,
                  .urgency = attempt_.copy_.node().priority,
                  .which = attempt_.index_},
                 at_.now_ns - attempt_.claim_.began_ns);
  at_.moved = true;
}

}  // namespace rockhopper::dag
