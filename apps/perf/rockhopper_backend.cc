// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/perf/rockhopper_backend.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace rockhopper::apps::perf {
namespace {

roce::WrOpcode opcode_of(Operation operation) {
  switch (operation) {
    case Operation::send:
      return roce::WrOpcode::send;
    case Operation::write:
      return roce::WrOpcode::rdma_write;
    case Operation::read:
      return roce::WrOpcode::rdma_read;
    case Operation::cas:
      return roce::WrOpcode::atomic_cmp_and_swp;
    case Operation::faa:
      break;
  }
  return roce::WrOpcode::atomic_fetch_and_add;
}

}  // namespace

RockhopperBackend::RockhopperBackend(std::unique_ptr<Endpoint> endpoint,
                                     std::optional<unsigned> gid_index,
                                     const QueuePairOptions& options)
    : endpoint_(std::move(endpoint)), gid_index_(gid_index), options_(options) {}

RockhopperBackend::~RockhopperBackend() {
  for (roce::QueuePair* qp : qps_) endpoint_->engine().destroy_qp(qp);
  if (region_.base != nullptr) (void)endpoint_->engine().deregister_memory(region_.key);
}

std::string RockhopperBackend::name() const { return "rockhopper " + endpoint_->port_name(); }

std::uint32_t RockhopperBackend::path_mtu_max() const { return endpoint_->engine().max_path_mtu(); }

std::uint16_t RockhopperBackend::outstanding_reads_max() const { return roce::kMaxRdAtomic; }

Expected<void> RockhopperBackend::wait_for_link() { return endpoint_->wait_for_link(); }

Expected<Side> RockhopperBackend::prepare(const Agreement& agreement, std::size_t bytes,
                                          std::optional<bool> ipv4) {
  roce::Engine& engine = endpoint_->engine();
  const auto& table = endpoint_->addresses();
  if (gid_index_) {
    side_.gid = table[*gid_index_].address;
  } else if (ipv4) {
    auto gid = endpoint_->address_of_family(*ipv4);
    if (!gid) return tl::make_unexpected(gid.error());
    side_.gid = *gid;
  } else {
    side_.gid = table.front().address;
  }
  auto memory = PageMemory::allocate(bytes);
  if (!memory) return tl::make_unexpected(memory.error());
  memory_ = std::move(*memory);
  pd_ = engine.allocate_pd();
  auto region = engine.register_memory(pd_, memory_.data(), bytes,
                                       roce::kAccessLocalWrite | roce::kAccessRemoteWrite |
                                           roce::kAccessRemoteRead | roce::kAccessRemoteAtomic);
  if (!region) return tl::make_unexpected(region.error());
  region_ = *region;
  side_.address = region_.iova;
  side_.bytes = bytes;
  side_.rkey = static_cast<std::uint32_t>(region_.key);

  auto cq =
      roce::CompletionQueue::create(agreement.qps * (agreement.window + agreement.receive_depth));
  if (!cq) return tl::make_unexpected(cq.error());
  cq_ = std::move(*cq);
  inline_bytes_ = agreement.inline_bytes;
  for (std::uint16_t i = 0; i < agreement.qps; ++i) {
    if (auto made = create_queue_pair(agreement); !made) return tl::make_unexpected(made.error());
  }
  return side_;
}

Expected<void> RockhopperBackend::create_queue_pair(const Agreement& agreement) {
  roce::Engine& engine = endpoint_->engine();
  roce::QpInit init;
  init.pd = pd_;
  init.send_cq = cq_.get();
  init.recv_cq = cq_.get();
  init.max_send_wr = agreement.window;
  init.max_recv_wr = agreement.receive_depth;
  init.max_inline_data = agreement.inline_bytes;
  auto qp = engine.create_qp(init);
  if (!qp) return tl::make_unexpected(qp.error());
  qps_.push_back(*qp);
  if (auto set = (*qp)->set_congestion_control({.algorithm = options_.congestion}); !set)
    return set;
  if (auto set = (*qp)->set_loss_recovery({.adaptive_timeout = options_.adaptive_timeout}); !set)
    return set;
  side_.qps.push_back({(*qp)->number().value, engine.random_psn().value});
  roce::QpAttributes attributes;
  attributes.qp_access_flags =
      roce::kAccessRemoteWrite | roce::kAccessRemoteRead | roce::kAccessRemoteAtomic;
  attributes.pkey_index = options_.pkey_index;
  return (*qp)->bring_up(attributes, roce::QpState::init);
}

