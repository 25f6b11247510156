// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a channel accepts as an outcome.
#include <algorithm>
#include <cstring>

#include "tests/sim/rc_channel.h"

namespace rockhopper::sim {
namespace {

using roce::WcOpcode;
using roce::WcStatus;
using roce::WrOpcode;

WcOpcode completion_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm:
      return WcOpcode::rdma_write;
    case WrOpcode::rdma_read:
      return WcOpcode::rdma_read;
    case WrOpcode::atomic_cmp_and_swp:
      return WcOpcode::comp_swap;
    case WrOpcode::atomic_fetch_and_add:
      return WcOpcode::fetch_add;
    case WrOpcode::local_inv:
      return WcOpcode::local_inv;
    case WrOpcode::bind_mw:
      return WcOpcode::bind_mw;
    case WrOpcode::reg_mr:
      return WcOpcode::reg_mr;
    case WrOpcode::flush:
      return WcOpcode::flush;
    case WrOpcode::atomic_write:
      return WcOpcode::atomic_write;
    case WrOpcode::masked_atomic_cmp_and_swp:
      return WcOpcode::masked_comp_swap;
    case WrOpcode::masked_atomic_fetch_and_add:
      return WcOpcode::masked_fetch_add;
    case WrOpcode::send:
    case WrOpcode::send_with_imm:
    case WrOpcode::send_with_inv:
    case WrOpcode::lock_acquire:  // sim-lock's
    case WrOpcode::lock_release:
    case WrOpcode::lock_cancel:
      break;
  }
  return WcOpcode::send;
}

}  // namespace

void RcChannel::fail(std::string text) {
  if (error_.empty()) error_ = fmt::format("channel {}: {}", id_, text);
}

std::string RcChannel::describe() const {
  std::uint32_t claimed = 0;
  std::uint32_t received = 0;
  for (const Destination& destination : destinations_) {
    claimed += destination.claimed;
    received += destination.received;
  }
  std::string text = fmt::format(
      "channel {}: {} of {} requests posted, {} outstanding, {} receives claimed, {} posted, {} "
      "done",
      id_, posted_, settings_.ops, requests_.size(), claimed, receives_posted_, received);
  if (!requests_.empty()) {
    const Request& oldest = requests_.front();
    text += fmt::format(
        "; oldest: number {}, opcode {}, {} bytes, {}signalled; queue pair {} in {}, "
        "{} in its send queue",
        oldest.number, static_cast<int>(oldest.opcode), oldest.length, oldest.signalled ? "" : "un",
        requester_.qp->number().value, roce::to_string(requester_.qp->state()),
        requester_.qp->send_queue_depth());
  }
  return text;
}

bool RcChannel::idle() const {
  return requests_.empty() &&
         std::all_of(destinations_.begin(), destinations_.end(),
                     [](const Destination& d) { return d.received == d.claimed; });
}

/// Whose receive has completed; null if it is none of this channel's.
const RcChannel::Destination* RcChannel::find_destination(
    const roce::Completion& completion) const {
  for (const Destination& destination : destinations_) {
    const bool here = destination.receives == nullptr
                          ? completion.wr_id >> 32 == 2ull * id_ + 1
                          : destination.receives->owns(completion.wr_id) &&
                                completion.qp_num == responder_.qp->number();
    if (here) return &destination;
  }
  return nullptr;
}

void RcChannel::on_send_completion(const roce::Completion& completion) {
  if (completion.qp_num != requester_.qp->number()) {
    return fail(fmt::format("completion of request {:#x} names QP {:#x}", completion.wr_id,
                            completion.qp_num.value));
  }
  if (completion.status != WcStatus::success) return on_failed(completion);
  while (!requests_.empty()) {
    Request request = std::move(requests_.front());
    requests_.pop_front();
    if (request.must_fail || request.phantom || broken_) {
      return fail(fmt::format("request {} succeeded, which it must not", request.number));
    }
    retire(request);
    if (request.wr_id == completion.wr_id) return check_completion(request, completion);
    if (request.signalled) {
      return fail(fmt::format("completion {:#x} overtook that of request {}", completion.wr_id,
                              request.number));
    }
  }
  fail(fmt::format("completion {:#x} is of no outstanding request", completion.wr_id));
}

void RcChannel::check_completion(const Request& request, const roce::Completion& completion) {
  if (!request.signalled) {
    fail(fmt::format("request {} is not signalled and completed", request.number));
  }
  if (completion.opcode != completion_opcode(request.opcode)) {
    fail(fmt::format("request {} completed as {}", request.number, to_string(completion.opcode)));
  }
  const bool lands = request.landing && !request.result.empty();
  if (lands && completion.byte_len != request.length) {
    fail(fmt::format("request {} of {} bytes completed with byte_len {}", request.number,
                     request.length, completion.byte_len));
  }
}

