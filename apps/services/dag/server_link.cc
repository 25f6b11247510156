// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/server_link.h"

#include <cassert>
#include <cstddef>
#include <utility>

#include "apps/services/dag/client_area.h"
#include "apps/services/dag/client_parts.h"

namespace rockhopper::dag {
namespace {

/// A renewal's wr_id has this bit, the number's lower bits, and which connection to which server.
constexpr std::uint64_t kRenewalBit = std::uint64_t{1} << 63;
constexpr unsigned kRenewalNumberShift = 48;

/// An operation's wr_id has its index and which part of its work it is.
std::uint64_t wr_id_of(std::uint32_t operation, std::size_t work) {
  return std::uint64_t{operation} << 8 | work;
}

void count(ClientCounters& counters, roce::WrOpcode opcode) {
  switch (opcode) {
    case roce::WrOpcode::rdma_read:
      return counters.reads.add();
    case roce::WrOpcode::rdma_write:
      return counters.writes.add();
    case roce::WrOpcode::send:
      return counters.requests.add();
    default:
      return counters.atomics.add();
  }
}

}  // namespace

Expected<void> ServerLink::set_up(roce::Engine& engine, dc::Endpoint& endpoint,
                                  roce::ProtectionDomain pd) {
  ROCKHOPPER_TRY(receives_,
                 roce::ReceiveBuffers::create(engine, pd, 2 * kRequestWords, kResponseBytes));
  ROCKHOPPER_TRY(dct_,
                 dc::own(endpoint, endpoint.create_dct({.pd = pd,
                                                        .srq = receives_->srq(),
                                                        .recv_cq = receives_->cq(),
                                                        .access_flags = 0,
                                                        .path_mtu = client_.config.path_mtu})));
  return {};
}

void ServerLink::shut() {
  to_post_.clear();
  waiting_.clear();
  peer_.reset();
  dct_.reset();
}

bool ServerLink::is_good(const Entry& entry) const {
  return entry.rkey == grant_.records_key && entry.address % 8 == 0 && entry.length > 0 &&
         entry.address <= grant_.records_bytes &&
         entry.length <= grant_.records_bytes - entry.address;
}

Expected<void> ServerLink::connect(roce::Engine& engine, roce::ProtectionDomain pd,
                                   const roce::AddressVector& av, const Grant& grant) {
  if (is_connected()) return fail(ErrorCode::invalid_state, "server {} is connected", server_);
  if (operations_ > 0) {
    return fail(ErrorCode::busy, "server {} has operations of the last connection", server_);
  }
  if (grant.client == 0 || grant.hash_bits == 0 || grant.hash_bits > 64 || grant.lease_ns == 0) {
    return fail(ErrorCode::invalid_argument, "the grant of server {} is none", server_);
  }
  peer_.reset();
  ah_.reset();
  ROCKHOPPER_TRY(ah_, roce::own(engine, engine.create_ah(pd, av)));
  peer_.emplace(*ah_, grant.target, grant.access_key);
  grant_ = grant;
  words_.reset();
  lease_.begin(grant.lease_ns, client_.now_ns);
  ++connection_;
  return {};
}

// Requests to the transport.

void ServerLink::post(Operation& operation) {
  to_post_.push_back(operation);
  drain();
}

void ServerLink::drain() {
  while (!to_post_.empty()) {
    Operation& operation = to_post_.front();
    while (!operation.work().is_posted()) {
      if (!post_next(operation)) return;
    }
    to_post_.pop_front();
  }
}

/// Returns false if there is no room now, or the connection is gone.
bool ServerLink::post_next(Operation& operation) {
  const std::size_t index = operation.work().next();
  const Work& work = operation.work()[index];
  const roce::Sge sge{reinterpret_cast<std::uintptr_t>(work.local), work.length,
                      client_.operations.memory_key()};
  const auto posted = client_.pool->post_send(*peer_, {.wr_id = wr_id_of(operation.index(), index),
                                                       .sg_list = {&sge, 1},
                                                       .opcode = work.opcode,
                                                       .send_flags = roce::kSendSignaled,
                                                       .remote_addr = work.remote,
                                                       .rkey = work.rkey,
                                                       .compare_add = work.compare_add,
                                                       .swap = work.swap});
  if (posted != roce::PostResult::ok) return false;
  operation.work().on_posted();
  count(client_.counters, work.opcode);
  return true;
}

// Requests to the server's software.

void ServerLink::wait_for_word(Operation& operation) {
  waiting_.push_back(operation);
  admit_waiting();
}

void ServerLink::admit_waiting() {
  while (!waiting_.empty()) {
    Operation& operation = waiting_.front();
    const auto id = words_.take(operation.index());
    if (!id) return;
    waiting_.pop_front();
    operation.on_word(*id);
  }
}

void ServerLink::forget(Operation& operation) {
  if (!operation.hook.is_linked()) return;
  List& list = operation.is_waiting_for_word() ? waiting_ : to_post_;
  list.erase(list.iterator_to(operation));
}

bool ServerLink::poll_receives() {
  return receives_->poll([this](const roce::Completion&, std::span<const std::byte> bytes) {
    if (bytes.empty()) {
      client_.counters.rx_failed.add();
    } else {
      accept(bytes);
    }
  });
}

void ServerLink::accept(std::span<const std::byte> bytes) {
  const auto response = parse_response(bytes);
  if (!response) return client_.counters.rx_malformed.add();
  const auto answer = words_.on_answer(response->id, response->status == Status::canceled);
  if (!answer.is_expected) return client_.counters.rx_unexpected.add();
  if (answer.operation) client_.operations.at(*answer.operation).on_answer(*response);
  admit_waiting();
}

// The lease.

bool ServerLink::is_renewal(std::uint64_t wr_id) { return (wr_id & kRenewalBit) != 0; }

std::uint64_t ServerLink::renewal_wr_id(std::uint64_t number) const {
  return kRenewalBit | (number & Lease::kNumberMask) << kRenewalNumberShift |
         std::uint64_t{connection_} << 16 | server_;
}

bool ServerLink::renew() {
  if (!lease_.is_due(client_.now_ns)) return false;
  if (lease_.is_held() || client_.operations.is_pinned_before(*this, lease_.posted())) {
    if (lease_.hold_up()) client_.counters.renewals_held_up.add();
    return false;
  }
  const std::uint64_t number = lease_.posted() + 1;
  const roce::Sge sge{reinterpret_cast<std::uintptr_t>(&number), sizeof number, {}};
  const auto posted =
      client_.pool->post_send(*peer_, {.wr_id = renewal_wr_id(number),
                                       .sg_list = {&sge, 1},
                                       .opcode = roce::WrOpcode::rdma_write,
                                       .send_flags = roce::kSendInline | roce::kSendSignaled,
                                       .remote_addr = offsetof(ClientArea, renewals),
                                       .rkey = grant_.area_key});
  if (posted != roce::PostResult::ok) return false;
  lease_.on_posted(client_.now_ns);
  client_.counters.renewals.add();
  return true;
}

void ServerLink::on_renewal(const roce::Completion& completion) {
  const std::uint64_t number = completion.wr_id >> kRenewalNumberShift & Lease::kNumberMask;
  if (completion.wr_id != renewal_wr_id(number)) return;  // of an earlier connection
  if (completion.status == roce::WcStatus::success) {
    lease_.on_complete(number);
  } else if (completion.status != roce::WcStatus::outcome_unknown) {
    mark_lost();
  }
}

// The end of a connection.

/// Who may have been fenced by one server must not go on at others as if he were not.
void ServerLink::end_if_lost() {
  if (lease_.has_ended(client_.now_ns)) {
    client_.counters.leases_ended.add();
    is_lost_ = true;
  }
  if (std::exchange(is_lost_, false)) lose();
}

/// Everything that it had ends.
void ServerLink::lose() {
  if (!is_connected()) return;
  lease_.end();
  client_.counters.servers_lost.add();
  to_post_.clear();
  waiting_.clear();
  client_.operations.for_each_active([this](Operation& operation) {
    if (operation.is_of(*this)) operation.on_link_lost();
  });
  client_.listener.on_server_lost(server_);
}

}  // namespace rockhopper::dag
