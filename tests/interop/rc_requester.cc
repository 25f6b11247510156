// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/rc_requester.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "tests/interop/rc_exchange.h"

namespace rockhopper::interop {
namespace {

constexpr std::byte kUnwritten{0x5a};
constexpr std::size_t kBatch = 16;

std::string name(const Operation& operation) {
  return "operation " + std::to_string(operation.index) + " (" +
         std::string(to_string(operation.kind)) + " of " + std::to_string(operation.length) +
         " bytes)";
}

}  // namespace

RequesterHalf::RequesterHalf(Endpoint& endpoint, const ScriptOptions& options, Direction direction,
                             bool wait_for_fence)
    : endpoint_(endpoint),
      window_(options.window),
      wait_for_fence_(wait_for_fence),
      script_(options, direction) {}

bool RequesterHalf::begin_phase() {
  posted_ = completed_ = 0;
  started_ = false;
  if (!script_.next(phase_)) {
    phase_.operations.clear();
    return false;
  }
  const std::span<std::byte> local = endpoint_.local();
  std::fill_n(local.begin(), phase_.local_bytes, kUnwritten);
  for (const Operation& operation : phase_.operations) {
    if (is_send(operation.kind) || is_write(operation.kind) ||
        operation.kind == OperationKind::atomic_write) {
      pattern_fill(script_.pattern(operation),
                   local.subspan(operation.local_offset, operation.length));
    }
  }
  return true;
}

void RequesterHalf::start(const RemoteRegion& region, std::vector<std::uint32_t> keys) {
  if (keys.size() < phase_.keys) throw Failure("the peer gave too few keys");
  region_ = region;
  keys_ = std::move(keys);
  started_ = true;
}

bool RequesterHalf::post() {
  if (!started_) return false;
  batch_.clear();
  while (batch_.size() < kBatch && may_post()) {
    batch_.push_back(to_request(phase_.operations[posted_++]));
  }
  if (batch_.empty()) return false;
  endpoint_.post(batch_);
  return true;
}

bool RequesterHalf::may_post() const {
  if (posted_ == phase_.operations.size() || posted_ - completed_ >= window_) return false;
  return !wait_for_fence_ || !phase_.operations[posted_].fenced || completed_ == posted_;
}

Request RequesterHalf::to_request(const Operation& operation) const {
  Request request;
  request.id = operation.index;
  request.kind = operation.kind;
  request.fenced = operation.fenced && !wait_for_fence_;
  request.signalled = operation.signalled;
  request.solicited = operation.solicited;
  request.immediate = operation.immediate;
  request.remote_addr = region_.addr + operation.remote_offset;
  request.rkey = operation.key < 0 ? region_.rkey : keys_[static_cast<std::size_t>(operation.key)];
  request.compare = operation.compare;
  request.swap_or_add = operation.swap_or_add;
  request.flush_length = operation.length;
  request.pieces = operation.sges;
  (void)split(operation.local_offset, operation.length, operation.sges, request.piece);
  return request;
}

void RequesterHalf::on_completion(const Completed& completed) {
  if (!completed.success) {
    throw Failure("request " + std::to_string(completed.id) + " completed with " +
                  completed.status);
  }
  while (completed_ < posted_) {
    const Operation& operation = phase_.operations[completed_++];
    if (operation.signalled && operation.index != completed.id) {
      throw Failure("completions out of order: got " + std::to_string(completed.id) +
                    ", expected " + name(operation));
    }
    check_result(operation);
    if (operation.signalled) return;
  }
  throw Failure("a completion too many: " + std::to_string(completed.id));
}

void RequesterHalf::check_result(const Operation& operation) {
  // A FLUSH has no buffer of its own.
  if (operation.kind == OperationKind::flush) {
    count(operation);
    return;
  }
  const std::span<const std::byte> buffer =
      endpoint_.local().subspan(operation.local_offset, operation.length + kGuardBytes);
  if (operation.kind == OperationKind::read) {
    const auto* expected = phase_.expected.data() + operation.expected_offset;
    if (std::memcmp(buffer.data(), expected, operation.length) != 0) {
      const auto at = std::mismatch(expected, expected + operation.length, buffer.data()).first;
      throw Failure(name(operation) + ": wrong byte at " + std::to_string(at - expected));
    }
  } else if (is_atomic(operation.kind)) {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.data(), sizeof value);
    if (value != operation.expected) {
      throw Failure(name(operation) + ": returned " + std::to_string(value) + ", expected " +
                    std::to_string(operation.expected));
    }
  }
  const auto guard = buffer.subspan(operation.length);
  if (!std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == kUnwritten; })) {
    throw Failure(name(operation) + ": wrote beyond its local buffer");
  }
  count(operation);
}

void RequesterHalf::count(const Operation& operation) {
  ++count_[static_cast<std::size_t>(operation.kind)];
  ++done_;
  bytes_ += operation.length;
}

nlohmann::json RequesterHalf::summary() const {
  nlohmann::json operations = nlohmann::json::object();
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    if (kind < kUsualKinds || count_[kind] > 0) {
      operations[std::string(to_string(static_cast<OperationKind>(kind)))] = count_[kind];
    }
  }
  return {{"operations", operations}, {"bytes", bytes_}};
}

nlohmann::json RequesterHalf::progress() const {
  nlohmann::json result = {{"phase", phase_.index},
                           {"operations", phase_.operations.size()},
                           {"posted", posted_},
                           {"completed", completed_},
                           {"peer_ready", started_}};
  if (completed_ < posted_) result["oldest"] = name(phase_.operations[completed_]);
  return result;
}

}  // namespace rockhopper::interop
