// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/operation.h"

#include <algorithm>
#include <cassert>

#include "apps/services/dag/client_parts.h"
#include "apps/services/dag/control_word.h"
#include "apps/services/dag/reading.h"
#include "apps/services/dag/requesting.h"
#include "apps/services/dag/updating.h"
#include "apps/services/dag/writing.h"

namespace rockhopper::dag {
namespace {

/// The result is a record or an arena.
bool has_place(Kind kind) {
  return kind != Kind::release_arena && kind != Kind::release_group && kind != Kind::ask;
}

}  // namespace

void Operation::begin(Kind kind, ServerLink& link, std::span<const std::byte> key,
                      std::uint64_t context) {
  assert(!is_active() && is_quiet() && key.size() <= key_.size());
  link_ = &link;
  link.on_begun();
  kind_ = kind;
  context_ = context;
  std::copy(key.begin(), key.end(), key_.begin());
  key_length_ = static_cast<std::uint16_t>(key.size());
  is_failed_ = is_told_ = is_pinned_ = false;
  timer_ns_ = UINT64_MAX;
  work_.clear();
  search_.reset();
  update_ = {};
  asked_ = {};
}

// Events.

void Operation::on_completion(std::size_t work, roce::WcStatus status) {
  assert(is_active());
  work_.on_complete(work, status);
  if (status == roce::WcStatus::outcome_unknown) {
    client_.counters.outcomes_unknown.add();
  } else if (status != roce::WcStatus::success) {
    is_failed_ = true;
    link_->mark_lost();
  }
  if (is_quiet()) advance();
}

void Operation::on_answer(const Response& response) {
  asked_.response = response;
  if (is_quiet() && stage_ == Stage::requesting) Requesting(*this).on_sent();
}

void Operation::on_link_lost() {
  // What is complete but for the answer is told as it was.
  if (work_.is_outstanding() && work_.is_posted()) return;
  work_.give_up();
  is_failed_ = true;
  if (!work_.is_outstanding()) client_.operations.arm(*this, client_.now_ns);
}

void Operation::on_word(std::uint64_t request_id) { Requesting(*this).on_word(request_id); }

void Operation::on_timer() {
  switch (stage_) {
    case Stage::waiting:
    case Stage::requesting:
      return Requesting(*this).on_timeout();
    case Stage::sleeping:
      return Reading(*this).read_next();
    default:
      // Its link had gone when it was to be posted.
      if (!work_.is_outstanding()) advance();
      return;
  }
}

/// What was posted is complete, or never will be.
void Operation::advance() {
  switch (stage_) {
    case Stage::reading:
      return Reading(*this).on_read();
    case Stage::atomic:
      return ControlWord(*this).on_executed();
    case Stage::locking:
      return Updating(*this).on_locked();
    case Stage::swinging:
      return Updating(*this).on_swung();
    case Stage::unlocking:
      return Updating(*this).on_unlocked();
    case Stage::writing:
      return Writing(*this).on_written();
    case Stage::requesting:
      return Requesting(*this).on_sent();
    case Stage::canceling:
      return Requesting(*this).on_canceled();
    case Stage::waiting:
    case Stage::sleeping:
      return;
  }
}

// Requests to the transport.

void Operation::enter(Stage stage) {
  assert(is_quiet());
  work_.clear();
  stage_ = stage;
}

/// What it `changes` takes effect before the lease has been renewed twice more.
void Operation::pin(bool changes) {
  is_pinned_ = changes;
  pin_ = link_->lease().posted();
}

void Operation::add_read(const Entry& entry, std::uint32_t length, std::byte* to) {
  work_.add({.local = to, .length = length, .remote = entry.address, .rkey = entry.rkey});
}

void Operation::add_write(std::byte* from, std::size_t length, std::uint64_t remote,
                          roce::MemoryKey rkey) {
  work_.add({.opcode = roce::WrOpcode::rdma_write,
             .local = from,
             .length = static_cast<std::uint32_t>(length),
             .remote = remote,
             .rkey = rkey});
}

void Operation::add_atomic(roce::WrOpcode opcode, unsigned result, std::uint64_t address,
                           roce::MemoryKey rkey, std::uint64_t compare_add, std::uint64_t swap) {
  work_.add({.opcode = opcode,
             .local = reinterpret_cast<std::byte*>(memory_.results + result),
             .length = sizeof(std::uint64_t),
             .remote = address,
             .rkey = rkey,
             .compare_add = compare_add,
             .swap = swap});
}

std::byte* Operation::head_room() const {
  const std::uint32_t length = update_.data_length;
  return memory_.buffer + (length == 0 ? 0 : whole_lines(sizeof(SlotHeader) + length));
}

/// Posts what has been added, now or when there is room; advance() follows.
void Operation::submit() {
  if (!link_->is_connected()) is_failed_ = true;
  if (!is_failed_) return link_->post(*this);
  work_.give_up();
  if (!work_.is_outstanding()) client_.operations.arm(*this, client_.now_ns);
}

/// Reads the candidates once more at that time.
void Operation::retry_at(std::uint64_t when_ns) {
  stage_ = Stage::sleeping;
  is_pinned_ = false;
  client_.operations.arm(*this, when_ns);
}

// The result.

void Operation::tell(Result result) {
  assert(!is_told_);
  is_told_ = true;
  result.context = context_;
  result.kind = kind_;
  if (result.status == Status::ok && has_place(kind_)) {
    result.pointer = {.server = link_->server(), .entry = search_.entry(), .validated = pin_ + 1};
  }
  client_.listener.on_result(result);
}

void Operation::finish(const Result& result) {
  assert(is_quiet());
  if (!is_told_) tell(result);
  link_->on_ended();
  link_ = nullptr;
  client_.operations.put_back(*this);
}

}  // namespace rockhopper::dag
