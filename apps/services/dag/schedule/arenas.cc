// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/arenas.h"

#include <algorithm>
#include <cassert>

#include "apps/services/dag/schedule/run_group.h"

namespace rockhopper::dag {

std::optional<Status> OutputArena::failure_of(Request request) const {
  return request != 0 && request == failed_ ? std::optional(why_) : std::nullopt;
}

bool OutputArena::has_room(std::uint64_t bytes) const {
  return bytes <= arena_.entry.length && used_ <= arena_.entry.length - bytes;
}

Client::ArenaPlace OutputArena::next() const {
  return {.arena = arena_, .offset = used_, .number = used_ / Store::kArenaStep};
}

void OutputArena::take(std::uint64_t bytes) {
  assert(bytes % kRecordAlignment == 0 && has_room(bytes));
  used_ += bytes;
}

OutputArena::Request OutputArena::ask() {
  assert(!asking_);
  asking_ = true;
  return ++requests_;
}

void OutputArena::on_answer(Status status, const Pointer& pointer) {
  assert(asking_);
  asking_ = false;
  if (status != Status::ok) {
    failed_ = requests_;
    why_ = status;
    return;
  }
  arena_ = pointer;
  used_ = 0;
}

std::uint32_t Arenas::number_of(const Key& key) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(key.run) & 0xff) << 16 | key.server;
}

void Arenas::on_another_run(std::uint8_t slot, RunId run, std::uint16_t servers) {
  if (slot >= slots_.size()) slots_.resize(slot + std::size_t{1});
  slots_[slot] = {.run = run, .servers = std::vector<OutputArena>(servers)};
}

void Arenas::on_server_lost(std::uint16_t server) {
  for (Slot& slot : slots_) {
    if (server < slot.servers.size()) slot.servers[server].forget();
  }
}

OutputArena::Request Arenas::ask(const Key& key, std::string_view run_name, std::uint64_t bytes,
                                 std::uint64_t context) {
  const Started started = client_.allocate_arena(key.server, std::max(whole_lines(bytes_), bytes),
                                                 context, RunGroup(run_name, key.run).bytes());
  if (started == Started::no_room) return 0;
  OutputArena& arena = at(key);
  const OutputArena::Request request = arena.ask();
  if (started == Started::yes) {
    counters_.arenas.add();
    ++asking_;
  } else {
    arena.on_answer(Status::unreachable, {});
  }
  return request;
}

bool Arenas::on_result(std::uint32_t slot, std::uint32_t number, const Result& result) {
  assert(asking_ > 0);
  --asking_;
  const auto server = static_cast<std::uint16_t>(number);
  if (slot >= slots_.size() || server >= slots_[slot].servers.size()) return false;
  const Key key{.slot = static_cast<std::uint8_t>(slot), .run = slots_[slot].run, .server = server};
  if (number != number_of(key) || !at(key).is_asking()) return false;
  at(key).on_answer(result.status, result.pointer);
  return true;
}

}  // namespace rockhopper::dag
