// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/convert.h"

#include <algorithm>
#include <cstring>

#include <arpa/inet.h>

#include "apps/verbs/node/lid.h"
#include "stack/address_table.h"

namespace rockhopper::verbs {
namespace {

/// Rights that are hints, or that all memory here has.
constexpr unsigned kHints = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
constexpr unsigned kRights = roce::kAccessAll | roce::kAccessMwBind | roce::kAccessZeroBased |
                             roce::kAccessFlushGlobal | roce::kAccessFlushPersistent;
/// The masks' lowest bits are verbs' and the engine's.
constexpr unsigned kAttributes = (static_cast<unsigned>(IBV_QP_DEST_QPN) << 1) - 1;

bool is_atomic(roce::WrOpcode opcode) {
  return opcode == roce::WrOpcode::atomic_cmp_and_swp ||
         opcode == roce::WrOpcode::atomic_fetch_and_add;
}

std::uint32_t send_flags_of(unsigned verbs) {
  static_assert(static_cast<unsigned>(IBV_SEND_FENCE) == roce::kSendFence &&
                static_cast<unsigned>(IBV_SEND_SIGNALED) == roce::kSendSignaled &&
                static_cast<unsigned>(IBV_SEND_SOLICITED) == roce::kSendSolicited &&
                static_cast<unsigned>(IBV_SEND_INLINE) == roce::kSendInline);
  return verbs &
         (roce::kSendFence | roce::kSendSignaled | roce::kSendSolicited | roce::kSendInline);
}

/// False: there is no such state.
bool read_state(const ibv_qp_state& from, roce::QpState& to) {
  if (number_of(from) > IBV_QPS_ERR) return false;
  to = static_cast<roce::QpState>(from);
  return true;
}

}  // namespace

ibv_gid gid_of(const stack::IpAddress& address) {
  ibv_gid gid{};
  std::memcpy(gid.raw, address.bytes.data(), sizeof gid.raw);
  return gid;
}

std::optional<std::uint32_t> access_of(unsigned verbs) {
  const unsigned rights = verbs & ~kHints;
  if ((rights & ~kRights) != 0) return std::nullopt;
  return rights;
}

std::optional<roce::WrOpcode> opcode_of(unsigned verbs) {
  switch (verbs) {
    case IBV_WR_RDMA_WRITE:
      return roce::WrOpcode::rdma_write;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return roce::WrOpcode::rdma_write_with_imm;
    case IBV_WR_SEND:
      return roce::WrOpcode::send;
    case IBV_WR_SEND_WITH_IMM:
      return roce::WrOpcode::send_with_imm;
    case IBV_WR_RDMA_READ:
      return roce::WrOpcode::rdma_read;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return roce::WrOpcode::atomic_cmp_and_swp;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return roce::WrOpcode::atomic_fetch_and_add;
    case IBV_WR_LOCAL_INV:
      return roce::WrOpcode::local_inv;
    case IBV_WR_BIND_MW:
      return roce::WrOpcode::bind_mw;
    case IBV_WR_SEND_WITH_INV:
      return roce::WrOpcode::send_with_inv;
    case kWrAtomicWrite:
      return roce::WrOpcode::atomic_write;
    default:
      return std::nullopt;
  }
}

void convert(const ibv_send_wr& from, roce::WrOpcode opcode, roce::SendWr& to) {
  to.wr_id = from.wr_id;
  to.opcode = opcode;
  to.send_flags = send_flags_of(from.send_flags);
  if (opcode == roce::WrOpcode::send_with_inv || opcode == roce::WrOpcode::local_inv) {
    to.invalidate_rkey = roce::MemoryKey{from.invalidate_rkey};
  } else {
    to.imm_data = ntohl(from.imm_data);
  }
  if (is_atomic(opcode)) {
    to.remote_addr = from.wr.atomic.remote_addr;
    to.rkey = roce::MemoryKey{from.wr.atomic.rkey};
    to.compare_add = from.wr.atomic.compare_add;
    to.swap = from.wr.atomic.swap;
  } else {
    to.remote_addr = from.wr.rdma.remote_addr;
    to.rkey = roce::MemoryKey{from.wr.rdma.rkey};
  }
  to.remote_srqn = from.qp_type.xrc.remote_srqn;
}

ibv_wc_opcode opcode_of(roce::WcOpcode opcode) {
  switch (opcode) {
    case roce::WcOpcode::send:
      return IBV_WC_SEND;
    case roce::WcOpcode::rdma_write:
      return IBV_WC_RDMA_WRITE;
    case roce::WcOpcode::rdma_read:
      return IBV_WC_RDMA_READ;
    case roce::WcOpcode::comp_swap:
      return IBV_WC_COMP_SWAP;
    case roce::WcOpcode::fetch_add:
      return IBV_WC_FETCH_ADD;
    case roce::WcOpcode::recv:
      return IBV_WC_RECV;
    case roce::WcOpcode::recv_rdma_with_imm:
      return IBV_WC_RECV_RDMA_WITH_IMM;
    case roce::WcOpcode::local_inv:
      return IBV_WC_LOCAL_INV;
    case roce::WcOpcode::bind_mw:
      return IBV_WC_BIND_MW;
    case roce::WcOpcode::flush:
      return static_cast<ibv_wc_opcode>(kWcFlush);
    case roce::WcOpcode::atomic_write:
      return static_cast<ibv_wc_opcode>(kWcAtomicWrite);
    default:
      return IBV_WC_SEND;  // of requests that verbs cannot post
  }
}

ibv_wc_status status_of(roce::WcStatus status) {
  return status <= roce::WcStatus::general_err ? static_cast<ibv_wc_status>(status)
                                               : IBV_WC_GENERAL_ERR;
}

unsigned flags_of(const roce::Completion& completion) {
  unsigned flags = 0;
  if ((completion.wc_flags & roce::kWcGrh) != 0) flags |= IBV_WC_GRH;
  if ((completion.wc_flags & roce::kWcWithImm) != 0) flags |= IBV_WC_WITH_IMM;
  if ((completion.wc_flags & roce::kWcWithInv) != 0) flags |= IBV_WC_WITH_INV;
  return flags;
}

/// A datagram's completion tells the type of its packet there (IBTA vol. 1, A17.4.5.1), as RNICs of
/// mlx5 do: programs must know which header is in the GRH's place.
std::uint8_t service_level_of(const roce::Completion& completion) {
  constexpr std::uint8_t kRoutable = 0x8;
  constexpr std::uint8_t kIpv6 = 0x1;
  constexpr std::uint8_t kIpv4 = 0x2;
  if ((completion.wc_flags & roce::kWcGrh) == 0) return 0;
  return kRoutable | (completion.is_ipv6 ? kIpv6 : kIpv4);
}

void convert(const roce::Completion& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.status = status_of(from.status);
  to.opcode = opcode_of(from.opcode);
  to.vendor_err = 0;
  to.byte_len = from.byte_len;
  if ((from.wc_flags & roce::kWcWithInv) != 0) {
    to.invalidated_rkey = static_cast<std::uint32_t>(from.invalidated_rkey);
  } else {
    to.imm_data = htonl(from.imm_data);
  }
  to.qp_num = from.qp_num.value;
  to.src_qp = from.src_qp.value;
  to.wc_flags = flags_of(from);
  to.pkey_index = from.pkey_index;
  to.slid = 0;
  to.sl = service_level_of(from);
  to.dlid_path_bits = 0;
}

std::optional<roce::QpType> type_of(unsigned type) {
  switch (type) {
    case IBV_QPT_RC:
      return roce::QpType::rc;
    case IBV_QPT_UC:
      return roce::QpType::uc;
    case IBV_QPT_UD:
      return roce::QpType::ud;
    case IBV_QPT_XRC_SEND:
      return roce::QpType::xrc_send;
    case IBV_QPT_XRC_RECV:
      return roce::QpType::xrc_recv;
    default:
      return std::nullopt;
  }
}

ibv_mtu mtu_of(roce::PathMtu mtu) {
  unsigned code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && 128u << code < roce::bytes(mtu)) {
    ++code;
  }
  return static_cast<ibv_mtu>(code);
}

