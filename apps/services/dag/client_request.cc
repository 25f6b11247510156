// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a server is asked, and its answers.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "apps/services/dag/client.h"
#include "apps/services/dag/client_state.h"

namespace rockhopper::dag {
namespace {

/// Times that an operation asks for an entry and finds it stale.
constexpr std::uint8_t kLookupsMax = 16;

bool changes(RequestType type) { return type != RequestType::lookup; }

/// Without any answer.
Status status_of_lost(const Request& request) {
  return changes(request.type) ? Status::outcome_unknown : Status::unreachable;
}

}  // namespace

Started Client::create(Key key, std::span<const std::byte> data, const CreateOptions& options,
                       std::uint64_t context) {
  if (key.empty() || data.size() > kCreateDataMax) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(Kind::create, server_of(key), key, context, &operation);
  if (started != Started::yes) return started;
  if (!data.empty()) std::memcpy(operation->buffer, data.data(), data.size());
  operation->request = {
      .type = RequestType::create,
      .slots = static_cast<std::uint8_t>(options.fixed ? 1 : 2),
      .capacity = std::max(options.capacity, static_cast<std::uint32_t>(data.size())),
      .control = options.control,
      .key = operation->key(),
      .data = {operation->buffer, data.size()}};
  request(*operation);
  return started;
}

Started Client::erase(Key key, std::uint64_t context) {
  if (key.empty()) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(Kind::erase, server_of(key), key, context, &operation);
  if (started != Started::yes) return started;
  operation->request = {.type = RequestType::erase, .key = operation->key()};
  request(*operation);
  return started;
}

Started Client::lookup(Key key, std::uint64_t context) {
  if (key.empty()) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(Kind::lookup, server_of(key), key, context, &operation);
  if (started == Started::yes) ask_lookup(*operation);
  return started;
}

Started Client::resize(Key key, std::uint32_t capacity, std::uint64_t context) {
  if (key.empty()) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(Kind::resize, server_of(key), key, context, &operation);
  if (started != Started::yes) return started;
  operation->request = {.type = RequestType::resize, .capacity = capacity, .key = operation->key()};
  request(*operation);
  return started;
}

Started Client::allocate_arena(std::uint16_t server, std::uint64_t bytes, std::uint64_t context,
                               std::span<const std::byte> group) {
  Operation* operation = nullptr;
  const Started started = begin(Kind::allocate_arena, server, group, context, &operation);
  if (started != Started::yes) return started;
  operation->request = {
      .type = RequestType::allocate_arena, .bytes = bytes, .key = operation->key()};
  request(*operation);
  return started;
}

Started Client::adopt(const Pointer& record, Key key, std::uint64_t context) {
  if (key.empty() || !is_good(record)) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(Kind::adopt, record.server, key, context, &operation);
  if (started != Started::yes) return started;
  operation->request = {.type = RequestType::adopt,
                        .address = record.entry.address,
                        .incarnation = record.entry.incarnation,
                        .bytes = record.entry.length,
                        .key = operation->key()};
  request(*operation);
  return started;
}

Started Client::release_arena(const Pointer& arena, std::uint64_t context) {
  if (!is_good(arena)) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(Kind::release_arena, arena.server, {}, context, &operation);
  if (started != Started::yes) return started;
  operation->request = {.type = RequestType::release_arena, .address = arena.entry.address};
  request(*operation);
  return started;
}

Started Client::release_group(std::uint16_t server, std::span<const std::byte> group,
                              std::uint64_t context) {
  if (group.empty()) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(Kind::release_group, server, group, context, &operation);
  if (started != Started::yes) return started;
  operation->request = {.type = RequestType::release_group, .key = operation->key()};
  request(*operation);
  return started;
}

Started Client::ask(std::uint16_t server, std::uint8_t code, std::span<const std::byte> name,
                    std::span<const std::byte> data, std::uint64_t value, std::uint64_t context) {
  if (data.size() > kCreateDataMax) return Started::invalid;
  Operation* operation = nullptr;
  const Started started = begin(Kind::ask, server, name, context, &operation);
  if (started != Started::yes) return started;
  if (!data.empty()) std::memcpy(operation->buffer, data.data(), data.size());
  operation->request = {.type = RequestType::application,
                        .code = code,
                        .value = value,
                        .key = operation->key(),
                        .data = {operation->buffer, data.size()}};
  request(*operation);
  return started;
}

/// Falls back on the server, whose answer refreshes the entry (DG-31).
void Client::ask_lookup(Operation& operation) {
  operation.looked_up = true;
  operation.pinned = false;
  if (operation.key_length == 0) return finish(operation, Status::not_found);
  if (++operation.lookups > kLookupsMax) return finish(operation, Status::contended);
  counters_.lookups.add();
  operation.request = {.type = RequestType::lookup, .key = operation.key()};
  request(operation);
}

void Client::request(Operation& operation) {
  clear_work(operation);
  Link& link = link_of(operation);
  operation.stage = Stage::waiting;
  operation.taken = false;
  operation.response.reset();
  if (!link.connected) {
    operation.failed = true;
    return sleep_until(operation, now_ns_);
  }
  // Its time begins with the next turn: the last one may have been long ago.
  operation.timer_ns = kNextTurn;
  next_timer_ns_ = 0;
  link.waiting.push_back(operation);
  admit_waiting(link);
}

/// As many as there are request words for: then none overruns the server's receives, however long
/// it stands still, and READs behind them go on.
void Client::admit_waiting(Link& link) {
  while (!link.waiting.empty()) {
    const auto slot = std::find_if(link.slots.begin(), link.slots.end(),
                                   [](const Link::Slot& candidate) { return !candidate.busy; });
    if (slot == link.slots.end()) return;
    Operation& operation = link.waiting.front();
    link.waiting.pop_front();
    slot->busy = slot->awaited = true;
    slot->id =
        link.next_id++ * kRequestWords + static_cast<std::uint64_t>(slot - link.slots.begin());
    slot->operation = operation.index;
    operation.request.id = operation.request_id = slot->id;
    operation.request_length =
        static_cast<std::uint32_t>(emit(operation.request, {operation.request_bytes, kRequestMax}));
    send_request(operation);
  }
}

void Client::send_request(Operation& operation) {
  clear_work(operation);
  operation.stage = Stage::requesting;
  pin(operation, false);
  Work& work = add_work(operation);
  work.opcode = roce::WrOpcode::send;
  work.local = operation.request_bytes;
  work.length = operation.request_length;
  submit(operation);
}

/// It has been sent, or its answer has come, or both.
void Client::on_request(Operation& operation) {
  if (operation.response) return on_response(operation, *operation.response);
  if (operation.failed) return finish(operation, status_of_lost(operation.request));
  if (operation.work_count > 0 && operation.works[0].status == roce::WcStatus::outcome_unknown) {
    counters_.requests_repeated.add();
    send_request(operation);
  }
}

void Client::on_request_timeout(Operation& operation) {
  Link& link = link_of(operation);
  if (operation.stage == Stage::waiting) {
    if (operation.hook.is_linked()) link.waiting.erase(link.waiting.iterator_to(operation));
    if (operation.failed) return finish(operation, Status::unreachable);
    counters_.timeouts.add();
    return finish(operation, Status::timed_out);
  }
  if (operation.failed) {
    if (operation.outstanding == 0) on_request(operation);
    return;
  }
  Link::Slot& slot = link.slots[word_of(operation.request_id)];
  if (operation.hook.is_linked()) {
    // It has not been sent at all.
    link.to_post.erase(link.to_post.iterator_to(operation));
    slot.busy = slot.awaited = false;
    counters_.timeouts.add();
    return finish(operation, Status::timed_out);
  }
  if (!operation.taken) return cancel(operation);
  // The server took it, and has not answered since.
  if (operation.outstanding > 0) {
    return sleep_until(operation, now_ns_ + config_.request_timeout_ns);
  }
  forsake(operation);
  counters_.timeouts.add();
  finish(operation, status_of_lost(operation.request));
}

/// Whoever changes the request's word first decides whether it is executed (RequestWord).
void Client::cancel(Operation& operation) {
  const Link& link = link_of(operation);
  const std::size_t word = word_of(operation.request_id);
  operation.stage = Stage::canceling;
  add_compare_swap(operation, 0, offsetof(ClientArea, words) + 8 * word, link.grant.area_key,
                   link.slots[word].known,
                   RequestWord{.id = operation.request_id, .canceled = true}.bits());
  submit(operation);
}

void Client::forsake(Operation& operation) {
  link_of(operation).slots[word_of(operation.request_id)].awaited = false;
}

void Client::on_cancel(Operation& operation) {
  if (operation.response) return on_response(operation, *operation.response);
  if (operation.failed) return finish(operation, status_of_lost(operation.request));
  Link::Slot& slot = link_of(operation).slots[word_of(operation.request_id)];
  const std::uint64_t canceled = RequestWord{.id = operation.request_id, .canceled = true}.bits();
  const bool sent = operation.works[0].status == roce::WcStatus::success;
  if (operation.works[operation.work_count - 1].status == roce::WcStatus::outcome_unknown) {
    if (operation.work_count == operation.works.size()) --operation.work_count;
    operation.posted = std::min(operation.posted, operation.work_count);
    return cancel(operation);
  }
  const std::uint64_t found = operation.results[0];
  if (found != slot.known && found != canceled) {
    // The server was first: the answer is on its way.
    operation.taken = true;
    operation.stage = Stage::requesting;
    operation.work_count = operation.posted = 0;
    return sleep_until(operation, now_ns_ + config_.request_timeout_ns);
  }
  slot.known = canceled;
  slot.awaited = false;
  // Its receipt makes the word free, unless it never arrived.
  if (!sent) slot.busy = false;
  counters_.timeouts.add();
  finish(operation, Status::timed_out);
}

// Answers.

bool Client::poll_receives(Link& link) {
  return link.receives->poll([&](const roce::Completion&, std::span<const std::byte> bytes) {
    if (bytes.empty()) {
      counters_.rx_failed.add();
    } else {
      accept(link, bytes);
    }
  });
}

void Client::accept(Link& link, std::span<const std::byte> bytes) {
  const auto response = parse_response(bytes);
  if (!response) {
    counters_.rx_malformed.add();
    return;
  }
  Link::Slot& slot = link.slots[word_of(response->id)];
  if (!slot.busy || slot.id != response->id) {
    counters_.rx_unexpected.add();
    return;
  }
  slot.busy = false;
  slot.known =
      RequestWord{.id = response->id, .canceled = response->status == Status::canceled}.bits();
  if (slot.awaited) {
    slot.awaited = false;
    Operation& operation = operations_[slot.operation];
    operation.response = *response;
    if (operation.outstanding == 0 && !operation.hook.is_linked() &&
        operation.stage == Stage::requesting) {
      on_request(operation);
    }
  }
  admit_waiting(link);
}

void Client::on_response(Operation& operation, const Response& given) {
  const Response response = given;
  operation.timer_ns = UINT64_MAX;
  operation.response.reset();
  if (response.status == Status::canceled) {
    counters_.timeouts.add();
    return finish(operation, Status::timed_out);
  }
  if (operation.kind == Kind::ask) {
    return finish(operation, Result{.status = response.status, .value = response.value});
  }
  if (response.status != Status::ok || !operation.has_place()) {
    return finish(operation, response.status);
  }
  const Entry& entry = response.entry;
  if (!is_good({.server = operation.server, .entry = entry}) || entry.incarnation == 0) {
    counters_.rx_bad_entry.add();
    return finish(operation, Status::damaged);
  }
  operation.entry = entry;
  Result result{.version = {.incarnation = entry.incarnation, .version = 1}};
  switch (operation.kind) {
    case Kind::erase:
      directory_.erase(operation.server, entry);
      return finish(operation, result);
    case Kind::allocate_arena:
      return finish(operation, result);
    default:
      break;
  }
  // Nothing but an answer changes the map (DG-16).
  counters_.entries.add();
  if (directory_.insert(operation.server, entry)) counters_.evictions.add();
  switch (operation.kind) {
    case Kind::create:
    case Kind::resize:
    case Kind::adopt:
    case Kind::lookup:
      if (operation.kind == Kind::lookup) result.version = {};
      return finish(operation, result);
    default:
      break;
  }
  operation.candidates[0] = entry;
  operation.candidate_count = 1;
  operation.first = 0;
  read_candidates(operation);
}

}  // namespace rockhopper::dag
