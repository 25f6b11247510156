// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a channel asks for.
#include <algorithm>
#include <cstring>

#include "tests/sim/rc_channel.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {
namespace {

using roce::WrOpcode;

constexpr std::uint32_t kNobody = UINT32_MAX;

/// Bit by bit: a carry ends at each bit of `boundary`.
std::uint64_t slow_masked_add(std::uint64_t value, std::uint64_t add, std::uint64_t boundary) {
  std::uint64_t sum = 0;
  std::uint64_t carry = 0;
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint64_t total = (value >> bit & 1) + (add >> bit & 1) + carry;
    sum |= (total & 1) << bit;
    carry = (boundary >> bit & 1) != 0 ? 0 : total >> 1;
  }
  return sum;
}

}  // namespace

RcChannel::RcChannel(const RcSettings& settings, std::uint32_t id, const Endpoint& requester,
                     const Endpoint& responder, SharedWords& shared, Rng& rng)
    : settings_(settings),
      id_(id),
      requester_(requester),
      responder_(responder),
      shared_(shared),
      rng_(rng) {
  // Room for the largest buffer with its gaps even when another of that size is in the middle.
  const std::uint32_t buffers = settings.max_message * 3 + 1024;
  source_ = requester.memory->make_area(*requester.engine, requester.pd, settings.max_message + 512,
                                        0, rng);
  landing_ = requester.memory->make_area(*requester.engine, requester.pd, buffers,
                                         roce::kAccessLocalWrite, rng);
  target_ = responder.memory->make_area(*responder.engine, responder.pd, settings.target_size,
                                        roce::kAccessAll | roce::kAccessFlushGlobal, rng);
  receive_ = responder.memory->make_area(*responder.engine, responder.pd, buffers,
                                         roce::kAccessLocalWrite, rng);
  landing_ranges_ = RangeAllocator(buffers);
  receive_ranges_ = RangeAllocator(buffers);
  last_writer_.assign(settings.target_size, kNobody);
  fast_ = must(requester.engine->allocate_fast_memory(requester.pd, source_.size));
  fast_.base = source_.region.base;
  fast_.length = source_.size;
  make_destinations();
}

void RcChannel::make_destinations() {
  if (responder_.windows != nullptr) responder_.windows->cover(*responder_.memory, target_);
  const auto& receives = responder_.receives;
  if (responder_.qp->init().qp_type != roce::QpType::xrc_recv) {
    destinations_.push_back(
        {.receives = receives.empty() ? nullptr : receives[0], .target = target_.region});
    return;
  }
  for (SharedReceives* some : receives) {
    const std::uint64_t iova = rng_.between(0, (UINT64_MAX - target_.size) / 8) * 8;
    destinations_.push_back({.receives = some,
                             .target = must(responder_.engine->register_memory_iova(
                                 some->srq()->pd(), responder_.memory->actual(target_).data(),
                                 target_.size, target_.region.access, iova))});
  }
}

std::uint32_t RcChannel::draw_length(std::uint32_t limit) {
  const std::uint32_t mtu = roce::bytes(settings_.path_mtu);
  const std::uint32_t kind = rng_.between32(0, 9);
  std::uint32_t length = 0;
  if (kind <= 2) {
    length = rng_.between32(0, 16);
  } else if (kind <= 5) {
    // About a whole number of packets, where lengths are easily off by one.
    length = rng_.between32(1, 4) * mtu + rng_.between32(0, 2) - 1;
  } else {
    length = rng_.between32(0, kind == 9 ? settings_.max_message : 3 * mtu);
  }
  return std::min({length, limit, settings_.max_message});
}

bool RcChannel::post_request() {
  if (all_posted() || broken_ || requests_.size() >= settings_.send_depth) return false;
  Request request = next_request();
  roce::SendWr wr{.wr_id = request.wr_id};
  data_.clear();
  sges_.clear();
  if (destinations_.size() > 1) {
    request.destination = rng_.between32(0, static_cast<std::uint32_t>(destinations_.size() - 1));
  }
  if (!build(request, wr)) {
    // The landing is full. Without a completion to come it would stay so.
    if (unsignalled_run_ == 0) return false;
    request.opcode = WrOpcode::rdma_write;
    request.signalled = true;
    wr.rkey = destinations_[request.destination].target.key;
    ++totals_.writes;
  }
  request.signalled = request.signalled || rng_.chance(settings_.signal_percent) ||
                      posted_ + 1 == settings_.ops || unsignalled_run_ + 1 >= settings_.send_depth;
  if (rng_.chance(5)) wr.send_flags |= roce::kSendFence;
  submit(std::move(request), wr);
  return true;
}