roce::PathMtu mtu_of(unsigned code) {
  const bool known = code >= IBV_MTU_256 && code <= IBV_MTU_4096;
  return static_cast<roce::PathMtu>(known ? 128u << code : 0);
}

std::optional<std::uint8_t> gid_index(const roce::Engine& engine, const stack::IpAddress& address) {
  for (std::uint16_t index = 0; index < stack::AddressTable::kLimit; ++index) {
    const auto own = engine.query_gid(index);
    if (own && *own == address) return static_cast<std::uint8_t>(index);
  }
  return std::nullopt;
}

namespace {

/// The address that lid_of() numbers; unspecified where there is none.
stack::IpAddress numbered_address(const roce::Engine& engine) {
  for (std::uint16_t index = 0; index < stack::AddressTable::kLimit; ++index) {
    const auto own = engine.query_gid(index);
    if (own && own->is_ipv4() && !own->is_unspecified()) return *own;
  }
  return {};
}

/// A path that says no more than a LID.
Expected<roce::AddressVector> vector_of_lid(const roce::Engine& engine,
                                            const ibv_ah_attr& attributes) {
  roce::AddressVector vector;
  vector.source = numbered_address(engine);
  if (attributes.dlid == 0 || vector.source.is_unspecified()) {
    return fail(ErrorCode::invalid_argument, "an address on Ethernet has a GRH, or a LID of ours");
  }
  vector.destination =
      stack::IpAddress::from_ipv4((vector.source.ipv4() & 0xffff0000) | attributes.dlid);
  vector.service_level = attributes.sl & 7;
  return vector;
}

}  // namespace