/// A request is known to have succeeded: its effect must be there already.
void RcChannel::retire(Request& request) {
  if (request.receive && destinations_[request.destination].received <= *request.receive) {
    fail(fmt::format("request {} completed before its receive", request.number));
  }
  const bool writes = request.opcode == WrOpcode::rdma_write ||
                      request.opcode == WrOpcode::rdma_write_with_imm ||
                      request.opcode == WrOpcode::atomic_write;
  if (writes && (request.window == nullptr || !request.window->revoked)) {
    check_target(request.number, request.target, request.length);
  }
  check_result(request);
  if (request.landing && !request.landing_lent) release(*request.landing);
  if (request.window != nullptr) on_window_done(request);
}

/// Of a request through a window, or of one that changes a window.
void RcChannel::on_window_done(const Request& request) {
  MemoryWindows::Window& window = *request.window;
  if (!roce::kLocalOpcodes.has(request.opcode)) {
    window.users -= request.opcode == WrOpcode::send_with_inv ? 0 : 1;
    return;
  }
  MemoryWindows::on_done(window);
  if (window.state == MemoryWindows::State::unbound && window.users > 0) {
    requester_.windows->reuse_memory(window);
  }
}

/// What a READ or an atomic has returned.
void RcChannel::check_result(const Request& request) {
  const bool reads = request.opcode == WrOpcode::rdma_read || roce::kAtomics.has(request.opcode);
  if (reads) {
    const auto landed = request.landing->read(
        requester_.memory->actual(request.landing->offset, request.landing->span), request.length);
    if (request.shared != nullptr) {
      std::uint64_t before = 0;
      std::memcpy(&before, landed.data(), sizeof before);
      if (request.shared->swaps) {
        request.shared->history.add_swap(id_, request.compare, request.swap, before);
      } else {
        request.shared->history.add_increment(id_, before);
      }
    } else if (landed != request.result) {
      const auto at = std::mismatch(landed.begin(), landed.end(), request.result.begin()).first;
      fail(fmt::format("request {} (opcode {}) of {} bytes returned wrong data at byte {}",
                       request.number, static_cast<int>(request.opcode), request.length,
                       at - landed.begin()));
    }
  }
}

/// Bytes that no later request has been asked to overwrite must be those of the request.
void RcChannel::check_target(std::uint32_t number, std::uint32_t target, std::uint32_t length) {
  const auto actual = responder_.memory->actual(target_);
  const auto expected = responder_.memory->expected(target_);
  for (std::uint32_t at = target; at < target + length; ++at) {
    if (last_writer_[at] == number && actual[at] != expected[at]) {
      return fail(fmt::format("request {} of {} bytes completed, byte {} of it is not written",
                              number, length, at - target));
    }
  }
}

/// Whoever writes there from now on is too late; the comparison at the end will tell.
void RcChannel::release(const ScatterBuffer& landing) {
  requester_.memory->scramble(landing.offset, landing.span, rng_);
  landing_ranges_.free(landing.area_offset);
}

void RcChannel::on_failed(const roce::Completion& completion) {
  if (!broken_) {
    on_first_failure(completion);
    return;
  }
  if (requests_.empty() || requests_.front().wr_id != completion.wr_id) {
    return fail(fmt::format("failed completion {:#x} out of turn", completion.wr_id));
  }
  if (completion.status != WcStatus::wr_flush_err) {
    fail(fmt::format("request {} behind a failed one: {}", requests_.front().number,
                     to_string(completion.status)));
  }
  requests_.pop_front();
}

void RcChannel::on_first_failure(const roce::Completion& completion) {
  broken_ = true;
  while (!requests_.empty() && requests_.front().wr_id != completion.wr_id) {
    if (requests_.front().signalled) {
      fail(fmt::format("request {} has no completion", requests_.front().number));
    }
    retire(requests_.front());
    requests_.pop_front();
  }
  if (requests_.empty()) {
    return fail(
        fmt::format("failed completion {:#x} is of no outstanding request", completion.wr_id));
  }
  const Request request = std::move(requests_.front());
  requests_.pop_front();
  const WcStatus status = completion.status;
  // A NAK can be lost, and the peer, which is in error then, does not repeat it.
  totals_.refused += request.may_be_refused && status == WcStatus::rem_access_err ? 1 : 0;
  const auto fate =
      request.may_be_refused ? std::optional(WcStatus::rem_access_err) : request.must_fail;
  const bool expected =
      fate ? status == *fate || (settings_.nak_may_be_lost && status == WcStatus::retry_exc_err)
           : allow_failure_ &&
                 (status == WcStatus::retry_exc_err || status == WcStatus::wr_flush_err);
  if (!expected) {
    fail(fmt::format("request {} (opcode {}, {} bytes) failed: {}", request.number,
                     static_cast<int>(request.opcode), request.length, to_string(status)));
  }
}

