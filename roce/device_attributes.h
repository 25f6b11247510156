// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/types.h"

namespace rockhopper::roce {

/// What an engine can do, as ibv_device_attr: names and meanings are the same.
struct DeviceAttributes {
  std::uint64_t max_mr_size = 0;
  std::uint32_t max_qp = 0;
  std::uint32_t max_qp_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t max_sge_rd = 0;
  std::uint32_t max_inline_data = 0;  ///< bytes; verbs tell it with each queue pair
  std::uint32_t max_cqe = 0;
  std::uint32_t max_mr = 0;  ///< regions and windows together
  std::uint32_t max_mw = 0;
  std::uint32_t max_qp_rd_atom = 0;       ///< as responder
  std::uint32_t max_qp_init_rd_atom = 0;  ///< as requester
  std::uint32_t max_res_rd_atom = 0;      ///< as responder, all queue pairs together
  std::uint32_t max_srq = 0;
  std::uint32_t max_srq_wr = 0;
  std::uint32_t max_srq_sge = 0;
  std::uint32_t max_ah = 0;
  std::uint32_t max_mcast_grp = 0;
  std::uint32_t max_mcast_qp_attach = 0;  ///< queue pairs of one group
  std::uint32_t max_total_mcast_qp_attach = 0;
  std::uint16_t max_pkeys = 0;
  std::uint8_t phys_port_cnt = 0;
  bool atomic_with_cpu = false;  ///< IBV_ATOMIC_GLOB: atomics are so towards the CPU's own too
};

/// As enum ibv_port_state, the two that a RoCE port has.
enum class PortState : std::uint8_t { down = 1, active = 4 };

/// The port, as ibv_port_attr.
struct PortAttributes {
  PortState state = PortState::active;
  PathMtu max_mtu = PathMtu::mtu_4096;     ///< of the implementation
  PathMtu active_mtu = PathMtu::mtu_1024;  ///< of the interface MTU
  std::uint32_t max_msg_sz = 0;
  std::uint32_t gid_tbl_len = 0;
  std::uint16_t pkey_tbl_len = 0;
  std::uint32_t bad_pkey_cntr = 0;   ///< packets of other partitions; stays at its largest value
  std::uint32_t qkey_viol_cntr = 0;  ///< datagrams with a wrong Q_Key; the same
};

}  // namespace rockhopper::roce
