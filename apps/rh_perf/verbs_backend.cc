// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/verbs_backend.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <sched.h>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "roce/random.h"
#include "roce/wire/psn.h"

namespace rockhopper::apps::perf {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint32_t kIdlePolls = 100;
constexpr unsigned kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr int kRtrAttributes = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsAttributes = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

ibv_wr_opcode verbs_opcode_of(Operation operation) {
  switch (operation) {
    case Operation::send:
      return IBV_WR_SEND;
    case Operation::write:
      return IBV_WR_RDMA_WRITE;
    case Operation::read:
      return IBV_WR_RDMA_READ;
    case Operation::cas:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Operation::faa:
    case Operation::lock:  // not done here, see Backend::has_locks()
      break;
  }
  return IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/// enum ibv_mtu counts 1, 2, ... for 256, 512, ...
std::uint32_t bytes_of(ibv_mtu mtu) { return 128u << static_cast<unsigned>(mtu); }
ibv_mtu mtu_of(std::uint32_t bytes) { return static_cast<ibv_mtu>(std::bit_width(bytes) - 8); }

Expected<ibv_context*> open_device(const std::string& name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count == 0) {
    if (list != nullptr) ibv_free_device_list(list);
    return fail(ErrorCode::not_found, "this machine has no RDMA device (rdma link add makes one)");
  }
  std::string names;
  ibv_context* context = nullptr;
  bool found = false;
  for (int i = 0; i < count && !found; ++i) {
    const char* candidate = ibv_get_device_name(list[i]);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", candidate);
    if (!name.empty() && name != candidate) continue;
    found = true;
    context = ibv_open_device(list[i]);
  }
  ibv_free_device_list(list);
  if (!found) return fail(ErrorCode::not_found, "no RDMA device {}; there are: {}", name, names);
  if (context == nullptr) {
    return fail(ErrorCode::io, "RDMA device {} does not open: {}", name, std::strerror(errno));
  }
  return context;
}

/// Lower is better.
int rank(const stack::IpAddress& gid, std::optional<bool> ipv4) {
  if (gid.is_link_local()) return 2;
  return gid.is_ipv4() == ipv4.value_or(true) ? 0 : 1;
}

}  // namespace

Expected<std::unique_ptr<VerbsBackend>> VerbsBackend::open(const std::string& device,
                                                           std::optional<unsigned> gid_index,
                                                           std::uint32_t connect_timeout_ms) {
  ROCKHOPPER_TRY(auto context, open_device(device));
  std::unique_ptr<VerbsBackend> backend(new VerbsBackend);
  backend->context_.reset(context);
  backend->gid_index_ = gid_index;
  backend->connect_timeout_ms_ = connect_timeout_ms;
  if (ibv_query_port(context, kPort, &backend->port_) != 0 ||
      ibv_query_device(context, &backend->device_) != 0) {
    return fail(ErrorCode::io, "RDMA device {} tells no attributes", backend->name());
  }
  return backend;
}

std::string VerbsBackend::name() const {
  return fmt::format("verbs {}", ibv_get_device_name(context_->device));
}

std::uint32_t VerbsBackend::path_mtu_max() const { return bytes_of(port_.active_mtu); }

std::uint16_t VerbsBackend::outstanding_reads_max() const {
  return static_cast<std::uint16_t>(
      std::clamp(std::min(device_.max_qp_rd_atom, device_.max_qp_init_rd_atom), 0, 255));
}

