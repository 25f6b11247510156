// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

// The verbs that act on an opened device: each is one look into the table of the engine library.
// A program cannot have an object to call them with before that is loaded, unless it is wrong.

#include <cerrno>
#include <cstddef>
#include <type_traits>

#include <infiniband/verbs.h>

#include "apps/verbs/abi/device_object.h"
#include "apps/verbs/abi/load.h"
#include "apps/verbs/abi/table.h"

// Macros of <infiniband/verbs.h> in front of the functions.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace rockhopper::verbs {
namespace {

/// What a verb that is not there returns: null, or EOPNOTSUPP, which errno is too.
template <typename Result>
Result unsupported() {
  errno = EOPNOTSUPP;
  if constexpr (std::is_pointer_v<Result>) {
    return nullptr;
  } else if constexpr (!std::is_void_v<Result>) {
    return Result{EOPNOTSUPP};
  }
}

template <auto kVerb, typename... Arguments>
auto call(Arguments... arguments) {
  const auto verb = loaded_table().*kVerb;
  using Result = decltype(verb(arguments...));
  return verb != nullptr ? verb(arguments...) : unsupported<Result>();
}

}  // namespace
}  // namespace rockhopper::verbs

using rockhopper::verbs::call;
using Table = rockhopper::verbs::VerbsTable;

extern "C" {

ibv_context* ibv_open_device(ibv_device* device) {
  return rockhopper::verbs::load_engine() ? call<&Table::open_device>(device) : nullptr;
}
int ibv_close_device(ibv_context* context) { return call<&Table::close_device>(context); }

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  return call<&Table::query_device>(context, attributes);
}
int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  return call<&Table::query_port>(context, port, attributes);
}
int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  return call<&Table::query_gid>(context, port, index, gid);
}
int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  return call<&Table::query_pkey>(context, port, index, pkey);
}
int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey) {
  return call<&Table::get_pkey_index>(context, port, pkey);
}
int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_size) {
  return call<&Table::query_gid_ex>(context, port, index, entry, flags, entry_size);
}
ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t entries_max,
                             std::uint32_t flags, std::size_t entry_size) {
  if (rockhopper::verbs::loaded_table().query_gid_table == nullptr) return -EOPNOTSUPP;
  return call<&Table::query_gid_table>(context, entries, entries_max, flags, entry_size);
}
int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return call<&Table::get_async_event>(context, event);
}
void ibv_ack_async_event(ibv_async_event* event) { call<&Table::ack_async_event>(event); }

ibv_pd* ibv_alloc_pd(ibv_context* context) { return call<&Table::alloc_pd>(context); }
int ibv_dealloc_pd(ibv_pd* pd) { return call<&Table::dealloc_pd>(pd); }

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return call<&Table::reg_mr>(pd, address, length, access);
}
ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        int access) {
  return call<&Table::reg_mr_iova>(pd, address, length, iova, access);
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                         unsigned access) {
  return call<&Table::reg_mr_iova2>(pd, address, length, iova, access);
}
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                          int fd, int access) {
  return call<&Table::reg_dmabuf_mr>(pd, offset, length, iova, fd, access);
}
int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access) {
  return call<&Table::rereg_mr>(mr, flags, pd, address, length, access);
}
int ibv_dereg_mr(ibv_mr* mr) { return call<&Table::dereg_mr>(mr); }

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return call<&Table::create_comp_channel>(context);
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return call<&Table::destroy_comp_channel>(channel);
}
ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int comp_vector) {
  return call<&Table::create_cq>(context, cqe, cq_context, channel, comp_vector);
}
int ibv_resize_cq(ibv_cq* cq, int cqe) { return call<&Table::resize_cq>(cq, cqe); }
int ibv_destroy_cq(ibv_cq* cq) { return call<&Table::destroy_cq>(cq); }
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return call<&Table::get_cq_event>(channel, cq, cq_context);
}
void ibv_ack_cq_events(ibv_cq* cq, unsigned count) { call<&Table::ack_cq_events>(cq, count); }

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  return call<&Table::create_srq>(pd, attributes);
}
int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  return call<&Table::modify_srq>(srq, attributes, mask);
}
int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attributes) {
  return call<&Table::query_srq>(srq, attributes);
}
int ibv_destroy_srq(ibv_srq* srq) { return call<&Table::destroy_srq>(srq); }

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return call<&Table::create_qp>(pd, attributes);
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  return call<&Table::modify_qp>(qp, attributes, mask);
}
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init) {
  return call<&Table::query_qp>(qp, attributes, mask, init);
}
int ibv_destroy_qp(ibv_qp* qp) { return call<&Table::destroy_qp>(qp); }
int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, std::uint32_t flags) {
  // The answer 0 is "not in order", which is what a program has to reckon with anyhow.
  if (rockhopper::verbs::loaded_table().query_qp_data_in_order == nullptr) return 0;
  return call<&Table::query_qp_data_in_order>(qp, opcode, flags);
}
ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return call<&Table::qp_to_qp_ex>(qp); }
int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) { return call<&Table::query_ece>(qp, ece); }
int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) { return call<&Table::set_ece>(qp, ece); }
int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  return call<&Table::attach_mcast>(qp, gid, lid);
}
int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  return call<&Table::detach_mcast>(qp, gid, lid);
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  return call<&Table::create_ah>(pd, attributes);
}
int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* attributes) {
  return call<&Table::init_ah_from_wc>(context, port, wc, grh, attributes);
}
ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
  return call<&Table::create_ah_from_wc>(pd, wc, grh, port);
}
int ibv_destroy_ah(ibv_ah* ah) { return call<&Table::destroy_ah>(ah); }
int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attributes,
                                std::uint8_t eth_mac[ETHERNET_LL_SIZE], std::uint16_t* vid) {
  return call<&Table::resolve_eth_l2_from_gid>(context, attributes, eth_mac, vid);
}

ibv_context* ibv_import_device(int fd) { return call<&Table::import_device>(fd); }
ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  return call<&Table::import_pd>(context, handle);
}
void ibv_unimport_pd(ibv_pd* pd) { call<&Table::unimport_pd>(pd); }
ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  return call<&Table::import_mr>(pd, handle);
}
void ibv_unimport_mr(ibv_mr* mr) { call<&Table::unimport_mr>(mr); }
ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  return call<&Table::import_dm>(context, handle);
}
void ibv_unimport_dm(ibv_dm* dm) { call<&Table::unimport_dm>(dm); }

/// rdma-core's own, with the numbers of sysfs: 0 is RoCE v1 or InfiniBand, 1 is RoCE v2. It stands
/// in private nodes, but ibv_devinfo and pyverbs have it.
int rockhopper_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index,
                              unsigned* type) {
  ibv_gid_entry entry = {};
  const int error = _ibv_query_gid_ex(context, port, index, &entry, 0, sizeof entry);
  if (error != 0) {
    errno = error;
    return -1;
  }
  *type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 1 : 0;
  return 0;
}

}  // extern "C"
