// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "dc/dci.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "dc/endpoint_context.h"
#include "dc/requester.h"
#include "dc/session_prefix.h"
#include "roce/address_handle.h"
#include "roce/rc/responder.h"

namespace rockhopper::dc {
namespace {

/// Two connects overtaken within that time, and a path counts as one that reorders (DC-36).
constexpr std::uint64_t kRestartIntervalNs = 1'000'000'000;
/// For so long, then half handshakes are tried again.
constexpr std::uint64_t kFullNs = 10'000'000'000;

}  // namespace

Dci::Dci(EndpointContext& endpoint, wire::Qpn number, const DciInit& init)
    : endpoint_(endpoint),
      number_(number),
      init_(init),
      nonce_(static_cast<std::uint32_t>(endpoint.random().next())) {}

Expected<void> Dci::add_stream(std::uint8_t index) {
  const roce::QpInit qp_init{.qp_type = roce::QpType::extension_initiator,
                             .pd = init_.pd,
                             .send_cq = init_.send_cq,
                             .max_send_wr = init_.max_send_wr,
                             .max_recv_wr = 0,
                             .max_send_sge = init_.max_send_sge,
                             .max_inline_data = init_.max_inline_data,
                             .sq_sig_all = init_.sq_sig_all,
                             .lock_execution = init_.lock_execution};
  Requester* requester = nullptr;
  const auto make_transport = [&](roce::ExtensionQp& made) {
    auto prefix = std::make_unique<SessionPrefix>();
    auto own = std::make_unique<Requester>(made, *prefix, *this, endpoint_, index);
    requester = own.get();
    return roce::Transport{.requester = std::move(own),
                           .responder = std::make_unique<roce::rc::Responder>(made),
                           .prefix = std::move(prefix)};
  };
  ROCKHOPPER_TRY(auto qp, endpoint_.extension.create_qp(number_, qp_init, make_transport));
  streams_.push_back({.qp = qp, .requester = requester});
  ROCKHOPPER_TRY(qp->set_congestion_control(init_.congestion));
  start(*qp);
  return {};
}

void Dci::start(roce::ExtensionQp& qp) const {
  roce::QpAttributes attributes;
  attributes.pkey_index = init_.pkey_index;
  attributes.path_mtu = init_.path_mtu;
  attributes.timeout = init_.timeout;
  attributes.retry_cnt = init_.retry_cnt;
  attributes.rnr_retry = init_.rnr_retry;
  attributes.max_rd_atomic = init_.max_rd_atomic;
  qp.start(attributes);
}

/// A target has a number of its own window, and one host.
bool Dci::is_addressed(const roce::SendWr& wr) const {
  return wr.ah != nullptr && wr.ah->pd() == init_.pd && is_extension_qpn(wr.remote_qpn) &&
         !wr.ah->address_vector().destination.is_multicast();
}

roce::PostResult Dci::post_send(const roce::SendWr& wr, std::uint8_t stream) {
  if (stream >= streams_.size() || !is_addressed(wr)) return roce::PostResult::invalid_request;
  const Stream& chosen = streams_[stream];
  const roce::PostResult result = chosen.qp->post_send(wr);
  if (result == roce::PostResult::ok) {
    chosen.requester->on_posted(
        {.ah_id = wr.ah->id(), .access_key = wr.dc_access_key, .number = wr.remote_qpn});
  }
  return result;
}

std::size_t Dci::send_queue_depth(std::uint8_t stream) const {
  return streams_.at(stream).qp->send_queue_depth();
}

bool Dci::send_queue_full(std::uint8_t stream) const {
  return streams_.at(stream).qp->send_queue_full();
}

roce::QpState Dci::state(std::uint8_t stream) const { return streams_.at(stream).qp->state(); }

std::uint64_t Dci::congestion_rate(std::uint64_t now_ns, std::uint8_t stream) const {
  return streams_.at(stream).qp->congestion_rate(now_ns);
}

Expected<void> Dci::reset(std::uint8_t stream) {
  if (stream >= streams_.size()) {
    return fail(ErrorCode::invalid_argument, "the initiator has {} streams, none with number {}",
                streams_.size(), stream);
  }
  if (failed_) {
    return fail(ErrorCode::invalid_state,
                "{} streams have failed, and with them the initiator: reset all of it",
                init_.max_errored);
  }
  roce::ExtensionQp& qp = *streams_[stream].qp;
  if (qp.state() != roce::QpState::err) {
    return fail(ErrorCode::invalid_state, "stream {} is not in error", stream);
  }
  restart(qp);
  return {};
}

void Dci::reset_all() {
  failed_ = false;
  for (const Stream& stream : streams_) {
    if (stream.qp->state() == roce::QpState::err) restart(*stream.qp);
  }
}

void Dci::restart(roce::ExtensionQp& qp) const {
  (void)qp.modify({.qp_state = roce::QpState::reset}, roce::kQpState);
  start(qp);
}

void Dci::note_error() {
  const auto errored = std::ranges::count_if(
      streams_, [](const Stream& stream) { return stream.qp->state() == roce::QpState::err; });
  if (init_.max_errored == 0 || errored < init_.max_errored || failed_) return;
  failed_ = true;
  for (const Stream& stream : streams_) {
    (void)stream.qp->modify({.qp_state = roce::QpState::err}, roce::kQpState);
  }
}

bool Dci::prefers_full(std::uint64_t now_ns) const {
  return init_.handshake == Handshake::full ||
         (init_.handshake == Handshake::automatic && now_ns < full_until_ns_);
}

void Dci::note_restart(std::uint64_t now_ns) {
  if (last_restart_ns_ != 0 && now_ns - last_restart_ns_ < kRestartIntervalNs) {
    full_until_ns_ = now_ns + kFullNs;
  }
  last_restart_ns_ = now_ns;
}

}  // namespace rockhopper::dc
