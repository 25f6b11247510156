// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/rc_responder.h"

#include <algorithm>
#include <string>

#include "tests/interop/rc_exchange.h"

namespace rockhopper::interop {
namespace {

constexpr std::byte kUnreceived{0xc3};

std::string peer_operation(const Operation& operation) {
  return "the peer's operation " + std::to_string(operation.index) + " (" +
         std::string(to_string(operation.kind)) + " of " + std::to_string(operation.length) +
         " bytes)";
}

[[noreturn]] void refuse(const Operation& operation, const std::string& why) {
  throw Failure(peer_operation(operation) + ": " + why);
}

}  // namespace

ResponderHalf::ResponderHalf(Endpoint& endpoint, const ScriptOptions& options, Direction direction,
                             std::uint32_t late_receives)
    : endpoint_(endpoint), late_receives_(late_receives), script_(options, direction) {
  Script::fill_region(options, direction, endpoint.region());
}

bool ResponderHalf::begin_phase() {
  posted_ = received_ = 0;
  expected_.clear();
  keys_.clear();
  if (!script_.next(phase_)) return false;
  for (const Operation& operation : phase_.operations) {
    if (consumes_receive(operation.kind)) expected_.push_back(&operation);
  }
  std::fill_n(endpoint_.receive().begin(), phase_.receive_bytes, kUnreceived);
  keys_ = endpoint_.renew_keys(phase_.keys);
  if (late_receives_ == 0) post(expected_.size());
  return true;
}

bool ResponderHalf::post_late() {
  if (posted_ > received_ || posted_ == expected_.size()) return false;
  post(std::min<std::size_t>(late_receives_, expected_.size() - posted_));
  return true;
}

void ResponderHalf::post(std::size_t count) {
  std::vector<Receive> receives;
  for (const std::size_t end = posted_ + count; posted_ < end; ++posted_) {
    const Operation& operation = *expected_[posted_];
    Receive receive;
    receive.id = operation.index;
    receive.pieces = std::min(1 + static_cast<std::uint32_t>(operation.index % kMaxSges),
                              operation.receive_length);
    (void)split(operation.receive_offset, operation.receive_length, receive.pieces, receive.piece);
    receives.push_back(receive);
  }
  endpoint_.post(receives);
}

void ResponderHalf::on_completion(const Completed& completed) {
  if (!completed.success) {
    throw Failure("receive " + std::to_string(completed.id) + " completed with " +
                  completed.status);
  }
  if (received_ == posted_) throw Failure("a receive completion too many");
  const Operation& operation = *expected_[received_++];
  if (completed.id != operation.index) {
    refuse(operation, "receives out of order: got " + std::to_string(completed.id));
  }
  check_receive(operation, completed);
  if (completed.has_invalidated) endpoint_.on_invalidated(completed.invalidated);
  ++messages_;
  bytes_ += operation.length;
}

void ResponderHalf::check_receive(const Operation& operation, const Completed& completed) const {
  const bool immediate =
      operation.kind == OperationKind::send_imm || operation.kind == OperationKind::write_imm;
  if (completed.rdma_write != is_write(operation.kind)) {
    refuse(operation, "wrong opcode in the completion");
  }
  if (completed.length != operation.length) {
    refuse(operation, "length in the completion is " + std::to_string(completed.length));
  }
  if (completed.has_immediate != immediate ||
      (immediate && completed.immediate != operation.immediate)) {
    refuse(operation, "wrong immediate");
  }
  const bool invalidates = operation.kind == OperationKind::send_inv;
  if (completed.has_invalidated != invalidates ||
      (invalidates && completed.invalidated != keys_.at(static_cast<std::size_t>(operation.key)))) {
    refuse(operation, completed.has_invalidated
                          ? "invalidated key " + std::to_string(completed.invalidated)
                          : "no invalidated key");
  }
  const std::uint32_t written = is_send(operation.kind) ? operation.length : 0;
  const std::span<const std::byte> buffer =
      endpoint_.receive().subspan(operation.receive_offset, operation.receive_length + kGuardBytes);
  const std::size_t at = pattern_check(script_.pattern(operation), buffer.first(written));
  if (at != written) refuse(operation, "wrong byte at " + std::to_string(at));
  const auto rest = buffer.subspan(written);
  if (!std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == kUnreceived; })) {
    refuse(operation, "wrote beyond the message");
  }
}

void ResponderHalf::check_region() const {
  const std::span<const std::byte> model = script_.region();
  const auto differs = std::mismatch(model.begin(), model.end(), endpoint_.region().begin()).first;
  if (differs != model.end()) {
    throw Failure("region differs from the model at byte " +
                  std::to_string(differs - model.begin()) + " after phase " +
                  std::to_string(phase_.index));
  }
}

nlohmann::json ResponderHalf::summary() const {
  return {{"messages", messages_}, {"bytes", bytes_}};
}

nlohmann::json ResponderHalf::progress() const {
  nlohmann::json result = {{"phase", phase_.index},
                           {"receives", expected_.size()},
                           {"posted", posted_},
                           {"received", received_}};
  if (received_ < expected_.size()) result["next"] = peer_operation(*expected_[received_]);
  return result;
}

}  // namespace rockhopper::interop