Expected<void> RockhopperBackend::connect(const Agreement& agreement, const Side& remote) {
  remote_key_ = static_cast<roce::MemoryKey>(remote.rkey);
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    if (qps_[i]->state() == roce::QpState::rts) continue;
    roce::RecoveryConfig recovery = qps_[i]->loss_recovery();
    if (agreement.selective_repeat) {
      recovery.algorithm = roce::RecoveryAlgorithm::selective_repeat;
    }
    if (auto set = qps_[i]->set_loss_recovery(recovery); !set) return set;
    roce::QpAttributes attributes;
    attributes.path_mtu = static_cast<roce::PathMtu>(agreement.path_mtu);
    attributes.dest_qp_num = wire::Qpn::make(remote.qps[i].qpn);
    attributes.rq_psn = wire::Psn::make(remote.qps[i].psn);
    attributes.max_dest_rd_atomic = static_cast<std::uint8_t>(agreement.outstanding_reads);
    attributes.min_rnr_timer = 12;
    attributes.ah_attr.source = side_.gid;
    attributes.ah_attr.destination = remote.gid;
    attributes.ah_attr.service_level = agreement.service_level;
    attributes.ah_attr.traffic_class = agreement.traffic_class;
    attributes.timeout = agreement.ack_timeout;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    attributes.sq_psn = wire::Psn::make(side_.qps[i].psn);
    attributes.max_rd_atomic = static_cast<std::uint8_t>(agreement.outstanding_reads);
    if (auto moved = qps_[i]->bring_up(attributes, roce::QpState::rts); !moved) return moved;
  }
  return {};
}

roce::Sge RockhopperBackend::sge(std::uint64_t offset, std::uint32_t length) const {
  return {region_.iova + offset, length, region_.key};
}

std::size_t RockhopperBackend::post_sends(std::uint16_t qp, std::span<const SendRequest> requests) {
  std::size_t posted = 0;
  for (const SendRequest& request : requests) {
    const roce::Sge element = sge(request.local_offset, request.length);
    roce::SendWr wr;
    wr.wr_id = request.id;
    wr.sg_list = {&element, 1};
    wr.opcode = opcode_of(request.operation);
    wr.send_flags = request.signaled ? roce::kSendSignaled : 0u;
    if (request.length <= inline_bytes_ &&
        (request.operation == Operation::send || request.operation == Operation::write)) {
      wr.send_flags |= roce::kSendInline;
    }
    wr.remote_addr = request.remote_address;
    wr.rkey = remote_key_;
    wr.compare_add = request.compare_add;
    wr.swap = request.swap;
    if (qps_[qp]->post_send(wr) != roce::PostResult::ok) break;
    ++posted;
  }
  return posted;
}

std::size_t RockhopperBackend::post_receives(std::uint16_t qp,
                                             std::span<const ReceiveRequest> requests) {
  std::size_t posted = 0;
  for (const ReceiveRequest& request : requests) {
    const roce::Sge element = sge(request.local_offset, request.length);
    if (qps_[qp]->post_recv({request.id, {&element, 1}}) != roce::PostResult::ok) break;
    ++posted;
  }
  return posted;
}

std::size_t RockhopperBackend::poll(std::span<Done> out) {
  (void)endpoint_->turn();
  const std::size_t count =
      cq_->poll(std::span(completions_).first(std::min(out.size(), completions_.size())));
  for (std::size_t i = 0; i < count; ++i) {
    const roce::Completion& completion = completions_[i];
    const bool good = completion.status == roce::WcStatus::success;
    out[i] = {completion.wr_id, completion.byte_len,
              good ? std::string_view() : roce::to_string(completion.status)};
  }
  return count;
}

}  // namespace rockhopper::apps::perf