std::uint16_t lid_of(const roce::Engine& engine) {
  const stack::IpAddress own = numbered_address(engine);
  return own.is_unspecified() ? std::uint16_t{0} : lid_of(own);
}

Expected<roce::AddressVector> vector_of(const roce::Engine& engine, const ibv_ah_attr& attributes) {
  if (attributes.port_num != 0 && attributes.port_num != 1) {
    return fail(ErrorCode::invalid_argument, "there is no port {}", attributes.port_num);
  }
  if (attributes.is_global == 0) return vector_of_lid(engine, attributes);
  ROCKHOPPER_TRY(const auto source, engine.query_gid(attributes.grh.sgid_index));
  if (source.is_unspecified()) {
    return fail(ErrorCode::invalid_argument, "entry {} of the GID table is empty",
                attributes.grh.sgid_index);
  }
  roce::AddressVector vector;
  vector.source = source;
  vector.destination = address_of(attributes.grh.dgid);
  vector.traffic_class = attributes.grh.traffic_class;
  // 0 is what programs leave there; such a packet would go no further than its sender.
  if (attributes.grh.hop_limit != 0) vector.hop_limit = attributes.grh.hop_limit;
  vector.flow_label = attributes.grh.flow_label & IB_GRH_FLOWLABEL_MASK;
  // Some programs answer with the completion's, which service_level_of() tells of.
  vector.service_level = attributes.sl & 7;
  return vector;
}

ibv_ah_attr attributes_of(const roce::Engine& engine, const roce::AddressVector& vector) {
  ibv_ah_attr attributes{};
  attributes.grh.dgid = gid_of(vector.destination);
  attributes.grh.flow_label = vector.flow_label;
  attributes.grh.sgid_index = gid_index(engine, vector.source).value_or(0);
  attributes.grh.hop_limit = vector.hop_limit;
  attributes.grh.traffic_class = vector.traffic_class;
  attributes.sl = vector.service_level;
  attributes.is_global = 1;
  attributes.port_num = 1;
  return attributes;
}

