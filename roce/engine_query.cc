// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What an engine tells of itself and its port: attributes and asynchronous events.
#include <algorithm>
#include <limits>

#include "roce/engine.h"
#include "roce/extension_qp.h"

namespace rockhopper::roce {
namespace {

constexpr std::size_t kMaxAsyncEvents = 1024;

std::uint32_t saturated(std::uint64_t count) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::min(count, kMax));
}

}  // namespace

DeviceAttributes Engine::query_device() const {
  return {.max_mr_size = std::numeric_limits<std::uint64_t>::max(),
          .max_qp = config_.max_qp,
          .max_qp_wr = kMaxQpWr,
          .max_sge = kMaxSge,
          .max_sge_rd = kMaxSge,
          .max_inline_data = kMaxInlineBytes,
          .max_cqe = CompletionQueue::kMaxCapacity,
          .max_mr = MemoryTable::kMaxRegions,
          .max_mw = MemoryTable::kMaxRegions,
          .max_qp_rd_atom = kMaxRdAtomic,
          .max_qp_init_rd_atom = kMaxRdAtomic,
          .max_res_rd_atom = kMaxRdAtomic * config_.max_qp,
          .max_srq = kMaxSrq,
          .max_srq_wr = kMaxSrqWr,
          .max_srq_sge = kMaxSge,
          .max_ah = config_.max_ah,
          .max_mcast_grp = kMaxMcastGrp,
          .max_mcast_qp_attach = kMaxMcastQpAttach,
          .max_total_mcast_qp_attach = kMaxTotalMcastQpAttach,
          .max_pkeys = PkeyTable::kSize,
          .phys_port_cnt = 1,
          .atomic_with_cpu = true};
}

PortAttributes Engine::query_port() const {
  const auto drops = [this](DropReason reason) {
    return counters_.drops[static_cast<std::size_t>(reason)].value();
  };
  return {.state = port_state_,
          .max_mtu = PathMtu::mtu_4096,
          .active_mtu = static_cast<PathMtu>(max_path_mtu()),
          .max_msg_sz = kMaxMessageBytes,
          .gid_tbl_len = stack::AddressTable::kLimit,
          .pkey_tbl_len = PkeyTable::kSize,
          .bad_pkey_cntr = saturated(drops(DropReason::bad_pkey)),
          .qkey_viol_cntr = saturated(drops(DropReason::bad_qkey))};
}

Expected<void> Engine::set_pkey(std::uint16_t index, std::uint16_t pkey) {
  if (const auto old = pkeys_.at(index); old && *old == pkey) return {};
  if (auto set = pkeys_.set(index, pkey); !set) return set;
  const auto follow = [index, pkey](const auto& qp) {
    if (qp != nullptr && qp->attributes_.pkey_index == index) qp->pkey_ = pkey;
  };
  std::ranges::for_each(qps_, follow);
  std::ranges::for_each(extension_qps_, follow);
  raise({.type = AsyncEventType::pkey_change});
  return {};
}

Expected<stack::IpAddress> Engine::query_gid(std::uint16_t index) const {
  if (index >= stack::AddressTable::kLimit) {
    return fail(ErrorCode::invalid_argument, "the GID table has indexes 0 to {}, not {}",
                stack::AddressTable::kLimit - 1, index);
  }
  return config_.host->address_at(index).value_or(stack::IpAddress{});
}

void Engine::on_address_change() { raise({.type = AsyncEventType::gid_change}); }

void Engine::on_duplicate_address(const stack::IpAddress& address) {
  raise({.type = AsyncEventType::duplicate_address, .address = address});
}

void Engine::on_packet_too_big(const stack::IpAddress& destination, std::uint32_t mtu) {
  raise({.type = AsyncEventType::path_mtu_exceeded, .address = destination, .mtu = mtu});
}

void Engine::set_port_state(PortState state) {
  if (state == port_state_) return;
  port_state_ = state;
  raise({.type =
             state == PortState::active ? AsyncEventType::port_active : AsyncEventType::port_err});
}

void Engine::raise(const AsyncEvent& event) {
  if (async_events_.size() == kMaxAsyncEvents) {
    async_events_.pop_front();
    counters_.async_events_lost.add();
  }
  async_events_.push_back(event);
  if (async_events_.size() == 1 && config_.async_notifier != nullptr) {
    config_.async_notifier->notify();
  }
}

std::optional<AsyncEvent> Engine::poll_async_event() {
  if (async_events_.empty()) return std::nullopt;
  const AsyncEvent event = async_events_.front();
  async_events_.pop_front();
  return event;
}

}  // namespace rockhopper::roce
