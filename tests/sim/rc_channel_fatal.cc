// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a channel asks for that must be refused, or may be.
#include <algorithm>

#include "tests/sim/rc_channel.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {
namespace {

using roce::WcStatus;
using roce::WrOpcode;
using State = MemoryWindows::State;

/// A number that no SRQ has: the place of one that exists, but another random part. Never 0.
std::uint32_t foreign_srq_number(std::uint32_t number) {
  constexpr std::uint32_t kTop = 0x800000;
  return (number & kTop) != 0 ? number ^ (kTop >> 1) : number ^ kTop;
}

/// Of a window that has been bound at least once, that it does not have any more.
roce::MemoryKey older_generation(roce::MemoryKey key) {
  const auto value = static_cast<std::uint32_t>(key);
  return roce::MemoryKey{(value & ~roce::kKeyGenerationMask) |
                         ((value - 1) & roce::kKeyGenerationMask)};
}

}  // namespace

void RcChannel::post_fatal(MemoryWindows* others) {
  fatal_ = true;
  data_.clear();
  sges_.clear();
  Request request = next_request();
  roce::SendWr wr{.wr_id = request.wr_id};
  request.opcode = WrOpcode::rdma_write;
  request.length = rng_.between32(1, settings_.max_message);
  request.phantom = true;
  request.must_fail = WcStatus::rem_access_err;
  gather(request, wr);
  wr.remote_addr = destinations_[0].target.iova;
  wr.rkey = destinations_[0].target.key;
  const bool xrc = responder_.qp->init().qp_type == roce::QpType::xrc_recv;
  const bool windows = responder_.windows != nullptr;
  const bool spoilt = (xrc && rng_.chance(70) && spoil_xrc(request, wr)) ||
                      (windows && rng_.chance(20) && spoil_bind(request, wr)) ||
                      (windows && rng_.chance(80) && spoil_window(request, wr, others));
  if (!spoilt) spoil(request, wr);
  submit(std::move(request), wr);
  for (std::uint32_t i = rng_.between32(0, 3); i > 0; --i) {
    Request behind = next_request();
    behind.opcode = WrOpcode::rdma_write;
    behind.length = rng_.between32(1, settings_.max_message);
    behind.phantom = true;
    roce::SendWr behind_wr{.wr_id = behind.wr_id,
                           .remote_addr = destinations_[0].target.iova,
                           .rkey = destinations_[0].target.key};
    sges_.clear();
    gather(behind, behind_wr);
    submit(std::move(behind), behind_wr);
  }
}

/// Keys, bounds and rights of regions.
void RcChannel::spoil(Request& request, roce::SendWr& wr) {
  switch (rng_.between32(0, 3)) {
    case 0:  // no such key
      wr.rkey = roce::MemoryKey{static_cast<std::uint32_t>(wr.rkey) ^ 0x01000000u};
      break;
    case 1:  // one byte beyond the end
      wr.remote_addr += settings_.target_size + 1 - request.length;
      break;
    case 2:  // no right
      wr.remote_addr = receive_.address(0);
      wr.rkey = receive_.region.key;
      break;
    default:  // a local key that does not exist
      request.must_fail = WcStatus::loc_prot_err;
      wr.send_flags &= ~std::uint32_t{roce::kSendInline};
      sges_.assign(1, {.addr = source_.address(0),
                       .length = request.length,
                       .lkey = roce::MemoryKey{static_cast<std::uint32_t>(source_.region.key) ^
                                               0x01000000u}});
      break;
  }
}

/// SRQs out of reach, and the memory of another receiver than that of the SRQ.
bool RcChannel::spoil_xrc(Request& request, roce::SendWr& wr) {
  if (destinations_.size() > 1 && rng_.chance(30)) {
    wr.rkey = destinations_[1].target.key;
    wr.remote_addr = destinations_[1].target.iova;
    return true;
  }
  request.must_fail = WcStatus::rem_inv_req_err;
  if (rng_.chance(50)) request.opcode = WrOpcode::send;
  if (responder_.unreachable.empty() || rng_.chance(30)) {
    wr.remote_srqn = foreign_srq_number(destinations_[0].receives->srq()->number());
    return true;
  }
  // Of the other domain, with memory that its own peers may write.
  const roce::SharedReceiveQueue& srq = *responder_.unreachable[0]->srq();
  const auto region = must(responder_.engine->register_memory(
      srq.pd(), responder_.memory->actual(target_).data(), target_.size, roce::kAccessAll));
  wr.remote_srqn = srq.number();
  wr.remote_addr = region.iova;
  wr.rkey = region.key;
  return true;
}

