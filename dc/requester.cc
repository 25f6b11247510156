// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "dc/requester.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "dc/dci.h"
#include "dc/endpoint_context.h"
#include "dc/message_packet.h"
#include "dc/session_prefix.h"
#include "roce/address_handle.h"
#include "roce/wire/cm.h"
#include "roce/wire/timer_code.h"
#include "stack/time_units.h"

namespace rockhopper::dc {
namespace {

/// How long a target is sure to remember a session that it has closed: half of what it does.
constexpr std::uint64_t kRememberedNs = 500'000'000;
/// A connect is repeated some times within it, however long the local ACK timeout: repeated later
/// it would be another connection, and nobody could say what has become of the data of the first.
constexpr std::uint64_t kConnectPeriodMaxNs = kRememberedNs / 4;
/// A shorter lease would keep the initiator busy with it.
constexpr std::uint32_t kLeaseMinUs = 100;
/// Doublings of the back-off.
constexpr unsigned kBackoffDoublings = 10;
/// Requests that a connect may carry if they are of one packet.
constexpr roce::WrOpcodes kCarried = {roce::WrOpcode::send, roce::WrOpcode::send_with_imm,
                                      roce::WrOpcode::send_with_inv, roce::WrOpcode::rdma_write,
                                      roce::WrOpcode::rdma_write_with_imm};

}  // namespace

Requester::Requester(roce::ExtensionQp& qp, SessionPrefix& prefix, Dci& dci,
                     EndpointContext& endpoint, std::uint8_t stream)
    : qp_(qp),
      prefix_(prefix),
      inner_(qp),
      dci_(dci),
      endpoint_(endpoint),
      timer_(
          [](void* self, std::uint64_t now_ns) { static_cast<Requester*>(self)->on_timer(now_ns); },
          this),
      stream_(stream),
      targets_(std::bit_ceil(dci.init().max_send_wr)) {}

roce::SendQueue& Requester::queue() const { return qp_.send_queue(); }

void Requester::reset(wire::Psn first_psn) {
  endpoint_.extension.timers().cancel(timer_);
  state_ = State::idle;
  owed_ = Owed::nothing;
  session_ = 0;
  cnaks_ = 0;
  inner_.reset(first_psn);
}

void Requester::stop() {
  endpoint_.extension.timers().cancel(timer_);
  if (state_ == State::active) {
    owe(Owed::disconnect);  // the target need not wait for the lease to end
  } else if (owed_ != Owed::disconnect) {
    owed_ = Owed::nothing;
  }
  state_ = State::idle;
  inner_.stop();
  dci_.note_error();
}

roce::TransmitResult Requester::transmit(rte_mbuf** packets, std::uint16_t count,
                                         std::uint64_t now_ns) {
  roce::TransmitResult result;
  if (qp_.flow().header_length == 0 || count == 0) {
    return result;  // a new target, whose next hop is looked for
  }
  if (owed_ == Owed::keepalive) {
    // A request keeps the session too, and where a rate lets one packet go it comes first: at a low
    // rate there would be a keep-alive each time.
    transmit_data(packets, count, now_ns, result);
    if (result.count > 0 && owed_ == Owed::keepalive) owed_ = Owed::nothing;
    if (result.count > 0 || result.out_of_mbufs) return result;
  }
  if (owed_ == Owed::connect && can_carry()) {
    transmit_connect_data(packets, now_ns, result);
    if (result.out_of_mbufs || state_ != State::connecting) return result;
  }
  if (owed_ != Owed::nothing) {
    rte_mbuf* packet = build_owed();
    if (packet == nullptr) {
      result.out_of_mbufs = true;
      return result;
    }
    result.add(packets, packet, qp_.flow());
    const bool leaving = owed_ == Owed::disconnect;
    on_owed_sent(now_ns);
    if (leaving) {
      return result;  // what is next has another target
    }
  }
  transmit_data(packets, count, now_ns, result);
  return result;
}

/// There is room for the connect in the packet of the first request. That is the next one whenever
/// a connect is owed: nothing is acknowledged yet, and what had been sent is to be sent again.
bool Requester::can_carry() const {
  const DciInit& init = dci_.init();
  if (handshake_.full || !init.connect_with_data) return false;
  const roce::SendWqe& first = queue().front();
  return kCarried.has(first.opcode) && first.length <= carried_max(bytes(init.path_mtu));
}

/// The connect that is owed, with the first request. Nothing is sent, and it is still owed, if that
/// cannot be.
void Requester::transmit_connect_data(rte_mbuf** packets, std::uint64_t now_ns,
                                      roce::TransmitResult& result) {
  wire::Dcch dcch;
  (void)emit_message(connect(), dcch.bytes);
  prefix_.set_connect(&dcch);
  result.add(inner_.transmit(packets, 1, now_ns));
  prefix_.set_connect(nullptr);
  if (result.count > 0) {
    endpoint_.counters.tx_connect_data.add();
    on_owed_sent(now_ns);
  }
}

void Requester::transmit_data(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns,
                              roce::TransmitResult& result) {
  if (!may_send_data()) return;
  const std::uint16_t before = result.count;
  result.add(inner_.transmit(packets + before, static_cast<std::uint16_t>(count - before), now_ns));
  if (state_ == State::active && result.count > before) arm_lease(now_ns);
  on_progress();
}

bool Requester::may_send_data() const {
  return state_ == State::active || (state_ == State::connecting && !handshake_.full);
}

void Requester::on_response(const roce::RxPacket& packet, std::uint64_t now_ns) {
  inner_.on_response(packet, now_ns);
  on_progress();
}

Requester::Target& Requester::target_of(std::uint64_t sequence) {
  return targets_[sequence & (targets_.size() - 1)];
}

void Requester::on_posted(const Target& target) {
  target_of(queue().tail() - 1) = target;
  if (qp_.state() != roce::QpState::rts) return;
  switch (state_) {
    case State::idle:
      begin(std::nullopt);
      break;
    case State::connecting:
    case State::active:
      extend_limit();
      on_progress();
      break;
    case State::closing:
    case State::backoff:
      break;
  }
}

/// Connects to the target of the oldest request, if there is one. `executed`: see
/// rc::Requester::restart.
void Requester::begin(std::optional<wire::Psn> executed) {
  const DciInit& init = dci_.init();
  endpoint_.extension.timers().cancel(timer_);
  state_ = State::idle;
  owed_ = Owed::nothing;
  session_ = 0;
  first_psn_ = endpoint_.engine.random_psn();
  inner_.restart(first_psn_, executed);
  if (queue().empty()) return;
  target_ = target_of(queue().head());
  const roce::AddressHandle* ah = endpoint_.extension.find_ah(target_.ah_id);
  if (ah == nullptr) {
    fail(roce::WcStatus::loc_qp_op_err);
    return;
  }
  state_ = State::connecting;
  nonce_ = dci_.draw_nonce();
  handshake_.full = dci_.prefers_full(endpoint_.extension.now_ns());
  handshake_.repeated = false;
  handshake_.connects_left = connects();
  qp_.redirect(ah->address_vector(), target_.number, init.path_mtu);
  prefix_.set_session({.form = 0,
                       .stream = stream_,
                       .source = dci_.number(),
                       .value = wire::Dcsh::from_nonce(nonce_)});
  // How many the target can serve is told by its ACCEPT.
  const std::uint8_t served = init.lock_execution ? kLockResources : 1;
  qp_.set_max_rd_atomic(std::min(init.max_rd_atomic, served));
  limit_ = queue().head();
  extend_limit();
  owe(Owed::connect);
}

/// Requests for the target that is connected may go (DC-23), those behind them wait (DC-24).
void Requester::extend_limit() {
  while (limit_ != queue().tail() && target_of(limit_) == target_) {
    ++limit_;
  }
  inner_.set_limit(limit_);
}

/// All that is for this target is complete: makes way for what is for another one (DC-10).
void Requester::on_progress() {
  if (state_ == State::active && queue().head() == limit_ && queue().tail() != limit_) close();
}

void Requester::owe(Owed message) {
  owed_ = message;
  qp_.schedule();
}

void Requester::close() {
  state_ = State::closing;
  owe(Owed::disconnect);
}

Connect Requester::connect() const {
  const DciInit& init = dci_.init();
  return {.full = handshake_.full,
          .data_follows = !handshake_.full,
          .mtu_code = wire::cm::mtu_code(bytes(init.path_mtu)),
          .initiator = dci_.number(),
          .first_psn = first_psn_,
          .nonce = nonce_,
          .lease_us = init.lease_us,
          .access_key = target_.access_key,
          .incarnation = endpoint_.incarnation,
          .stream = stream_,
          .responder_resources = init.max_rd_atomic};
}

rte_mbuf* Requester::build_owed() {
  const wire::Psn next = inner_.next_psn();
  switch (owed_) {
    case Owed::connect:
      return build_message(qp_, connect());
    case Owed::disconnect:
      return build_message(qp_, Disconnect{.session_id = session_, .next_psn = next});
    case Owed::keepalive:
      return build_message(qp_,
                           KeepAlive{.answer = false, .session_id = session_, .next_psn = next});
    case Owed::nothing:
      break;
  }
  return nullptr;
}

void Requester::on_owed_sent(std::uint64_t now_ns) {
  Counters& counters = endpoint_.counters;
  switch (std::exchange(owed_, Owed::nothing)) {
    case Owed::connect:
      counters.tx_connect.add();
      if (!std::exchange(handshake_.repeated, true)) handshake_.began_ns = now_ns;
      endpoint_.extension.timers().arm(timer_, now_ns + connect_period_ns());
      break;
    case Owed::disconnect:
      counters.tx_disconnect.add();
      if (state_ == State::closing) begin(std::nullopt);
      break;
    case Owed::keepalive:
      counters.tx_keepalive.add();
      break;
    case Owed::nothing:
      break;
  }
}

std::uint64_t Requester::connect_period_ns() const {
  const std::uint64_t timeout_ns = wire::local_ack_timeout_ns(dci_.init().timeout);
  return timeout_ns == 0 ? kConnectPeriodMaxNs : std::min(timeout_ns, kConnectPeriodMaxNs);
}

std::uint32_t Requester::connects() const {
  const std::uint64_t timeout_ns = wire::local_ack_timeout_ns(dci_.init().timeout);
  if (timeout_ns == 0) return std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t total_ns = dci_.init().retry_cnt * timeout_ns;
  return static_cast<std::uint32_t>((total_ns + connect_period_ns() - 1) / connect_period_ns());
}

bool Requester::is_about(std::uint32_t nonce, std::uint64_t session) const {
  switch (state_) {
    case State::connecting:
      return session == 0 && nonce == nonce_;
    case State::active:
      return session != 0 ? session == session_ : nonce == nonce_;
    case State::idle:
    case State::closing:
    case State::backoff:
      break;
  }
  return false;
}

void Requester::on_accept(const Accept& message, std::uint64_t now_ns) {
  if (state_ != State::connecting || message.nonce != nonce_ || message.session_id == 0) {
    return;  // a repetition
  }
  endpoint_.counters.rx_accept.add();
  state_ = State::active;
  owed_ = Owed::nothing;
  session_ = message.session_id;
  lease_us_ = message.lease_us;
  cnaks_ = 0;
  prefix_.set_session({.form = 1, .stream = stream_, .source = dci_.number(), .value = session_});
  qp_.set_max_rd_atomic(
      std::min(dci_.init().max_rd_atomic, std::max<std::uint8_t>(message.responder_resources, 1)));
  arm_lease(now_ns);
  qp_.schedule();
}

void Requester::on_cnak(const Cnak& message, std::uint64_t now_ns) {
  endpoint_.counters.rx_cnak(message.reason).add();
  const bool connecting = state_ == State::connecting;
  switch (message.reason) {
    case CnakReason::no_context:
    case CnakReason::quota:
      if (connecting) back_off(message.backoff_us, now_ns);
      return;
    case CnakReason::no_such_dct:
    case CnakReason::draining:
    case CnakReason::incompatible:
      if (connecting) {
        fail(message.reason == CnakReason::incompatible ? roce::WcStatus::rem_inv_req_err
                                                        : roce::WcStatus::rem_abort_err);
      } else {
        lose_session(message, now_ns);
      }
      return;
    case CnakReason::stale_session:
      lose_session(message, now_ns);
      return;
  }
}

/// The target does not know the connection, or no more (DC-27, DC-29).
void Requester::lose_session(const Cnak& message, std::uint64_t now_ns) {
  const auto executed = message.executed_known ? std::optional(message.expected_psn) : std::nullopt;
  if (state_ == State::active) {
    if (message.session_id == 0 && !executed) {
      return;  // data had overtaken the connect, which has arrived since
    }
    if (queue().head() != limit_) {
      endpoint_.counters.lost_sessions.add();
      endpoint_.counters.restarts.add();
    }
    begin(executed);
    return;
  }
  if (executed) {
    endpoint_.counters.restarts.add();
    begin(executed);
    return;
  }
  if (handshake_.full) {
    return;  // about data that left before
  }
  endpoint_.counters.restarts.add();
  dci_.note_restart(now_ns);
  if (now_ns - handshake_.began_ns >= kRememberedNs) {
    begin(std::nullopt);
    return;
  }
  handshake_.full = true;  // the connect is late or lost: this time no data follows it
  connect_anew();
}

/// DC-33. The connect is repeated later, with the same nonce and PSNs: should a copy of this one
/// open a session yet, then that finds what is in it already.
void Requester::back_off(std::uint32_t hint_us, std::uint64_t now_ns) {
  const DciInit& init = dci_.init();
  if (cnaks_++ == init.connect_tries) {
    fail(roce::WcStatus::rnr_retry_exc_err);
    return;
  }
  const unsigned doublings = std::min<unsigned>(cnaks_ - 1u, kBackoffDoublings);
  const std::uint64_t wait_us =
      std::max<std::uint64_t>(hint_us, std::uint64_t{std::max(init.backoff_us, 1u)} << doublings);
  const std::uint64_t wait_ns = wait_us * kNsPerUs;
  connect_anew();
  state_ = State::backoff;
  owed_ = Owed::nothing;
  endpoint_.extension.timers().arm(timer_,
                                   now_ns + wait_ns + endpoint_.random().below(wait_ns / 2 + 1));
}

/// The target says that there is no such session, so nothing of it has been executed.
void Requester::connect_anew() {
  inner_.pause();
  state_ = State::connecting;
  handshake_.repeated = false;
  handshake_.connects_left = connects();
  owe(Owed::connect);
}

/// The target may have executed what left with the connect and behind it, and forgotten it since:
/// the same connect again would have it executed twice (DC-27).
void Requester::connect_afresh() {
  const Target target = target_;
  const std::uint32_t left = handshake_.connects_left;
  endpoint_.counters.restarts.add();
  begin(std::nullopt);
  if (state_ == State::connecting && target_ == target) handshake_.connects_left = left;
}

void Requester::fail(roce::WcStatus status) {
  if (!queue().empty()) inner_.fail(status);
}

void Requester::arm_lease(std::uint64_t now_ns) {
  // The target's own count begins later and is longer by a quarter (DC-30).
  const std::uint64_t lease_us = std::max(std::min(lease_us_, dci_.init().lease_us), kLeaseMinUs);
  endpoint_.extension.timers().arm(timer_, now_ns + lease_us * kNsPerUs / 4 * 3);
}

void Requester::on_timer(std::uint64_t now_ns) {
  switch (state_) {
    case State::connecting:
      if (handshake_.connects_left == 0) {
        fail(roce::WcStatus::retry_exc_err);
        return;
      }
      --handshake_.connects_left;
      if (!handshake_.full && now_ns - handshake_.began_ns >= kRememberedNs) {
        connect_afresh();
        return;
      }
      inner_.pause();  // what has left is sent again too: it must not arrive before the connect
      owe(Owed::connect);
      break;
    case State::active:
      if (queue().head() == limit_) {
        close();
        return;
      }
      owe(Owed::keepalive);
      arm_lease(now_ns);
      break;
    case State::backoff:
      state_ = State::connecting;
      owe(Owed::connect);
      break;
    case State::idle:
    case State::closing:
      break;
  }
}

}  // namespace rockhopper::dc
