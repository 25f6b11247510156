// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/cm/resolver.h"

#include "roce/cm/private_data.h"

namespace rockhopper::roce::cm {

using wire::cm::SidrStatus;

Expected<Lookup*> Resolver::resolve(const ResolveParameters& parameters) {
  ROCKHOPPER_TRY(check_private_data<wire::cm::SidrReq>(parameters.private_data));
  ROCKHOPPER_TRY(check_address_vector(parameters.path));
  ROCKHOPPER_TRY(const auto pkey, parts_.engine.valid_pkey(parameters.pkey_index));
  if (ours_.size() == parts_.config.max_lookups) {
    return fail(ErrorCode::exhausted, "all {} lookups are in use", parts_.config.max_lookups);
  }
  const std::uint32_t id =
      parts_.new_id([this](std::uint32_t number) { return ours_.contains(number); });
  ManagedLookup& lookup = *(ours_[id] = std::make_unique<ManagedLookup>(*this, id, true));
  lookup.path_ = {parameters.path, parameters.pkey_index};
  lookup.service_id_ = parameters.service_id;
  lookup.transaction_id = parts_.config.random->next();
  wire::cm::SidrReq req{.request_id = id, .pkey = pkey, .service_id = parameters.service_id};
  set_private_data(req, parameters.private_data);
  lookup.pending.await(parts_.timers, parts_.now_ns,
                       parts_.messenger.send(lookup.path_, lookup.transaction_id, req),
                       timeout_ns(parts_.config.response_timeout), parts_.config.max_retries);
  return &lookup;
}

void Resolver::on_timer(ManagedLookup& lookup) {
  if (!lookup.ours_) return forget(lookup);
  const bool is_to_repeat = !parts_.messenger.resolves(lookup.path_.destination);
  if (!is_to_repeat || lookup.pending.use_retry()) {
    if (is_to_repeat) parts_.messenger.repeat(lookup.path_, lookup.pending.message());
    lookup.pending.wait_again(parts_.timers, parts_.now_ns);
    return;
  }
  parts_.counters.timeouts.add();
  lookup.is_done = true;
  parts_.tell({.type = EventType::lookup_failed, .lookup = &lookup, .unreachable = true});
}

void Resolver::on_rep(const ReceivedMad& mad, const wire::cm::SidrRep& rep) {
  const auto found = ours_.find(rep.request_id);
  if (found == ours_.end()) {
    parts_.counters.unknown_connection.add();
    return;
  }
  ManagedLookup& lookup = *found->second;
  if (mad.reply.destination != lookup.path_.destination ||
      mad.reply.source != lookup.path_.source) {
    parts_.counters.bad_address_messages.add();
    return;
  }
  if (lookup.is_done) {
    parts_.counters.duplicate_messages.add();
    return;
  }
  lookup.is_done = true;
  lookup.pending.stop(parts_.timers);
  const bool useless = rep.status == SidrStatus::valid && !is_peer_qpn(rep.qpn);
  const SidrStatus status = useless ? SidrStatus::no_qp : rep.status;
  parts_.tell({.type = status == SidrStatus::valid ? EventType::resolved : EventType::lookup_failed,
               .lookup = &lookup,
               .status = status,
               .qpn = rep.qpn,
               .qkey = rep.qkey,
               .private_data = PrivateData(rep.private_data)});
}

void Resolver::on_req(const ReceivedMad& mad, std::uint64_t transaction_id,
                      const wire::cm::SidrReq& req) {
  const PeerKey key{mad.reply.destination, req.request_id};
  const auto known = peers_.find(key);
  if (known != peers_.end()) {
    parts_.counters.duplicate_messages.add();
    const ManagedLookup& lookup = *known->second;
    if (lookup.is_done) parts_.messenger.repeat(lookup.path_, lookup.pending.message());
    return;
  }
  const auto pkey_index = parts_.engine.find_pkey(req.pkey);
  if (!parts_.listeners.has(req.service_id) || !pkey_index) {
    const SidrStatus status = pkey_index ? SidrStatus::unsupported_service : SidrStatus::rejected;
    parts_.counters.answered_lookups.add();
    parts_.messenger.send(
        mad.reply, transaction_id,
        wire::cm::SidrRep{
            .request_id = req.request_id, .status = status, .service_id = req.service_id});
    return;
  }
  if (parts_.listeners.is_crowded(req.service_id)) {
    parts_.counters.refused_backlog.add();  // it will ask again
    return;
  }
  if (peers_.size() >= parts_.config.max_lookups) {
    parts_.counters.refused_limit.add();
    return;
  }
  auto& slot = peers_[key] = std::make_unique<ManagedLookup>(*this, req.request_id, false);
  slot->path_ = mad.reply;
  slot->path_.pkey_index = *pkey_index;
  slot->service_id_ = req.service_id;
  slot->transaction_id = transaction_id;
  parts_.listeners.take(slot->place, req.service_id);
  parts_.tell({.type = EventType::lookup_request,
               .lookup = slot.get(),
               .private_data = PrivateData(req.private_data)});
}

Expected<void> Resolver::answer(Lookup& lookup, wire::Qpn qpn, std::uint32_t qkey,
                                std::span<const std::uint8_t> private_data) {
  return reply(
      static_cast<ManagedLookup&>(lookup),
      {.status = SidrStatus::valid, .qpn = qpn, .service_id = lookup.service_id(), .qkey = qkey},
      private_data);
}

Expected<void> Resolver::refuse(Lookup& lookup, SidrStatus status,
                                std::span<const std::uint8_t> private_data) {
  if (status == SidrStatus::valid) {
    return fail(ErrorCode::invalid_argument, "a refusal needs another status than \"{}\"",
                to_string(status));
  }
  return reply(static_cast<ManagedLookup&>(lookup),
               {.status = status, .service_id = lookup.service_id()}, private_data);
}

Expected<void> Resolver::reply(ManagedLookup& lookup, wire::cm::SidrRep reply,
                               std::span<const std::uint8_t> private_data) {
  if (lookup.ours_ || lookup.is_done) {
    return fail(ErrorCode::invalid_state, "the lookup waits for no answer");
  }
  ROCKHOPPER_TRY(check_private_data<wire::cm::SidrRep>(private_data));
  reply.request_id = lookup.request_id;
  set_private_data(reply, private_data);
  parts_.listeners.leave(lookup.place, lookup.service_id_);
  lookup.is_done = true;
  parts_.counters.answered_lookups.add();
  // The answer may get lost and the question come again.
  lookup.pending.keep(parts_.timers,
                      parts_.messenger.send(lookup.path_, lookup.transaction_id, reply));
  lookup.pending.wait_until(parts_.timers,
                            parts_.now_ns + 2 * timeout_ns(parts_.config.response_timeout));
  return {};
}

void Resolver::release(Lookup& released) {
  auto& lookup = static_cast<ManagedLookup&>(released);
  std::erase_if(parts_.events, [&](const Event& event) { return event.lookup == &lookup; });
  if (!lookup.ours_ && !lookup.is_done) {
    (void)refuse(lookup, SidrStatus::rejected, {});
  } else if (lookup.ours_) {
    forget(lookup);
  }
}

void Resolver::stop_listening(std::uint64_t service_id) {
  for (const auto& [key, lookup] : peers_) {
    if (lookup->service_id_ == service_id) Listeners::drop(lookup->place);
  }
}

void Resolver::forget(const ManagedLookup& lookup) {
  if (lookup.ours_) {
    ours_.erase(lookup.request_id);
  } else {
    peers_.erase({lookup.path_.destination, lookup.request_id});
  }
}

}  // namespace rockhopper::roce::cm