Expected<roce::QpAttributes> attributes_of(const roce::Engine& engine, const ibv_qp_attr& from,
                                           unsigned mask) {
  if ((mask & ~kAttributes) != 0 || (mask & IBV_QP_CAP) != 0) {
    return fail(ErrorCode::invalid_argument, "unknown attributes {:#x}", mask & ~kAttributes);
  }
  roce::QpAttributes to;
  if (((mask & IBV_QP_STATE) != 0 && !read_state(from.qp_state, to.qp_state)) ||
      ((mask & IBV_QP_CUR_STATE) != 0 && !read_state(from.cur_qp_state, to.cur_qp_state))) {
    return fail(ErrorCode::invalid_argument, "no such state");
  }
  to.path_mtu = mtu_of(number_of(from.path_mtu));
  to.qkey = from.qkey;
  // Programs leave the upper bits as they come.
  to.rq_psn = wire::Psn::make(from.rq_psn);
  to.sq_psn = wire::Psn::make(from.sq_psn);
  to.dest_qp_num = wire::Qpn{from.dest_qp_num};
  to.pkey_index = from.pkey_index;
  to.port_num = from.port_num;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
    const auto access = access_of(from.qp_access_flags);
    if (!access) return fail(ErrorCode::invalid_argument, "unknown access flags");
    // What a queue pair cannot grant means nothing there; programs give those of their regions.
    to.qp_access_flags = *access & roce::kAccessQp;
  }
  if ((mask & IBV_QP_AV) != 0) {
    ROCKHOPPER_TRY(to.ah_attr, vector_of(engine, from.ah_attr));
  }
  return to;
}

void convert(const roce::Engine& engine, const roce::QpAttributes& from, ibv_qp_attr& to) {
  to.qp_state = static_cast<ibv_qp_state>(from.qp_state);
  to.cur_qp_state = static_cast<ibv_qp_state>(from.cur_qp_state);
  to.path_mtu = mtu_of(from.path_mtu);
  to.path_mig_state = static_cast<ibv_mig_state>(from.path_mig_state);
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn.value;
  to.sq_psn = from.sq_psn.value;
  to.dest_qp_num = from.dest_qp_num.value;
  to.qp_access_flags = from.qp_access_flags;
  if (!from.ah_attr.source.is_unspecified()) to.ah_attr = attributes_of(engine, from.ah_attr);
  to.pkey_index = from.pkey_index;
  to.en_sqd_async_notify = from.en_sqd_async_notify ? 1 : 0;
  to.sq_draining = from.sq_draining ? 1 : 0;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port_num;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
}

std::optional<ibv_event_type> type_of(roce::AsyncEventType type) {
  switch (type) {
    case roce::AsyncEventType::cq_err:
      return IBV_EVENT_CQ_ERR;
    case roce::AsyncEventType::qp_fatal:
      return IBV_EVENT_QP_FATAL;
    case roce::AsyncEventType::qp_req_err:
      return IBV_EVENT_QP_REQ_ERR;
    case roce::AsyncEventType::qp_access_err:
      return IBV_EVENT_QP_ACCESS_ERR;
    case roce::AsyncEventType::comm_est:
      return IBV_EVENT_COMM_EST;
    case roce::AsyncEventType::sq_drained:
      return IBV_EVENT_SQ_DRAINED;
    case roce::AsyncEventType::srq_limit_reached:
      return IBV_EVENT_SRQ_LIMIT_REACHED;
    case roce::AsyncEventType::qp_last_wqe_reached:
      return IBV_EVENT_QP_LAST_WQE_REACHED;
    case roce::AsyncEventType::port_active:
      return IBV_EVENT_PORT_ACTIVE;
    case roce::AsyncEventType::port_err:
      return IBV_EVENT_PORT_ERR;
    case roce::AsyncEventType::pkey_change:
      return IBV_EVENT_PKEY_CHANGE;
    case roce::AsyncEventType::gid_change:
      return IBV_EVENT_GID_CHANGE;
    case roce::AsyncEventType::duplicate_address:
    case roce::AsyncEventType::path_mtu_exceeded:
      break;
  }
  return std::nullopt;
}

}  // namespace rockhopper::verbs