bool RcChannel::build(Request& request, roce::SendWr& wr) {
  if (requester_.windows != nullptr && rng_.chance(settings_.window_percent) &&
      build_window(request, wr)) {
    return true;
  }
  const std::uint32_t kind = rng_.between32(0, 99);
  if (kind < settings_.read_percent) return build_read(request, wr);
  if (kind < settings_.read_percent + settings_.atomic_percent) return build_atomic(request, wr);
  if (rng_.chance(settings_.local_percent)) {
    build_local(request, wr);
    return true;
  }
  if (rng_.chance(settings_.placement_percent)) return build_placement(request, wr);
  return rng_.chance(50) ? build_send(request, wr) : build_write(request, wr);
}

/// The receive that the next claiming request will take, if it is posted already.
const Receive* RcChannel::next_receive() const {
  const std::uint32_t ahead = destinations_[0].claimed - destinations_[0].received;
  return ahead < receives_.size() ? &receives_[ahead] : nullptr;
}

bool RcChannel::build_send(Request& request, roce::SendWr& wr) {
  const Receive* receive = next_receive();
  const std::uint32_t limit = receive != nullptr ? receive->capacity : settings_.max_message;
  request.opcode = rng_.pick({WrOpcode::send, WrOpcode::send_with_imm, WrOpcode::send,
                              WrOpcode::send_with_imm, WrOpcode::send_with_inv});
  request.length = draw_length(limit);
  if (!borrow_landing(request, wr)) gather(request, wr);
  if (request.opcode == WrOpcode::send_with_inv) set_invalidated_key(request, wr);
  expect_receive(request, wr);
  destinations_[request.destination].expected.back().data = data_;
  ++totals_.sends;
  return true;
}

/// A region of its own, which lives until the receive reports its end; or a window.
void RcChannel::set_invalidated_key(Request& request, roce::SendWr& wr) {
  if (responder_.windows != nullptr && rng_.chance(60)) {
    request.window = responder_.windows->find_to_invalidate();
  }
  if (MemoryWindows::Window* window = request.window; window != nullptr) {
    window->state = MemoryWindows::State::ending;
    wr.invalidate_rkey = window->handle.rkey;
    // A READ whose response is lost is executed again.
    const bool reads = std::any_of(requests_.begin(), requests_.end(), [&](const Request& other) {
      return other.opcode == WrOpcode::rdma_read && other.window == window;
    });
    wr.send_flags |= reads ? std::uint32_t{roce::kSendFence} : 0u;
    return;
  }
  wr.invalidate_rkey = must(responder_.engine->register_memory(
                                destinations_[request.destination].target.pd,
                                responder_.memory->actual(target_).data(), 8,
                                roce::kAccessRemoteRead | roce::kAccessRemoteInvalidate))
                           .key;
}

/// Draws where in the target a request goes, and the key for that.
void RcChannel::aim(Request& request, roce::SendWr& wr, std::uint32_t right,
                    std::uint32_t alignment) {
  if (responder_.windows != nullptr && rng_.chance(settings_.window_percent)) {
    if (const auto place = responder_.windows->place(request.length, right, alignment); place) {
      request.window = place->window;
      ++request.window->users;
      request.target = place->target;
      wr.remote_addr = place->address;
      wr.rkey = place->window->handle.rkey;
      return;
    }
  }
  const std::uint32_t room = settings_.target_size - request.length;
  request.target = rng_.between32(0, room / alignment) * alignment;
  const roce::MemoryRegion& region = destinations_[request.destination].target;
  wr.remote_addr = region.iova + request.target;
  wr.rkey = region.key;
}

