// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What programs are to move their queue pairs with; groups, whose datagrams these get.
#include <cerrno>

#include "apps/verbs/cm/agent.h"
#include "roce/qp_attributes.h"
#include "roce/wire/cm.h"

namespace rockhopper::verbs::cm {
namespace {

using roce::QpType;

void set_init(ib_uverbs_qp_attr& to, const Identifier& identifier) {
  to.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  to.port_num = kPort;
  if (identifier.is_datagram()) {
    to.qkey = identifier.qkey != 0 ? identifier.qkey : roce::cm::kUdpQkey;
    to.qp_attr_mask |= IBV_QP_QKEY;
    return;
  }
  to.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
  // A program that knows no peer yet has nothing to give it.
  if (identifier.connection != nullptr) {
    to.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  }
}

void set_rtr(ib_uverbs_qp_attr& to, const roce::QpAttributes& from, roce::QpType type) {
  to.qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  to.path_mtu = wire::cm::mtu_code(roce::bytes(from.path_mtu));
  to.dest_qp_num = from.dest_qp_num.value;
  to.rq_psn = from.rq_psn.value;
  if (type != QpType::rc && type != QpType::xrc_recv) return;
  to.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
}

void set_rts(ib_uverbs_qp_attr& to, const roce::QpAttributes& from, roce::QpType type) {
  to.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  to.sq_psn = from.sq_psn.value;
  if (type == QpType::uc) return;
  to.qp_attr_mask |= IBV_QP_TIMEOUT;
  to.timeout = from.timeout;
  if (type == QpType::xrc_recv) return;
  to.qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.max_rd_atomic = from.max_rd_atomic;
}

}  // namespace

int Agent::init_qp_attr(const Identifier& identifier, std::uint32_t state,
                        ib_uverbs_qp_attr& response) const {
  response = {};
  if (!identifier.has_device) return EINVAL;
  response.qp_state = state;
  if (state == IBV_QPS_INIT || identifier.is_datagram()) {
    set_init(response, identifier);
    return 0;
  }
  if (identifier.connection == nullptr) return EINVAL;
  const auto attributes = roce::cm::ConnectionManager::qp_attributes(*identifier.connection);
  if (!attributes) return EINVAL;
  const QpType type = identifier.connection->qp_type();
  if (state == IBV_QPS_RTR) {
    set_rtr(response, *attributes, type);
    response.ah_attr = attributes_of(attributes->ah_attr);
    return 0;
  }
  if (state != IBV_QPS_RTS) return EINVAL;
  set_rts(response, *attributes, type);
  return 0;
}

int Agent::join(Identifier& identifier, std::uint64_t uid, const SocketAddress& group,
                rdma_ucm_create_id_resp& response) {
  if (!identifier.is_datagram() || !identifier.has_device) return EINVAL;
  if (!group.address.is_multicast()) return EINVAL;
  if (groups_.size() >= kHandlesMax) return ENOMEM;
  auto made = std::make_unique<Group>();
  made->identifier = &identifier;
  made->uid = uid;
  made->handle = free_handle(groups_);
  groups_[made->handle] = made.get();
  response.id = made->handle;

  QueuedEvent told{.owner = &identifier, .group = made.get()};
  told.response.uid = uid;
  told.response.id = made->handle;
  told.response.event = number_of(ProgramEvent::multicast_join);
  roce::AddressVector path = identifier.path;
  path.destination = group.address;
  path.traffic_class = identifier.type_of_service;
  told.response.param.ud.ah_attr = attributes_of(path);
  told.response.param.ud.qp_num = wire::kMulticastQpn.value;
  told.response.param.ud.qkey = identifier.qkey != 0 ? identifier.qkey : roce::cm::kUdpQkey;
  identifier.groups.push_back(std::move(made));
  push(told);
  return 0;
}

int Agent::leave(Channel& channel, int fd, std::uint32_t handle,
                 rdma_ucm_destroy_id_resp& response) {
  const auto found = groups_.find(handle);
  if (found == groups_.end() || found->second->identifier->channel != &channel) return EINVAL;
  Group* left = found->second;
  channel.take_out(
      fd, [&](const QueuedEvent& event) { return event.group == left; }, [](const QueuedEvent&) {});
  response.events_reported = left->events_reported;
  groups_.erase(found);
  std::erase_if(left->identifier->groups, [&](const auto& group) { return group.get() == left; });
  return 0;
}

}  // namespace rockhopper::verbs::cm
