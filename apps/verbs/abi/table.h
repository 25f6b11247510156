// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <infiniband/verbs.h>
#include <sys/types.h>

namespace rockhopper::verbs {

/// The version of VerbsTable. Both libraries are built and installed together, so a difference is
/// a broken installation: the thin library then says so, and opens no device.
inline constexpr std::uint32_t kTableVersion = 2;

/// What the engine library gives to the thin libibverbs.so.1: the exported verbs that act on an
/// opened context or on what was made from one. Each has the type, the result and the errno that
/// libibverbs documents for it, lets no C++ exception out, and may be called by any thread. What is
/// inline in <infiniband/verbs.h> is not here: the engine library puts it into the context that it
/// opens. A null pointer is a verb that the engine library does not have: the thin library then
/// answers EOPNOTSUPP in that verb's way. The table is constant and outlives every call.
struct VerbsTable {
  std::uint32_t version;  ///< kTableVersion of the library that it is from

  /// Opens the device, which is the first member of a DeviceObject (device_object.h) that is never
  /// freed. Returns null and sets errno if it cannot. These two are never null.
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);

  decltype(&ibv_query_device) query_device;
  /// The exported form: it fills what `struct _compat_ibv_port_attr` has, and nothing behind it.
  decltype(&ibv_query_port) query_port;
  decltype(&ibv_query_gid) query_gid;
  decltype(&ibv_query_pkey) query_pkey;
  decltype(&ibv_get_pkey_index) get_pkey_index;
  decltype(&_ibv_query_gid_ex) query_gid_ex;
  decltype(&_ibv_query_gid_table) query_gid_table;
  decltype(&ibv_get_async_event) get_async_event;
  decltype(&ibv_ack_async_event) ack_async_event;

  decltype(&ibv_alloc_pd) alloc_pd;
  decltype(&ibv_dealloc_pd) dealloc_pd;

  decltype(&ibv_reg_mr) reg_mr;
  decltype(&ibv_reg_mr_iova) reg_mr_iova;
  decltype(&ibv_reg_mr_iova2) reg_mr_iova2;
  decltype(&ibv_rereg_mr) rereg_mr;
  decltype(&ibv_dereg_mr) dereg_mr;
  decltype(&ibv_reg_dmabuf_mr) reg_dmabuf_mr;

  decltype(&ibv_create_comp_channel) create_comp_channel;
  decltype(&ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&ibv_create_cq) create_cq;
  decltype(&ibv_resize_cq) resize_cq;
  decltype(&ibv_destroy_cq) destroy_cq;
  decltype(&ibv_get_cq_event) get_cq_event;
  decltype(&ibv_ack_cq_events) ack_cq_events;

  decltype(&ibv_create_srq) create_srq;
  decltype(&ibv_modify_srq) modify_srq;
  decltype(&ibv_query_srq) query_srq;
  decltype(&ibv_destroy_srq) destroy_srq;

  decltype(&ibv_create_qp) create_qp;
  decltype(&ibv_modify_qp) modify_qp;
  decltype(&ibv_query_qp) query_qp;
  decltype(&ibv_destroy_qp) destroy_qp;
  decltype(&ibv_query_qp_data_in_order) query_qp_data_in_order;
  decltype(&ibv_qp_to_qp_ex) qp_to_qp_ex;
  decltype(&ibv_query_ece) query_ece;
  decltype(&ibv_set_ece) set_ece;
  decltype(&ibv_attach_mcast) attach_mcast;
  decltype(&ibv_detach_mcast) detach_mcast;

  decltype(&ibv_create_ah) create_ah;
  decltype(&ibv_init_ah_from_wc) init_ah_from_wc;
  decltype(&ibv_create_ah_from_wc) create_ah_from_wc;
  decltype(&ibv_destroy_ah) destroy_ah;
  decltype(&ibv_resolve_eth_l2_from_gid) resolve_eth_l2_from_gid;

  decltype(&ibv_import_device) import_device;
  decltype(&ibv_import_pd) import_pd;
  decltype(&ibv_unimport_pd) unimport_pd;
  decltype(&ibv_import_mr) import_mr;
  decltype(&ibv_unimport_mr) unimport_mr;
  decltype(&ibv_import_dm) import_dm;
  decltype(&ibv_unimport_dm) unimport_dm;

  // /dev/infiniband/rdma_cm, for librh-paths.so: never null.
  /// As open(); `device` is the first one listed.
  int (*open_channel)(const ibv_device* device, int flags);
  /// As write(), if the descriptor is one that open_channel() gave, or a duplicate; else false.
  bool (*write_channel)(int fd, const void* bytes, size_t size, ssize_t* result);
  /// Whether such descriptors, which are pipes, have that inode. May be called from anywhere.
  bool (*is_channel)(ino_t inode);
  /// To be called behind each close() of one.
  void (*closed_channel)();
};

/// The one function that librockhopper-verbs.so exports, with C linkage and this name. Returns null
/// if the library has no table of that version. It starts nothing.
using GetVerbsTable = const VerbsTable*(std::uint32_t version);
inline constexpr char kGetVerbsTable[] = "rockhopper_verbs";
inline constexpr char kEngineLibrary[] = "librockhopper-verbs.so";

}  // namespace rockhopper::verbs
