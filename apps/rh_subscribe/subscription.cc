// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/subscription.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace rockhopper::apps::subscribe {

void Subscription::on_message(const publisher::Message& message) {
  epoch_ = message.epoch;
  if (quota_.reached()) return;
  ++quota_.taken;
  ++messages_;
  bytes_ += message.payload.size();
  if (!first_) first_ = message.sequence;
  last_ = message.sequence;
  sink_.write({.store = store_,
               .epoch = message.epoch,
               .sequence = message.sequence,
               .time_ns = message.time_ns,
               .payload = message.payload});
}

void Subscription::on_lost(std::uint64_t first, std::uint64_t last) {
  if (quota_.reached()) return;
  lost_ += last - first + 1;
  sink_.report({.store = store_, .epoch = epoch_, .first = first, .last = last});
}

void Subscription::on_restart(std::uint64_t, std::uint64_t new_epoch) {
  ++restarts_;
  epoch_ = new_epoch;
  fmt::print(stderr, "{}: the publisher has begun anew\n", store_);
}

void Subscription::on_state(publisher::ReaderState state) {
  const bool dead = state == publisher::ReaderState::publisher_dead;
  if (dead == dead_) return;
  dead_ = dead;
  fmt::print(stderr, "{}: {}\n", store_,
             dead ? "the publisher gives no sign of life" : "the publisher is there again");
}

nlohmann::json Subscription::report() const {
  nlohmann::json report{
      {"messages", messages_}, {"bytes", bytes_}, {"lost", lost_}, {"restarts", restarts_}};
  if (first_) {
    report["first"] = *first_;
    report["last"] = last_;
  }
  if (ended) report["ended"] = *ended;
  return report;
}

}  // namespace rockhopper::apps::subscribe