bool RcChannel::build_write(Request& request, roce::SendWr& wr) {
  request.opcode = rng_.pick({WrOpcode::rdma_write, WrOpcode::rdma_write_with_imm});
  request.length = draw_length(settings_.target_size);
  if (!borrow_landing(request, wr)) gather(request, wr);
  aim(request, wr, roce::kAccessRemoteWrite, 1);
  fence_if_needed(request, wr);
  write_model(request, data_);
  if (request.opcode == WrOpcode::rdma_write_with_imm) expect_receive(request, wr);
  ++totals_.writes;
  return true;
}

bool RcChannel::build_placement(Request& request, roce::SendWr& wr) {
  if (rng_.chance(50)) {
    const roce::MemoryRegion& region = destinations_[request.destination].target;
    request.opcode = WrOpcode::flush;
    wr.rkey = region.key;
    wr.flush.length = rng_.between32(0, settings_.target_size);
    wr.flush.selectivity_level = static_cast<std::uint8_t>(rng_.between32(0, 1));
    wr.remote_addr = region.iova + rng_.between32(0, settings_.target_size - wr.flush.length);
    ++totals_.flushes;
    return true;
  }
  request.opcode = WrOpcode::atomic_write;
  request.length = 8;
  gather(request, wr);
  aim(request, wr, roce::kAccessRemoteWrite, 8);
  fence_if_needed(request, wr);
  write_model(request, data_);
  ++totals_.atomic_writes;
  return true;
}

/// What is sent from the region later must find its key however often it is sent.
void RcChannel::build_local(Request& request, roce::SendWr& wr) {
  request.opcode = fast_valid_ ? WrOpcode::local_inv : WrOpcode::reg_mr;
  if (fast_valid_) {
    wr.invalidate_rkey = fast_.key;
  } else {
    fast_.key = roce::next_generation(fast_.key);
    fast_.iova = rng_.between(0, UINT64_MAX - source_.size);
    wr.fast_region = fast_;
  }
  fast_valid_ = !fast_valid_;
  ++totals_.local;
}

/// Changes a window of its own side. False: none may change now.
bool RcChannel::build_window(Request& request, roce::SendWr& wr) {
  request.window = requester_.windows->find_to_change();
  if (request.window == nullptr) return false;
  requester_.windows->request_change(*request.window, wr);
  request.opcode = wr.opcode;
  ++totals_.local;
  return true;
}

bool RcChannel::build_read(Request& request, roce::SendWr& wr) {
  request.opcode = WrOpcode::rdma_read;
  request.length = draw_length(settings_.target_size);
  request.landing =
      make_scatter_buffer(landing_, landing_ranges_, request.length, settings_.max_send_sge, rng_);
  if (!request.landing) return false;
  sges_ = request.landing->sges;
  aim(request, wr, roce::kAccessRemoteRead, 1);
  const auto from = responder_.memory->expected(target_).subspan(request.target, request.length);
  request.result.assign(from.begin(), from.end());
  ++totals_.reads;
  return true;
}

bool RcChannel::build_atomic(Request& request, roce::SendWr& wr) {
  request.opcode = rng_.pick({WrOpcode::atomic_cmp_and_swp, WrOpcode::atomic_fetch_and_add});
  if (settings_.extended_atomics && rng_.chance(50)) {
    request.opcode =
        rng_.pick({WrOpcode::masked_atomic_cmp_and_swp, WrOpcode::masked_atomic_fetch_and_add});
  }
  request.length = 8;
  request.landing = make_scatter_buffer(landing_, landing_ranges_, 8, 1, rng_);
  if (!request.landing) return false;
  sges_ = request.landing->sges;
  if (!roce::kMaskedAtomics.has(request.opcode) && !shared_.words.empty() &&
      destinations_[request.destination].target.pd == responder_.pd &&
      rng_.chance(settings_.shared_percent)) {
    build_shared_atomic(request, wr);
  } else {
    build_private_atomic(request, wr);
  }
  ++totals_.atomics;
  return true;
}

