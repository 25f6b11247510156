// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/requesting.h"

#include <algorithm>
#include <cstddef>

#include "apps/services/dag/client_area.h"
#include "apps/services/dag/client_parts.h"
#include "apps/services/dag/reading.h"

namespace rockhopper::dag {
namespace {

/// Times that an operation asks for an entry and finds it stale.
constexpr std::uint8_t kLookupsMax = 16;

}  // namespace

void Operation::Requesting::begin(const Request& request, std::span<const std::byte> data) {
  Asked& asked = operation_.asked_;
  std::copy(data.begin(), data.end(), operation_.memory_.buffer);
  asked.request = request;
  asked.request.key = operation_.key();
  asked.request.data = {operation_.memory_.buffer, data.size()};
  asked.is_taken = false;
  asked.response.reset();
  operation_.enter(Stage::waiting);
  if (!operation_.link_->is_connected()) {
    operation_.is_failed_ = true;
    return client_.operations.arm(operation_, client_.now_ns);
  }
  // Its time begins with the next turn: the last one may have been long ago.
  client_.operations.arm(operation_, kNextTurn);
  operation_.link_->wait_for_word(operation_);
}

void Operation::Requesting::look_up() {
  operation_.is_pinned_ = false;
  if (operation_.key().empty()) return operation_.finish(Status::not_found);
  if (operation_.search_.on_asked() > kLookupsMax) return operation_.finish(Status::contended);
  client_.counters.lookups.add();
  begin({.type = RequestType::lookup});
}

void Operation::Requesting::on_word(std::uint64_t id) {
  Asked& asked = operation_.asked_;
  asked.id = asked.request.id = id;
  asked.length =
      static_cast<std::uint32_t>(emit(asked.request, {operation_.memory_.request, kRequestMax}));
  send();
}

void Operation::Requesting::send() {
  operation_.enter(Stage::requesting);
  operation_.pin(false);
  operation_.work_.add({.opcode = roce::WrOpcode::send,
                        .local = operation_.memory_.request,
                        .length = operation_.asked_.length});
  operation_.submit();
}

/// Without any answer.
Status Operation::Requesting::status_of_lost() const {
  return operation_.asked_.request.type == RequestType::lookup ? Status::unreachable
                                                               : Status::outcome_unknown;
}

void Operation::Requesting::on_sent() {
  if (operation_.asked_.response) return take_answer();
  if (operation_.is_failed_) return operation_.finish(status_of_lost());
  if (operation_.work_.size() > 0 && operation_.work_[0].is_unknown()) {
    client_.counters.requests_repeated.add();
    send();
  }
}

void Operation::Requesting::time_out() {
  client_.counters.timeouts.add();
  operation_.finish(Status::timed_out);
}

void Operation::Requesting::on_timeout() {
  RequestWords& words = operation_.link_->words();
  const bool was_linked = operation_.hook.is_linked();
  operation_.link_->forget(operation_);
  if (operation_.stage_ == Stage::waiting) {
    return operation_.is_failed_ ? operation_.finish(Status::unreachable) : time_out();
  }
  const Asked& asked = operation_.asked_;
  if (operation_.is_failed_) {
    if (!operation_.work_.is_outstanding()) on_sent();
  } else if (was_linked) {
    words.withdraw(asked.id);  // it has not been sent at all
    time_out();
  } else if (!asked.is_taken) {
    cancel();
  } else if (operation_.work_.is_outstanding()) {
    client_.operations.arm(operation_, client_.now_ns + client_.config.request_timeout_ns);
  } else {
    // The server took it, and has not answered since.
    words.forsake(asked.id);
    client_.counters.timeouts.add();
    operation_.finish(status_of_lost());
  }
}

/// Whoever changes the request's word first decides whether it is executed (RequestWord).
void Operation::Requesting::cancel() {
  const std::uint64_t id = operation_.asked_.id;
  operation_.stage_ = Stage::canceling;
  operation_.add_atomic(roce::WrOpcode::atomic_cmp_and_swp, 0,
                        offsetof(ClientArea, words) + sizeof(std::uint64_t) * word_of(id),
                        operation_.link_->grant().area_key, operation_.link_->words().known(id),
                        RequestWord{.id = id, .canceled = true}.bits());
  operation_.submit();
}

void Operation::Requesting::on_canceled() {
  Asked& asked = operation_.asked_;
  if (asked.response) return take_answer();
  if (operation_.is_failed_) return operation_.finish(status_of_lost());
  if (operation_.work_.back().is_unknown()) {
    operation_.work_.make_room();
    return cancel();
  }
  RequestWords& words = operation_.link_->words();
  const std::uint64_t canceled = RequestWord{.id = asked.id, .canceled = true}.bits();
  const std::uint64_t found = operation_.memory_.results[0];
  if (found != words.known(asked.id) && found != canceled) {
    // The server was first: the answer is on its way.
    asked.is_taken = true;
    operation_.enter(Stage::requesting);
    return client_.operations.arm(operation_, client_.now_ns + client_.config.request_timeout_ns);
  }
  words.on_canceled(asked.id, operation_.work_[0].status == roce::WcStatus::success);
  time_out();
}

// Answers.

void Operation::Requesting::take_answer() {
  const Response response = *operation_.asked_.response;
  operation_.asked_.response.reset();
  operation_.timer_ns_ = UINT64_MAX;
  if (response.status == Status::canceled) return time_out();
  switch (operation_.kind_) {
    case Kind::ask:
      return operation_.finish(Result{.status = response.status, .value = response.value});
    case Kind::release_arena:
    case Kind::release_group:
      return operation_.finish(response.status);
    default:
      break;
  }
  if (response.status != Status::ok) return operation_.finish(response.status);
  if (!operation_.link_->is_good(response.entry) || response.entry.incarnation == 0) {
    client_.counters.rx_bad_entry.add();
    return operation_.finish(Status::damaged);
  }
  take_entry(response.entry);
}

/// Nothing but an answer changes the map (DG-16).
void Operation::Requesting::take_entry(const Entry& entry) {
  operation_.search_.set_only(entry);
  const Kind kind = operation_.kind_;
  Result result{.version = {.incarnation = entry.incarnation, .version = 1}};
  if (kind == Kind::erase) client_.directory.erase(operation_.link_->server(), entry);
  if (kind == Kind::erase || kind == Kind::allocate_arena) return operation_.finish(result);
  client_.counters.entries.add();
  if (client_.directory.insert(operation_.link_->server(), entry)) client_.counters.evictions.add();
  switch (kind) {
    case Kind::create:
    case Kind::resize:
    case Kind::adopt:
      return operation_.finish(result);
    case Kind::lookup:
      return operation_.finish(Status::ok);
    default:
      return Reading(operation_).read_next();
  }
}

}  // namespace rockhopper::dag
