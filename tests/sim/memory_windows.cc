// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/memory_windows.h"

#include <algorithm>

#include <fmt/format.h>

#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

using roce::MemoryKind;
using roce::WrOpcode;

MemoryWindows::MemoryWindows(roce::Engine& engine, roce::ProtectionDomain pd, Rng& rng)
    : engine_(engine), rng_(rng) {
  for (std::uint32_t count = rng.between32(2, 4); count > 0; --count) {
    const MemoryKind kind =
        rng.pick({MemoryKind::window_type_1, MemoryKind::window_type_2, MemoryKind::window_type_2});
    windows_.push_back({.handle = must(engine.allocate_window(pd, kind))});
  }
}

void MemoryWindows::cover(NodeMemory& memory, const Area& area) {
  memory_ = &memory;
  area_ = area;
  const std::uint64_t iova = rng_.between(0, (UINT64_MAX - area.size) / 8) * 8;
  parent_ = must(engine_.register_memory_iova(area.region.pd, memory.actual(area).data(), area.size,
                                              roce::kAccessLocalWrite | roce::kAccessMwBind, iova));
}

std::optional<MemoryWindows::Place> MemoryWindows::place(std::uint32_t length, std::uint32_t right,
                                                         std::uint32_t alignment) {
  Window* window = find(State::bound, [&](const Window& w) {
    return (w.access & right) != 0 && w.length >= length + alignment - 1 &&
           (w.address - w.target) % alignment == 0;
  });
  if (window == nullptr) return std::nullopt;
  const std::uint32_t first = (window->target + alignment - 1) / alignment * alignment;
  const std::uint32_t room = window->target + window->length - length - first;
  const std::uint32_t target = first + rng_.between32(0, room / alignment) * alignment;
  return Place{window, target, window->address + (target - window->target)};
}

MemoryWindows::Window* MemoryWindows::find_to_invalidate() {
  return find(State::bound, [](const Window& w) { return w.is_type_2(); });
}

MemoryWindows::Window* MemoryWindows::find_to_change() {
  Window* window =
      rng_.chance(70) ? nullptr : find(State::bound, [](const Window& w) { return w.users == 0; });
  return window != nullptr ? window : find(State::unbound, [](const Window&) { return true; });
}

void MemoryWindows::request_change(Window& window, roce::SendWr& wr) {
  // One of type 1 may be bound anew without an end.
  if (window.state == State::bound && (window.is_type_2() || rng_.chance(50))) {
    request_end(window, wr);
  } else {
    request_bind(window, wr);
  }
}

void MemoryWindows::request_bind(Window& window, roce::SendWr& wr) {
  window.target = rng_.between32(0, area_.size - 1);
  window.length = rng_.between32(1, area_.size - window.target);
  if (rng_.chance(30)) {
    window.target = 0;
    window.length = area_.size;
  }
  window.access = 0;
  while (window.access == 0) {
    window.access = static_cast<std::uint32_t>(rng_.next()) & roce::kAccessRemote;
  }
  const bool zero_based = rng_.chance(40);
  window.address = zero_based ? 0 : parent_.iova + window.target;
  window.state = State::binding;
  wr.opcode = WrOpcode::bind_mw;
  wr.mw_bind = {.mr = parent_.key,
                .addr = parent_.iova + window.target,
                .length = window.length,
                .access = window.access | (zero_based ? roce::kAccessZeroBased : 0u)};
  if (window.is_type_2()) {
    window.handle.rkey = roce::next_generation(window.handle.rkey);
    wr.rkey = window.handle.rkey;
  }
}

void MemoryWindows::request_end(Window& window, roce::SendWr& wr) {
  window.state = State::ending;
  if (window.is_type_2()) {
    wr.opcode = WrOpcode::local_inv;
    wr.invalidate_rkey = window.handle.rkey;
  } else {
    wr.opcode = WrOpcode::bind_mw;
    wr.mw_bind = {};
  }
}

roce::PostResult MemoryWindows::post(roce::QueuePair& qp, Window& window, const roce::SendWr& wr) {
  return wr.opcode == WrOpcode::bind_mw && !window.is_type_2() ? qp.bind_mw(window.handle.rkey, wr)
                                                               : qp.post_send(wr);
}

void MemoryWindows::on_done(Window& window) {
  window.state = window.state == State::binding ? State::bound : State::unbound;
}

void MemoryWindows::deallocate(Window& window) {
  must(engine_.deallocate_window(window.handle.rkey));
  window.handle.kind = MemoryKind::none;
  window.state = State::unbound;
}

void MemoryWindows::reuse_memory(Window& window) {
  memory_->scramble(area_.offset + window.target, window.length, rng_);
  window.revoked = true;
}

std::string MemoryWindows::tear_down(bool settled) {
  const auto bound = std::count_if(windows_.begin(), windows_.end(), [](const Window& window) {
    return window.state == State::bound;
  });
  if (settled && bound > 0 && engine_.deregister_memory(parent_.key)) {
    return fmt::format("a region was deregistered with {} windows bound to it", bound);
  }
  for (Window& window : windows_) {
    if (window.handle.kind != MemoryKind::none) deallocate(window);
  }
  const auto gone = engine_.deregister_memory(parent_.key);
  return gone ? std::string() : gone.error().message;
}

}  // namespace rockhopper::sim
