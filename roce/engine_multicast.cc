// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Multicast datagrams: queue pairs attached to groups, and a copy for each of them (IBTA vol. 1,
// 10.5).
#include "roce/engine.h"

namespace rockhopper::roce {

Expected<void> Engine::attach_multicast(QueuePair& qp, const stack::IpAddress& group) {
  if (qp.init().qp_type != QpType::ud || qp.number() == wire::kGsiQpn) {
    return fail(ErrorCode::invalid_argument,
                "queue pairs of UD can be attached to a group, those of {} and queue pair 1 cannot",
                to_string(qp.init().qp_type));
  }
  if (!group.is_multicast()) {
    return fail(ErrorCode::invalid_argument, "{} is no multicast group", group.to_string());
  }
  const auto attached = multicast_.attach(qp, group);
  if (!attached) return tl::make_unexpected(attached.error());
  if (*attached != MulticastTable::Attached::first) return {};
  auto joined = config_.host->join(group);
  if (!joined) (void)multicast_.detach(qp, group);
  return joined;
}

Expected<void> Engine::detach_multicast(QueuePair& qp, const stack::IpAddress& group) {
  const auto last = multicast_.detach(qp, group);
  if (!last) return tl::make_unexpected(last.error());
  return *last ? config_.host->leave(group) : Expected<void>();
}

void Engine::detach_from_all(QueuePair& qp) {
  for (const stack::IpAddress& group : multicast_.groups_of(qp)) {
    (void)detach_multicast(qp, group);
  }
}

/// The destination is the QPN of all groups. Each queue pair of the group checks its copy for
/// itself, and what one refuses is counted without touching the others.
std::optional<DropReason> Engine::accept_multicast(const stack::UdpDatagram& datagram,
                                                   const RxPacket& packet, std::uint64_t now_ns) {
  if (!datagram.destination.is_multicast()) return DropReason::bad_address;
  const wire::OpcodeInfo& opcode = *packet.headers.opcode;
  if (opcode.service != wire::ServiceClass::ud || !opcode.is_request) {
    return DropReason::bad_service;
  }
  const auto members = multicast_.find(datagram.destination);
  if (members.empty()) return DropReason::no_group_member;
  counters_.rcvd_multicast_pkts.add();
  for (QueuePair* qp : members) {
    if (qp->init().block_self_multicast && qp->number() == packet.headers.deth.source &&
        config_.host->owns(datagram.source)) {
      continue;
    }
    if (!admits(*qp, packet.headers.bth.pkey)) {
      count_drop(DropReason::bad_pkey, packet.payload.packet);
    } else if (!takes_requests(qp->state())) {
      count_drop(DropReason::bad_qp_state, packet.payload.packet);
    } else {
      deliver(*qp, packet, now_ns);
    }
  }
  return std::nullopt;
}

}  // namespace rockhopper::roce