Expected<void> VerbsBackend::wait_for_link() {
  const std::uint64_t deadline_ns = steady_now_ns() + connect_timeout_ms_ * kNsPerMs;
  while (port_.state != IBV_PORT_ACTIVE) {
    if (stop_requested()) return tl::make_unexpected(interrupted());
    if (steady_now_ns() >= deadline_ns) {
      return fail(ErrorCode::timeout, "port 1 of {} is still {}", name(),
                  ibv_port_state_str(port_.state));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (ibv_query_port(context_.get(), kPort, &port_) != 0) {
      return fail(ErrorCode::io, "{} tells no attributes", name());
    }
  }
  return {};
}

Expected<void> VerbsBackend::choose_gid(std::optional<bool> ipv4) {
  if (gid_index_) {
    ibv_gid gid{};
    if (ibv_query_gid(context_.get(), kPort, static_cast<int>(*gid_index_), &gid) != 0) {
      return fail(ErrorCode::not_found, "{} has no GID with index {}", name(), *gid_index_);
    }
    side_.gid = stack::IpAddress::from_bytes(gid.raw);
    return {};
  }
  int best = INT32_MAX;
  for (unsigned i = 0; i < static_cast<unsigned>(port_.gid_tbl_len); ++i) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context_.get(), kPort, i, &entry, 0) != 0) continue;
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
    const auto gid = stack::IpAddress::from_bytes(entry.gid.raw);
    if (ipv4 && gid.is_ipv4() != *ipv4) continue;
    if (const int worth = rank(gid, ipv4); worth < best) {
      best = worth;
      gid_index_ = i;
      side_.gid = gid;
    }
  }
  if (!gid_index_) {
    return fail(ErrorCode::not_found,
                "{} has no RoCEv2 GID of the peer's family; choose one with "
                "--gid-index",
                name());
  }
  return {};
}

Expected<Side> VerbsBackend::prepare(const Agreement& agreement, std::size_t bytes,
                                     std::optional<bool> ipv4) {
  ROCKHOPPER_TRY(choose_gid(ipv4));
  ROCKHOPPER_TRY(memory_, PageMemory::allocate(bytes));
  pd_.reset(ibv_alloc_pd(context_.get()));
  if (pd_ == nullptr) return fail(ErrorCode::exhausted, "{} gives no protection domain", name());
  mr_.reset(ibv_reg_mr(pd_.get(), memory_.data(), bytes, static_cast<int>(kRights)));
  if (mr_ == nullptr) {
    return fail(ErrorCode::exhausted, "{} does not register {} bytes: {}", name(), bytes,
                std::strerror(errno));
  }
  side_.address = reinterpret_cast<std::uint64_t>(memory_.data());
  side_.bytes = bytes;
  side_.rkey = mr_->rkey;

  const auto depth = static_cast<int>(agreement.qps * (agreement.window + agreement.receive_depth));
  cq_.reset(ibv_create_cq(context_.get(), depth, nullptr, nullptr, 0));
  if (cq_ == nullptr) {
    return fail(ErrorCode::exhausted, "{} makes no completion queue of {} entries: {}", name(),
                depth, std::strerror(errno));
  }
  inline_bytes_ = agreement.inline_bytes;
  for (std::uint16_t i = 0; i < agreement.qps; ++i) {
    ROCKHOPPER_TRY(create_queue_pair(agreement));
  }
  return side_;
}

Expected<void> VerbsBackend::create_queue_pair(const Agreement& agreement) {
  ibv_qp_init_attr init{};
  init.send_cq = cq_.get();
  init.recv_cq = cq_.get();
  init.qp_type = IBV_QPT_RC;
  init.cap = {agreement.window, agreement.receive_depth, 1, 1, agreement.inline_bytes};
  Handle<ibv_qp> qp(ibv_create_qp(pd_.get(), &init));
  if (qp == nullptr) {
    return fail(ErrorCode::exhausted, "{} makes no queue pair with {} sends and {} receives: {}",
                name(), agreement.window, agreement.receive_depth, std::strerror(errno));
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags = kRights;
  if (const int error =
          ibv_modify_qp(qp.get(), &attributes,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      error != 0) {
    return fail(ErrorCode::io, "INIT is refused by {}: {}", name(), std::strerror(error));
  }
  const auto psn = static_cast<std::uint32_t>(roce::SystemRandom().next() & wire::kMask24);
  side_.qps.push_back({qp->qp_num, psn});
  qps_.push_back(std::move(qp));
  return {};
}

Expected<void> VerbsBackend::connect(const Agreement& agreement, const Side& remote) {
  remote_key_ = remote.rkey;
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = mtu_of(agreement.path_mtu);
    attributes.dest_qp_num = remote.qps[i].qpn;
    attributes.rq_psn = remote.qps[i].psn;
    attributes.max_dest_rd_atomic = static_cast<std::uint8_t>(agreement.outstanding_reads);
    attributes.min_rnr_timer = 12;
    attributes.ah_attr.is_global = 1;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, remote.gid.bytes.data(), remote.gid.bytes.size());
    attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(*gid_index_);
    attributes.ah_attr.grh.hop_limit = 64;
    attributes.ah_attr.sl = agreement.service_level;
    attributes.ah_attr.grh.traffic_class = agreement.traffic_class;
    attributes.ah_attr.port_num = kPort;
    if (const int error = ibv_modify_qp(qps_[i].get(), &attributes, kRtrAttributes); error != 0) {
      return fail(ErrorCode::io, "RTR is refused by {}: {}; does {} answer ARP?", name(),
                  std::strerror(error), remote.gid.to_string());
    }
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = agreement.ack_timeout;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    attributes.sq_psn = side_.qps[i].psn;
    attributes.max_rd_atomic = static_cast<std::uint8_t>(agreement.outstanding_reads);
    if (const int error = ibv_modify_qp(qps_[i].get(), &attributes, kRtsAttributes); error != 0) {
      return fail(ErrorCode::io, "RTS is refused by {}: {}", name(), std::strerror(error));
    }
  }
  return {};
}

