// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/storing.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/services/dag/schedule/committing.h"

namespace rockhopper::dag {

/// Returns false if it has to wait. When the node has failed, or is not wanted, it goes another
/// way.
bool NodeAttempt::Storing::post() {
  if (attempt_.posted_ > 0) return true;
  Outcome& outcome = attempt_.outcome_;
  if (outcome.finished_ns == 0) outcome.finished_ns = at_.now_ns;
  if (!attempt_.is_wanted()) {
    attempt_.give_up();
    return true;
  }
  if (!outcome.failure.empty()) {
    attempt_.fail(std::move(outcome.failure));
    return true;
  }
  const std::size_t size = outcome.output.size();
  if (size > at_.init.client.config().buffer_bytes) {
    attempt_.fail(fmt::format("its output of {} bytes is too long for the worker's buffers of {}",
                              size, at_.init.client.config().buffer_bytes));
    return true;
  }
  const Arenas::Key key{.slot = attempt_.origin_.entry.run,
                        .run = RunId{attempt_.origin_.run},
                        .server = at_.init.outputs.server_of(bytes_of(attempt_.copy_.key()))};
  const std::uint64_t bytes = whole_lines(
      record_bytes(attempt_.copy_.record_key().size(), static_cast<std::uint32_t>(size), 1));
  if (at_.arenas.at(key).has_room(bytes) && !at_.arenas.at(key).is_asking()) {
    return write(key, bytes);
  }
  return find_memory(key, bytes);
}

/// Waits for an arena, or asks for one. Returns false unless the node has failed.
bool NodeAttempt::Storing::find_memory(const Arenas::Key& key, std::uint64_t bytes) {
  OutputArena::Request& request = attempt_.outcome_.arena_request;
  const OutputArena& arena = at_.arenas.at(key);
  if (arena.is_asking()) {
    request = arena.last_request();
    return false;
  }
  if (const auto why = arena.failure_of(request)) {
    attempt_.fail(fmt::format("no memory for its output: {}", to_string(*why)));
    return true;
  }
  const auto context = at_.context(AskKind::arena, key.slot, Arenas::number_of(key));
  if (const auto asked = at_.arenas.ask(key, attempt_.copy_.run_name(), bytes, context)) {
    request = asked;
  }
  return false;
}

bool NodeAttempt::Storing::write(const Arenas::Key& key, std::uint64_t bytes) {
  OutputArena& arena = at_.arenas.at(key);
  const std::vector<std::byte>& output = attempt_.outcome_.output;
  switch (at_.init.client.write_record(arena.next(), bytes_of(attempt_.copy_.record_key()), output,
                                       {.fixed = true},
                                       at_.context(AskKind::output, attempt_.index_))) {
    case Started::yes:
      arena.take(bytes);
      attempt_.posted_ = 1;
      ++attempt_.outstanding_;
      return true;
    case Started::no_room:
      return false;
    case Started::invalid:
      attempt_.fail(fmt::format("its output of {} bytes cannot be written", output.size()));
      return true;
    case Started::unreachable:
      attempt_.fail(fmt::format("server {} for its output is gone", key.server));
      return true;
  }
  return true;
}

void NodeAttempt::Storing::on_result(const Result& result) {
  if (result.status != Status::ok) {
    return attempt_.fail(fmt::format("its output cannot be written: {}", to_string(result.status)));
  }
  const bool at_home = result.pointer.server == at_.init.home;
  (at_home ? at_.counters.outputs_home : at_.counters.outputs_elsewhere).add();
  at_.counters.output_bytes.add(attempt_.outcome_.output.size());
  attempt_.outcome_.place = {.address = result.pointer.entry.address,
                             .length = whole_lines(result.pointer.entry.length),
                             .incarnation = result.pointer.entry.incarnation,
                             .server = result.pointer.server};
  Committing(attempt_).begin();
}

}  // namespace rockhopper::dag
