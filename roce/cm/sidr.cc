// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Service ID resolution: which queue pair takes datagrams for a service (IBTA vol. 1, 12.11).

#include "roce/cm/connection_manager.h"
#include "roce/cm/private_data.h"

namespace rockhopper::roce::cm {

using wire::cm::SidrStatus;

Expected<Lookup*> ConnectionManager::resolve(const ResolveParameters& parameters) {
  ROCKHOPPER_TRY(check_private_data<wire::cm::SidrReq>(parameters.private_data));
  ROCKHOPPER_TRY(check_address_vector(parameters.path));
  ROCKHOPPER_TRY(const auto pkey, config_.engine->valid_pkey(parameters.pkey_index));
  if (lookups_.size() == config_.max_lookups) {
    return fail(ErrorCode::exhausted, "all {} lookups are in use", config_.max_lookups);
  }
  const std::uint32_t id = new_id();
  auto& slot = lookups_[id];
  slot.reset(new Lookup(*this, id, true, on_time<Lookup>));
  Lookup& lookup = *slot;
  lookup.path_ = {parameters.path, parameters.pkey_index};
  lookup.service_id_ = parameters.service_id;
  lookup.transaction_id_ = config_.random->next();
  wire::cm::SidrReq req{.request_id = id, .pkey = pkey, .service_id = parameters.service_id};
  set_private_data(req, parameters.private_data);
  lookup.message_ = send(lookup.path_, lookup.transaction_id_, req);
  lookup.retries_left_ = config_.max_retries;
  timers_.arm(lookup.timer_, now_ns_ + timeout_ns(config_.response_timeout));
  return &lookup;
}

void ConnectionManager::on_timer(Lookup& lookup) {
  if (!lookup.ours_) return forget(lookup);
  const bool on_its_way = !gsi_->resolves(lookup.path_.destination);
  if (!on_its_way || lookup.retries_left_ > 0) {
    if (on_its_way) {
      --lookup.retries_left_;
      repeat(lookup.path_, lookup.message_);
    }
    timers_.arm(lookup.timer_, now_ns_ + timeout_ns(config_.response_timeout));
    return;
  }
  counters_.timeouts.add();
  lookup.done_ = true;
  tell({.type = EventType::lookup_failed, .lookup = &lookup, .unreachable = true});
}

void ConnectionManager::on_sidr_rep(const ReceivedMad& mad, const wire::cm::SidrRep& rep) {
  const auto found = lookups_.find(rep.request_id);
  if (found == lookups_.end()) {
    counters_.unknown_connection.add();
    return;
  }
  Lookup& lookup = *found->second;
  if (mad.reply.destination != lookup.path_.destination ||
      mad.reply.source != lookup.path_.source) {
    counters_.bad_address_messages.add();
    return;
  }
  if (lookup.done_) {
    counters_.duplicate_messages.add();
    return;
  }
  lookup.done_ = true;
  timers_.cancel(lookup.timer_);
  const bool useless = rep.status == SidrStatus::valid && !is_peer_qpn(rep.qpn);
  const SidrStatus status = useless ? SidrStatus::no_qp : rep.status;
  tell({.type = status == SidrStatus::valid ? EventType::resolved : EventType::lookup_failed,
        .lookup = &lookup,
        .status = status,
        .qpn = rep.qpn,
        .qkey = rep.qkey,
        .private_data = PrivateData(rep.private_data)});
}

void ConnectionManager::on_sidr_req(const ReceivedMad& mad, std::uint64_t transaction_id,
                                    const wire::cm::SidrReq& req) {
  const PeerKey key{mad.reply.destination, req.request_id};
  const auto known = peer_lookups_.find(key);
  if (known != peer_lookups_.end()) {
    counters_.duplicate_messages.add();
    if (known->second->done_) repeat(known->second->path_, known->second->message_);
    return;
  }
  const auto listener = listeners_.find(req.service_id);
  const auto pkey_index = config_.engine->find_pkey(req.pkey);
  if (listener == listeners_.end() || !pkey_index) {
    const SidrStatus status = pkey_index ? SidrStatus::unsupported_service : SidrStatus::rejected;
    counters_.answered_lookups.add();
    send(mad.reply, transaction_id,
         wire::cm::SidrRep{
             .request_id = req.request_id, .status = status, .service_id = req.service_id});
    return;
  }
  if (listener->second.waiting >= listener->second.backlog) {
    counters_.refused_backlog.add();  // it will ask again
    return;
  }
  if (peer_lookups_.size() >= config_.max_lookups) {
    counters_.refused_limit.add();
    return;
  }
  auto& slot = peer_lookups_[key];
  slot.reset(new Lookup(*this, req.request_id, false, on_time<Lookup>));
  slot->path_ = mad.reply;
  slot->path_.pkey_index = *pkey_index;
  slot->service_id_ = req.service_id;
  slot->transaction_id_ = transaction_id;
  slot->waits_ = true;
  ++listener->second.waiting;
  tell({.type = EventType::lookup_request,
        .lookup = slot.get(),
        .private_data = PrivateData(req.private_data)});
}

Expected<void> ConnectionManager::answer(Lookup& lookup, wire::Qpn qpn, std::uint32_t qkey,
                                         std::span<const std::uint8_t> private_data) {
  return send_sidr_reply(
      lookup,
      {.status = SidrStatus::valid, .qpn = qpn, .service_id = lookup.service_id_, .qkey = qkey},
      private_data);
}

Expected<void> ConnectionManager::refuse(Lookup& lookup, SidrStatus status,
                                         std::span<const std::uint8_t> private_data) {
  if (status == SidrStatus::valid) {
    return fail(ErrorCode::invalid_argument, "a refusal needs another status than \"{}\"",
                to_string(status));
  }
  return send_sidr_reply(lookup, {.status = status, .service_id = lookup.service_id_},
                         private_data);
}

Expected<void> ConnectionManager::send_sidr_reply(Lookup& lookup, wire::cm::SidrRep reply,
                                                  std::span<const std::uint8_t> private_data) {
  if (lookup.ours_ || lookup.done_) {
    return fail(ErrorCode::invalid_state, "the lookup waits for no answer");
  }
  ROCKHOPPER_TRY(check_private_data<wire::cm::SidrRep>(private_data));
  reply.request_id = lookup.request_id_;
  set_private_data(reply, private_data);
  stop_waiting(lookup);
  lookup.done_ = true;
  counters_.answered_lookups.add();
  lookup.message_ = send(lookup.path_, lookup.transaction_id_, reply);
  // The answer may get lost and the question come again.
  timers_.arm(lookup.timer_, now_ns_ + 2 * timeout_ns(config_.response_timeout));
  return {};
}

void ConnectionManager::release(Lookup& lookup) {
  std::erase_if(events_, [&](const Event& event) { return event.lookup == &lookup; });
  if (!lookup.ours_ && !lookup.done_) {
    static_cast<void>(refuse(lookup));
  } else if (lookup.ours_) {
    forget(lookup);
  }
}

void ConnectionManager::forget(Lookup& lookup) {
  if (lookup.ours_) {
    lookups_.erase(lookup.request_id_);
  } else {
    peer_lookups_.erase({lookup.path_.destination, lookup.request_id_});
  }
}

}  // namespace rockhopper::roce::cm
