// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What the library exports.
#include "apps/verbs/abi/table.h"

#include "apps/verbs/cm/files.h"
#include "apps/verbs/objects/ah.h"
#include "apps/verbs/objects/channel.h"
#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/cq.h"
#include "apps/verbs/objects/device.h"
#include "apps/verbs/objects/domain.h"
#include "apps/verbs/objects/errors.h"
#include "apps/verbs/objects/mr.h"
#include "apps/verbs/objects/qp.h"
#include "apps/verbs/objects/qp_attr.h"
#include "apps/verbs/objects/srq.h"

namespace rockhopper::verbs {
namespace {

VerbsTable make_table() {
  VerbsTable table{};
  table.version = kTableVersion;
  table.open_device = kGuarded<&open_device>;
  table.close_device = kGuarded<&close_device>;

  table.query_device = kGuarded<&query_device>;
  table.query_port = kGuarded<&query_port_exported>;
  table.query_gid = kGuarded<&query_gid>;
  table.query_pkey = kGuarded<&query_pkey>;
  table.get_pkey_index = kGuarded<&get_pkey_index>;
  table.query_gid_ex = kGuarded<&query_gid_ex>;
  table.query_gid_table = kGuarded<&query_gid_table>;
  table.get_async_event = &get_async_event;
  table.ack_async_event = kGuarded<&ack_async_event>;

  table.alloc_pd = kGuarded<&alloc_pd>;
  table.dealloc_pd = kGuarded<&dealloc_pd>;

  table.reg_mr = kGuarded<&reg_mr>;
  table.reg_mr_iova = kGuarded<&reg_mr_iova>;
  table.reg_mr_iova2 = kGuarded<&reg_mr_iova2>;
  table.rereg_mr = kGuarded<&rereg_mr>;
  table.dereg_mr = kGuarded<&dereg_mr>;
  table.reg_dmabuf_mr = kGuarded<&reg_dmabuf_mr>;

  table.create_comp_channel = kGuarded<&create_comp_channel>;
  table.destroy_comp_channel = kGuarded<&destroy_comp_channel>;
  table.create_cq = kGuarded<&create_cq>;
  table.resize_cq = kGuarded<&resize_cq>;
  table.destroy_cq = kGuarded<&destroy_cq>;
  table.get_cq_event = &get_cq_event;
  table.ack_cq_events = kGuarded<&ack_cq_events>;

  table.create_srq = kGuarded<&create_srq>;
  table.modify_srq = kGuarded<&modify_srq>;
  table.query_srq = kGuarded<&query_srq>;
  table.destroy_srq = kGuarded<&destroy_srq>;

  table.create_qp = kGuarded<&create_qp>;
  table.modify_qp = kGuarded<&modify_qp>;
  table.query_qp = kGuarded<&query_qp>;
  table.destroy_qp = kGuarded<&destroy_qp>;
  table.query_qp_data_in_order = kGuarded<&query_qp_data_in_order>;
  table.qp_to_qp_ex = kGuarded<&qp_to_qp_ex>;
  table.query_ece = kGuarded<&query_ece>;
  table.set_ece = kGuarded<&set_ece>;
  table.attach_mcast = kGuarded<&attach_mcast>;
  table.detach_mcast = kGuarded<&detach_mcast>;

  table.create_ah = kGuarded<&create_ah>;
  table.init_ah_from_wc = kGuarded<&init_ah_from_wc>;
  table.create_ah_from_wc = kGuarded<&create_ah_from_wc>;
  table.destroy_ah = kGuarded<&destroy_ah>;
  table.resolve_eth_l2_from_gid = kGuarded<&resolve_eth_l2_from_gid>;

  table.open_channel = &cm::open_channel;
  table.write_channel = &cm::write_channel;
  table.is_channel = &cm::is_channel;
  table.closed_channel = &cm::closed_channel;
  return table;
}

}  // namespace
}  // namespace rockhopper::verbs

extern "C" __attribute__((visibility("default"))) const rockhopper::verbs::VerbsTable*
rockhopper_verbs(std::uint32_t version) {
  static const rockhopper::verbs::VerbsTable table = rockhopper::verbs::make_table();
  return version == rockhopper::verbs::kTableVersion ? &table : nullptr;
}