void RcChannel::on_recv_completion(const roce::Completion& completion) {
  if (completion.qp_num != responder_.qp->number()) {
    return fail(fmt::format("completion of receive {:#x} names QP {:#x}", completion.wr_id,
                            completion.qp_num.value));
  }
  Destination& destination =
      destinations_[static_cast<std::size_t>(find_destination(completion) - destinations_.data())];
  const std::optional<Receive> receive = take_receive(destination, completion.wr_id);
  if (!receive) return fail(fmt::format("receive completion {:#x} out of turn", completion.wr_id));
  const std::uint32_t number = destination.received;
  if (completion.status != WcStatus::success) {
    // One that is to invalidate what it must not fails as well.
    const bool refused = fatal_ && completion.status == WcStatus::loc_prot_err;
    if (!allow_failure_ || (completion.status != WcStatus::wr_flush_err && !refused)) {
      fail(fmt::format("receive {} failed: {}", number, to_string(completion.status)));
    }
    receive_broken_ = true;
    return release(destination, *receive);
  }
  if (receive_broken_ || destination.expected.empty()) {
    return fail(fmt::format("receive {} completed, which nothing was sent for", number));
  }
  check_received(destination, *receive, completion);
  destination.expected.pop_front();
  ++destination.received;
  release(destination, *receive);
}

/// Of its own queue pair: the oldest. Of an SRQ any: others may have overtaken it.
std::optional<Receive> RcChannel::take_receive(Destination& from, std::uint64_t wr_id) {
  if (from.receives != nullptr) return from.receives->take(wr_id);
  if (receives_.empty() || receives_.front().wr_id != wr_id) return std::nullopt;
  Receive receive = std::move(receives_.front());
  receives_.pop_front();
  return receive;
}

void RcChannel::release(const Destination& from, const Receive& receive) {
  if (from.receives != nullptr) {
    from.receives->release(receive);
    return;
  }
  responder_.memory->scramble(receive.buffer.offset, receive.buffer.span, rng_);
  receive_ranges_.free(receive.buffer.area_offset);
}

void RcChannel::check_received(const Destination& destination, const Receive& receive,
                               const roce::Completion& completion) {
  const Expected& expected = destination.expected.front();
  const std::uint32_t number = destination.received;
  const bool writes = expected.opcode == WrOpcode::rdma_write_with_imm;
  const bool has_imm = writes || expected.opcode == WrOpcode::send_with_imm;
  const bool has_inv = expected.opcode == WrOpcode::send_with_inv;
  if (completion.opcode != (writes ? WcOpcode::recv_rdma_with_imm : WcOpcode::recv)) {
    fail(fmt::format("receive {} completed as {}", number, to_string(completion.opcode)));
  }
  const auto flags = (has_imm ? std::uint32_t{roce::kWcWithImm} : 0u) +
                     (has_inv ? std::uint32_t{roce::kWcWithInv} : 0u);
  if (completion.wc_flags != flags) {
    fail(fmt::format("receive {} has flags {:#x}", number, completion.wc_flags));
  }
  if (has_imm && completion.imm_data != expected.imm) {
    fail(fmt::format("receive {} got other immediate data", number));
  }
  if (has_inv) check_invalidated(expected, completion);
  if (completion.byte_len != expected.length) {
    fail(fmt::format("receive {} of {} bytes completed with byte_len {}", number, expected.length,
                     completion.byte_len));
  }
  if (writes) {
    check_target(expected.request, expected.target, expected.length);
  } else if (receive.buffer.read(
                 responder_.memory->actual(receive.buffer.offset, receive.buffer.span),
                 expected.length) != expected.data) {
    fail(fmt::format("receive {} of {} bytes got other data", number, expected.length));
  }
}

/// From now on the key is the owner's again.
void RcChannel::check_invalidated(const Expected& expected, const roce::Completion& completion) {
  bool done = completion.invalidated_rkey == expected.invalidated;
  if (expected.window != nullptr) {
    MemoryWindows::on_done(*expected.window);
  } else {
    done = done && responder_.engine->deregister_memory(expected.invalidated).has_value();
  }
  if (!done) fail(fmt::format("request {} invalidated another key", expected.request));
}

void RcChannel::accept_unknown() {
  if (!broken_ && !receive_broken_) return;
  requester_.memory->accept(landing_.offset, landing_.size);
  responder_.memory->accept(receive_.offset, receive_.size);
  for (SharedReceives* receives : responder_.receives) {
    receives->accept_unknown();
  }
  if (!fatal_) responder_.memory->accept(target_.offset, target_.size);
}

}  // namespace rockhopper::sim