void RcChannel::build_private_atomic(Request& request, roce::SendWr& wr) {
  aim(request, wr, roce::kAccessRemoteAtomic, 8);
  std::uint64_t before = 0;
  std::memcpy(&before, responder_.memory->expected(target_).subspan(request.target, 8).data(), 8);
  std::uint64_t after = before;
  wr.compare_add_mask = rng_.next();
  wr.swap_mask = rng_.next();
  if (request.opcode == WrOpcode::masked_atomic_fetch_and_add) {
    wr.compare_add = rng_.next();
    after = slow_masked_add(before, wr.compare_add, wr.compare_add_mask);
  } else if (request.opcode == WrOpcode::masked_atomic_cmp_and_swp) {
    wr.compare_add_mask &= rng_.chance(50) ? rng_.next() : 0xff;
    wr.compare_add = rng_.chance(60)
                         ? (before & wr.compare_add_mask) | (rng_.next() & ~wr.compare_add_mask)
                         : rng_.next();
    wr.swap = rng_.next();
    if ((before & wr.compare_add_mask) == (wr.compare_add & wr.compare_add_mask)) {
      after = (before & ~wr.swap_mask) | (wr.swap & wr.swap_mask);
    }
  } else if (request.opcode == WrOpcode::atomic_fetch_and_add) {
    wr.compare_add = rng_.next();
    wr.swap = rng_.next();  // of no meaning here
    after = before + wr.compare_add;
  } else {
    wr.compare_add = rng_.chance(60) ? before : before ^ (1ull << rng_.between(0, 63));
    wr.swap = rng_.next();
    after = wr.compare_add == before ? wr.swap : before;
  }
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&before);
  request.result.assign(bytes, bytes + 8);
  fence_if_needed(request, wr);
  if (after != before) {
    const auto* written = reinterpret_cast<const std::uint8_t*>(&after);
    write_model(request, {written, 8});
  }
}

void RcChannel::build_shared_atomic(Request& request, roce::SendWr& wr) {
  SharedWord& word = shared_.words[rng_.between(0, shared_.words.size() - 1)];
  request.shared = &word;
  wr.remote_addr = word.address;
  wr.rkey = shared_.key;
  if (!word.swaps) {
    request.opcode = WrOpcode::atomic_fetch_and_add;
    wr.compare_add = 1;
    return;
  }
  request.opcode = WrOpcode::atomic_cmp_and_swp;
  // A glance at the word makes success likely; with several requests under way it stays a guess.
  request.compare = *word.word;
  request.swap = request.wr_id << 8 | 1;
  wr.compare_add = request.compare;
  wr.swap = request.swap;
}

void RcChannel::gather(const Request& request, roce::SendWr& wr) {
  const std::uint32_t length = request.length;
  const std::uint32_t count =
      length == 0 ? rng_.between32(0, 1) : rng_.between32(1, settings_.max_send_sge);
  const bool in_line = length <= settings_.max_inline && rng_.chance(40);
  std::uint32_t left = length;
  data_.clear();
  inline_copy_.resize(settings_.max_inline);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t piece = i + 1 == count ? left : rng_.between32(0, left);
    const std::uint32_t at = rng_.between32(0, source_.size - piece);
    const auto bytes = requester_.memory->actual(source_).subspan(at, piece);
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    const bool fast = fast_valid_ && rng_.chance(60);
    sges_.push_back({.addr = fast ? fast_.iova + at : source_.address(at),
                     .length = piece,
                     .lkey = fast ? fast_.key : source_.region.key});
    left -= piece;
  }
  if (in_line) {
    wr.send_flags |= roce::kSendInline;
    std::copy(data_.begin(), data_.end(), inline_copy_.begin());
    std::uint64_t address = reinterpret_cast<std::uintptr_t>(inline_copy_.data());
    for (roce::Sge& sge : sges_) {
      sge.addr = address;
      sge.lkey = roce::MemoryKey{static_cast<std::uint32_t>(rng_.next())};
      address += sge.length;
    }
  }
}

/// Sends from where an outstanding READ will put its result: only the fence makes that right.
bool RcChannel::borrow_landing(Request& request, roce::SendWr& wr) {
  const auto read = std::find_if(requests_.begin(), requests_.end(), [](const Request& r) {
    return r.opcode == WrOpcode::rdma_read && !r.landing_lent && !r.result.empty();
  });
  if (read == requests_.end() || !rng_.chance(30)) return false;
  const Receive* receive = next_receive();
  const bool claims = request.opcode != WrOpcode::rdma_write;
  if (claims && request.opcode != WrOpcode::rdma_write_with_imm && receive != nullptr &&
      receive->capacity < read->length) {
    return false;
  }
  read->landing_lent = true;
  request.landing = read->landing;
  request.length = read->length;
  sges_ = read->landing->sges;
  data_ = read->result;
  wr.send_flags |= roce::kSendFence;
  return true;
}