ibv_sge VerbsBackend::sge(std::uint64_t offset, std::uint32_t length) const {
  return {reinterpret_cast<std::uint64_t>(memory_.data()) + offset, length, mr_->lkey};
}

std::size_t VerbsBackend::post_sends(std::uint16_t qp, std::span<const SendRequest> requests) {
  std::array<ibv_send_wr, kBatch> wrs{};
  std::array<ibv_sge, kBatch> sges;
  const std::size_t count = std::min(requests.size(), wrs.size());
  if (count == 0) return 0;
  for (std::size_t i = 0; i < count; ++i) {
    const SendRequest& request = requests[i];
    sges[i] = sge(request.local_offset, request.length);
    ibv_send_wr& wr = wrs[i];
    wr.wr_id = request.id;
    wr.next = i + 1 < count ? &wrs[i + 1] : nullptr;
    wr.sg_list = &sges[i];
    wr.num_sge = 1;
    wr.opcode = verbs_opcode_of(request.operation);
    unsigned flags = request.signaled ? unsigned{IBV_SEND_SIGNALED} : 0u;
    if (is_atomic(request.operation)) {
      wr.wr.atomic = {request.remote_address, request.compare_add, request.swap, remote_key_};
    } else {
      wr.wr.rdma = {request.remote_address, remote_key_};
      const bool outgoing = request.operation != Operation::read;
      if (outgoing && request.length <= inline_bytes_) flags |= unsigned{IBV_SEND_INLINE};
    }
    wr.send_flags = flags;
  }
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qps_[qp].get(), wrs.data(), &bad) == 0) return count;
  return bad == nullptr ? 0 : static_cast<std::size_t>(bad - wrs.data());
}

std::size_t VerbsBackend::post_receives(std::uint16_t qp,
                                        std::span<const ReceiveRequest> requests) {
  std::array<ibv_recv_wr, kBatch> wrs{};
  std::array<ibv_sge, kBatch> sges;
  const std::size_t count = std::min(requests.size(), wrs.size());
  if (count == 0) return 0;
  for (std::size_t i = 0; i < count; ++i) {
    sges[i] = sge(requests[i].local_offset, requests[i].length);
    wrs[i] = {requests[i].id, i + 1 < count ? &wrs[i + 1] : nullptr, &sges[i], 1};
  }
  ibv_recv_wr* bad = nullptr;
  if (ibv_post_recv(qps_[qp].get(), wrs.data(), &bad) == 0) return count;
  return bad == nullptr ? 0 : static_cast<std::size_t>(bad - wrs.data());
}

std::size_t VerbsBackend::poll(std::span<Done> out) {
  std::array<ibv_wc, kBatch> completions;
  const int got = ibv_poll_cq(cq_.get(), static_cast<int>(std::min(out.size(), completions.size())),
                              completions.data());
  const std::size_t count = got > 0 ? static_cast<std::size_t>(got) : 0;
  idle_polls_ = count > 0 ? 0 : idle_polls_ + 1;
  // A software device needs the CPU that waits for it.
  if (idle_polls_ > kIdlePolls) sched_yield();
  for (std::size_t i = 0; i < count; ++i) {
    const ibv_wc& completion = completions[i];
    out[i].id = completion.wr_id;
    out[i].byte_len = completion.byte_len;
    out[i].error = completion.status == IBV_WC_SUCCESS
                       ? std::string_view()
                       : std::string_view(ibv_wc_status_str(completion.status));
  }
  return count;
}

}  // namespace rockhopper::apps::perf
