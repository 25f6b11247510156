// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/context_operations.h"

#include "apps/verbs/objects/advise_mr.h"
#include "apps/verbs/objects/cq.h"
#include "apps/verbs/objects/device.h"
#include "apps/verbs/objects/dm.h"
#include "apps/verbs/objects/domain.h"
#include "apps/verbs/objects/errors.h"
#include "apps/verbs/objects/mr.h"
#include "apps/verbs/objects/mw.h"
#include "apps/verbs/objects/post.h"
#include "apps/verbs/objects/qp.h"
#include "apps/verbs/objects/srq.h"
#include "apps/verbs/objects/xrcd.h"

namespace rockhopper::verbs {

void set_operations(Context& context) {
  context.sz = sizeof(verbs_context);
  ibv_context_ops& ops = context.context.ops;
  ops.alloc_mw = kGuarded<&alloc_mw>;
  ops.bind_mw = kGuarded<&bind_mw>;
  ops.dealloc_mw = kGuarded<&dealloc_mw>;
  ops.poll_cq = &poll_cq;
  ops.req_notify_cq = &req_notify_cq;
  ops.post_srq_recv = &post_srq_recv;
  ops.post_send = &post_send;
  ops.post_recv = &post_recv;
  context.query_port = kGuarded<&query_port>;
  context.query_device_ex = kGuarded<&query_device_ex>;
  context.query_rt_values = kGuarded<&query_rt_values>;
  context.advise_mr = kGuarded<&advise_mr>;
  context.alloc_dm = kGuarded<&alloc_dm>;
  context.free_dm = kGuarded<&free_dm>;
  context.reg_dm_mr = kGuarded<&reg_dm_mr>;
  context.create_cq_ex = kGuarded<&create_cq_ex>;
  context.modify_cq = kGuarded<&modify_cq>;
  context.create_srq_ex = kGuarded<&create_srq_ex>;
  context.get_srq_num = kGuarded<&get_srq_num>;
  context.create_qp_ex = kGuarded<&create_qp_ex>;
  context.open_qp = kGuarded<&open_qp>;
  context.open_xrcd = kGuarded<&open_xrcd>;
  context.close_xrcd = kGuarded<&close_xrcd>;
  context.alloc_td = kGuarded<&alloc_td>;
  context.dealloc_td = kGuarded<&dealloc_td>;
  context.alloc_parent_domain = kGuarded<&alloc_parent_domain>;
}

}  // namespace rockhopper::verbs