void RcChannel::expect_receive(Request& request, roce::SendWr& wr) {
  Destination& destination = destinations_[request.destination];
  request.receive = destination.claimed++;
  wr.imm_data = static_cast<std::uint32_t>(rng_.next());
  if (rng_.chance(30)) wr.send_flags |= roce::kSendSolicited;
  const bool ends_window = request.opcode == WrOpcode::send_with_inv;
  destination.expected.push_back({.opcode = request.opcode,
                                  .request = request.number,
                                  .length = request.length,
                                  .target = request.target,
                                  .imm = wr.imm_data,
                                  .invalidated = wr.invalidate_rkey,
                                  .window = ends_window ? request.window : nullptr,
                                  .data = {}});
  ++totals_.receives;
}

/// A request that changes what an outstanding READ reads must wait for it: a READ whose response is
/// lost is executed again (IBTA vol. 1, 10.8.3.3 leaves that order to the fence).
void RcChannel::fence_if_needed(const Request& request, roce::SendWr& wr) const {
  for (const Request& other : requests_) {
    if (other.opcode == WrOpcode::rdma_read && other.target < request.target + request.length &&
        request.target < other.target + other.length) {
      wr.send_flags |= roce::kSendFence;
    }
  }
}

void RcChannel::write_model(const Request& request, std::span<const std::uint8_t> data) {
  std::copy(data.begin(), data.end(),
            responder_.memory->expected(target_).subspan(request.target, data.size()).begin());
  std::fill_n(last_writer_.begin() + request.target, data.size(), request.number);
}

void RcChannel::submit(Request&& request, roce::SendWr& wr) {
  wr.opcode = request.opcode;
  wr.sg_list = sges_;
  if (const SharedReceives* receives = destinations_[request.destination].receives;
      receives != nullptr && wr.remote_srqn == 0) {
    wr.remote_srqn = receives->srq()->number();
  }
  if (request.signalled) wr.send_flags |= roce::kSendSignaled;
  request.signalled = request.signalled || settings_.sq_sig_all;
  const roce::PostResult result = request.window != nullptr
                                      ? MemoryWindows::post(*requester_.qp, *request.window, wr)
                                      : requester_.qp->post_send(wr);
  if (result != roce::PostResult::ok) {
    fail(fmt::format("post_send of request {}: {}", request.number, roce::to_string(result)));
    return;
  }
  rng_.fill(inline_copy_);  // post_send has taken its copy
  unsignalled_run_ = request.signalled ? 0 : unsignalled_run_ + 1;
  totals_.bytes += request.length;
  requests_.push_back(std::move(request));
  ++posted_;
}

bool RcChannel::post_receive() {
  if (destinations_[0].receives != nullptr || receives_.size() >= settings_.recv_depth ||
      receive_broken_ || receives_posted_ >= settings_.ops) {
    return false;
  }
  const std::deque<Expected>& expected = destinations_[0].expected;
  const std::uint32_t ahead = receives_posted_ - destinations_[0].received;
  std::uint32_t least = 0;
  if (ahead < expected.size() && expected[ahead].opcode != WrOpcode::rdma_write_with_imm) {
    least = expected[ahead].length;
  }
  const std::uint32_t capacity = rng_.chance(50) ? least : std::max(least, draw_length(UINT32_MAX));
  auto buffer =
      make_scatter_buffer(receive_, receive_ranges_, capacity, settings_.max_recv_sge, rng_);
  if (!buffer) return false;
  Receive receive{.wr_id = (2ull * id_ + 1) << 32 | receives_posted_,
                  .capacity = capacity,
                  .buffer = std::move(*buffer)};
  const roce::PostResult result =
      responder_.qp->post_recv({.wr_id = receive.wr_id, .sg_list = receive.buffer.sges});
  if (result != roce::PostResult::ok) {
    fail(fmt::format("post_recv of receive {}: {}", receives_posted_, roce::to_string(result)));
    return false;
  }
  receives_.push_back(std::move(receive));
  ++receives_posted_;
  return true;
}

}  // namespace rockhopper::sim