/// Windows that have ended or are bound anew, that are too small, that lack the right, that another
/// queue pair has bound, that a peer may not end. What their owner does meanwhile makes none of it
/// right.
bool RcChannel::spoil_window(Request& request, roce::SendWr& wr, MemoryWindows* others) {
  const auto may_write = [](const MemoryWindows::Window& window) {
    return (window.access & roce::kAccessRemoteWrite) != 0;
  };
  MemoryWindows::Window* window = nullptr;
  MemoryWindows& own = *responder_.windows;
  const std::uint32_t kind = rng_.between32(0, 5);
  if (kind == 0) {
    window = own.find(State::unbound, [](const auto&) { return true; });
  } else if (kind == 1 || kind == 5) {
    window = own.find(State::bound, may_write);
  } else if (kind == 2) {
    window = own.find(State::bound, [&](const auto& w) { return !may_write(w); });
  } else if (kind == 3 && others != nullptr) {
    window =
        others->find(State::bound, [&](const auto& w) { return w.is_type_2() && may_write(w); });
  } else if (kind == 4 && destinations_[0].claimed < settings_.ops) {
    window = own.find(State::bound, [](const auto& w) { return !w.is_type_2(); });
  }
  if (window == nullptr) return false;
  wr.rkey = window->handle.rkey;
  wr.remote_addr = window->address;
  if (kind == 1) {
    wr.remote_addr += rng_.chance(50) ? UINT64_MAX : window->length;
    return true;
  }
  request.length = kind == 4 ? 0 : std::min(request.length, std::max(window->length, 1u));
  sges_.clear();
  wr.send_flags = 0;
  gather(request, wr);
  if (kind == 5) wr.rkey = older_generation(wr.rkey);
  if (kind == 4) {
    request.opcode = WrOpcode::send_with_inv;
    wr.invalidate_rkey = window->handle.rkey;
  }
  return true;
}

/// Binds that a queue pair must not do.
bool RcChannel::spoil_bind(Request& request, roce::SendWr& wr) {
  if (requester_.windows == nullptr) return false;
  MemoryWindows::Window* window =
      requester_.windows->find(State::unbound, [](const auto&) { return true; });
  if (window == nullptr) return false;
  request.opcode = WrOpcode::bind_mw;
  request.must_fail = WcStatus::mw_bind_err;
  request.window = window;
  request.length = 0;
  sges_.clear();
  wr = {.wr_id = request.wr_id, .opcode = WrOpcode::bind_mw, .rkey = window->handle.rkey};
  switch (rng_.between32(0, 2)) {
    case 0:  // no region to bind windows to
      wr.mw_bind = {.mr = landing_.region.key,
                    .addr = landing_.address(0),
                    .length = 1,
                    .access = roce::kAccessRemoteRead};
      break;
    case 1:  // not for writing
      wr.mw_bind = {.mr = source_.region.key,
                    .addr = source_.address(0),
                    .length = 1,
                    .access = roce::kAccessRemoteWrite};
      break;
    default:  // of the windows' region, but none of its bytes
      wr.mw_bind = {.mr = requester_.windows->parent(),
                    .addr = source_.address(0),
                    .length = UINT64_MAX,
                    .access = roce::kAccessRemoteRead};
      break;
  }
  return true;
}

void RcChannel::post_revocable(MemoryWindows::Window& window) {
  fatal_ = true;
  const bool may_read = (window.access & roce::kAccessRemoteRead) != 0;
  const bool may_write = (window.access & roce::kAccessRemoteWrite) != 0;
  for (std::uint32_t i = rng_.between32(1, std::min(4u, settings_.send_depth)); i > 0; --i) {
    data_.clear();
    sges_.clear();
    Request request = next_request();
    roce::SendWr wr{.wr_id = request.wr_id};
    request.may_be_refused = true;
    request.signalled = true;
    request.window = &window;
    request.length = rng_.between32(1, std::min(window.length, settings_.max_message));
    request.target = window.target + rng_.between32(0, window.length - request.length);
    wr.remote_addr = window.address + (request.target - window.target);
    wr.rkey = window.handle.rkey;
    if (may_write && (!may_read || rng_.chance(60))) {
      request.opcode = WrOpcode::rdma_write;
      gather(request, wr);
      fence_if_needed(request, wr);
      write_model(request, data_);
    } else {
      request.opcode = WrOpcode::rdma_read;
      request.landing = make_scatter_buffer(landing_, landing_ranges_, request.length,
                                            settings_.max_send_sge, rng_);
      if (!request.landing) return;
      sges_ = request.landing->sges;
      const auto from =
          responder_.memory->expected(target_).subspan(request.target, request.length);
      request.result.assign(from.begin(), from.end());
    }
    ++window.users;
    submit(std::move(request), wr);
  }
}

void RcChannel::post_revocation(MemoryWindows::Window& window) {
  data_.clear();
  sges_.clear();
  Request request = next_request();
  roce::SendWr wr{.wr_id = request.wr_id};
  request.window = &window;
  request.signalled = true;
  requester_.windows->request_end(window, wr);
  request.opcode = wr.opcode;
  submit(std::move(request), wr);
}

}  // namespace rockhopper::sim
