// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/requester.h"

#include <algorithm>

#include "roce/congestion/pacer.h"
#include "roce/rc/answer.h"
#include "roce/rc/plain_sender.h"
#include "roce/rc/sender.h"
#include "roce/rc/settlement.h"
#include "roce/short_packet.h"
#include "roce/wire/timer_code.h"

namespace rockhopper::roce::rc {
namespace {

wire::Aeth aeth_of(const PlainPacket& packet) {
  return wire::Aeth::parse(
      std::span<const std::uint8_t, wire::Aeth::kSize>(packet.headers, wire::Aeth::kSize));
}

}  // namespace

Requester::Requester(const TransportContext& qp)
    : qp_(qp),
      retry_(
          [](void* self, std::uint64_t now_ns) { static_cast<Requester*>(self)->on_timer(now_ns); },
          this) {}

void Requester::reset(wire::Psn first_psn) {
  stop();
  window_.reset(qp_.send_queue(), first_psn);
  responses_.reset();
  credits_.reset();
  retry_.reset(qp_.engine().timers(), qp_.retry_cnt(), qp_.attributes().rnr_retry);
}

void Requester::stop() {
  if (qp_.repeats_selectively()) qp_.selective_repeat()->responses().clear();
  retry_.stop(qp_.engine().timers());
  window_.stop(qp_.send_queue());
  responses_.forget();
}

void Requester::restart(wire::Psn first_psn, std::optional<wire::Psn> executed) {
  Settlement(qp_.send_queue(), window_, executed).settle();
  reset(first_psn);
  window_.restart(qp_.send_queue(), first_psn);
  retire_executed();
  qp_.schedule();
}

void Requester::pause() {
  if (!drained()) go_back();
  retry_.pause(qp_.engine().timers(), qp_.retry_cnt());
}

TransmitResult Requester::transmit(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  retry_.on_reachable();
  TransmitResult result = PlainSender(*this).run(packets, count);
  if (result.count < count && !window_.is_at_end(qp_.send_queue())) {
    result.add(Sender(*this).run(packets + result.count,
                                 static_cast<std::uint16_t>(count - result.count)));
  }
  if (window_.sent_ahead() > 0 && retry_.is_idle()) restart_ack_timer(now_ns);
  return result;
}

void Requester::on_response(const RxPacket& packet, std::uint64_t now_ns) {
  Answer::take(*this, packet, now_ns);
  if (qp_.repeats_selectively()) [[unlikely]] {
    take_held_responses(now_ns);
  }
}

/// An ACK of what has been sent, as Answer takes it.
bool Requester::take_plain(const PlainPacket& packet, std::uint64_t now_ns) {
  const std::uint32_t distance = window_.ahead(packet.psn());
  const wire::Aeth aeth = aeth_of(packet);
  if (aeth.kind() != wire::AethKind::ack || distance >= window_.sent_ahead() ||
      packet.length != 0 || qp_.repeats_selectively()) {
    return false;
  }
  qp_.engine().counters().rcvd_ack.add();
  if (qp_.obeys_credits() && credits_.take(aeth)) qp_.schedule();
  if (acknowledge(distance + 1, now_ns) > 0) on_implied_nak(window_.ahead(packet.psn()), now_ns);
  return true;
}

/// The next response, of one packet, to a READ or an atomic that is outstanding: as Answer takes
/// it.
bool Requester::take_plain_response(const PlainPacket& packet, std::uint32_t ahead) {
  constexpr std::uint32_t kMore = SendWqe::kSettled | SendWqe::kInScope | SendWqe::kLocal;
  SendQueue& queue = qp_.send_queue();
  const std::uint64_t sequence = queue.head() + ahead;
  if (sequence >= window_.cursor() || qp_.repeats_selectively() || qp_.pacer() != nullptr ||
      qp_.adaptive_timeout() != nullptr) {
    return false;
  }
  const SendWqe& request = queue.at(sequence);
  const bool is_read = packet.opcode() == wire::Opcode::rc_rdma_read_response_only;
  const bool fits = is_read ? request.is_read() && request.length == packet.length
                            : request.is_atomic() && packet.length == 0;
  if (!fits || packet.psn() != request.first_psn || request.psn_count != 1 ||
      window_.unacked_psn() + ahead != request.first_psn || request.num_sge != 1 ||
      (request.flags & kMore) != 0) {
    return false;
  }
  const std::uint64_t original = is_read ? 0 : wire::load_be64(packet.headers + wire::Aeth::kSize);
  const std::byte* from = is_read ? packet.payload : reinterpret_cast<const std::byte*>(&original);
  if (request.length > 0) {
    const Sge& sge = queue.sges(sequence).front();
    std::byte* to = qp_.engine().memory().simple_access(sge.lkey, qp_.pd(), sge.addr,
                                                        request.length, kAccessLocalWrite);
    if (to == nullptr) return false;
    copy_short(reinterpret_cast<std::uint8_t*>(to), from, request.length);
  }
  if (qp_.obeys_credits()) (void)credits_.take(aeth_of(packet));
  return true;
}

void Requester::retire_answered(std::uint32_t count, std::uint64_t now_ns) {
  note_progress();
  window_.acknowledge(count);
  responses_.on_responses(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    responses_.on_answered(true);
  }
  restart_ack_timer(now_ns);
  retire(count);
}

void Requester::on_unreachable(std::uint64_t now_ns) {
  const std::uint64_t wait_ns = timeout_ns();
  retry_.on_unreachable(qp_.engine().timers(), !qp_.send_queue().empty(),
                        wait_ns == 0 ? stack::kNever : now_ns + wait_ns);
}

/// Acknowledges `count` PSNs. Stops before a READ or atomic whose response is missing and returns
/// how many are left then.
std::uint32_t Requester::acknowledge(std::uint32_t count, std::uint64_t now_ns) {
  SendQueue& queue = qp_.send_queue();
  if (count == 0 || queue.empty()) return 0;
  if (queue.front().has_response()) return count;
  note_progress();
  count -= retire_burst(count);
  while (count > 0 && !queue.empty() && !queue.front().has_response()) {
    const SendWqe& front = queue.front();
    const std::uint32_t left = front.psn_count - window_.acknowledged_of(front);
    const std::uint32_t step = std::min(count, left);
    move_unacked(step, now_ns);
    count -= step;
    if (step == left) complete_front(WcStatus::success);
  }
  if (qp_.state() != QpState::err) {  // else completing failed the queue pair: nothing is awaited
    restart_ack_timer(now_ns);
  }
  return queue.empty() ? 0 : count;
}

/// Acknowledges up to `count` PSNs, those of whole requests that succeed and want nothing more than
/// their completion, and returns how many these were: the same as acknowledging them one by one.
std::uint32_t Requester::retire_burst(std::uint32_t count) {
  constexpr std::uint32_t kMore = SendWqe::kHasResponse | SendWqe::kSettled | SendWqe::kInScope |
                                  SendWqe::kLocal | SendWqe::kLock;
  if (qp_.state() != QpState::rts || qp_.pacer() != nullptr || qp_.adaptive_timeout() != nullptr) {
    return 0;
  }
  SendQueue& queue = qp_.send_queue();
  std::uint64_t end = queue.head();
  std::uint32_t psns = 0;
  std::uint32_t begun = window_.acknowledged_of(queue.front());
  for (; end < window_.numbered(); ++end) {
    const SendWqe& request = queue.at(end);
    const std::uint32_t left = request.psn_count - begun;
    if ((request.flags & kMore) != 0 || left > count - psns) break;
    psns += left;
    begun = 0;
  }
  const auto requests = static_cast<std::uint32_t>(end - queue.head());
  if (requests == 0) return 0;
  window_.acknowledge(psns);
  retire(requests);
  return psns;
}

/// The `count` oldest requests, whose PSNs are acknowledged, leave the queue with success. In RTS.
void Requester::retire(std::uint32_t count) {
  SendQueue& queue = qp_.send_queue();
  qp_.complete_sends(count);
  queue.pop(count);
  window_.on_retired(queue);
  if (queue.head() < window_.numbered() && queue.front().needs_no_packet()) [[unlikely]] {
    retire_executed();
  }
  settle_front_failure();
}

/// Acknowledges `count` PSNs of the front request.
void Requester::acknowledge_front(std::uint32_t count, std::uint64_t now_ns) {
  note_progress();
  move_unacked(count, now_ns);
  restart_ack_timer(now_ns);
}

inline void Requester::note_progress() {
  retry_.on_progress(qp_.retry_cnt(), qp_.attributes().rnr_retry);
  credits_.end_probe();
  qp_.schedule();
}

/// PSNs of the front request are acknowledged.
inline void Requester::move_unacked(std::uint32_t count, std::uint64_t now_ns) {
  const SendQueue& queue = qp_.send_queue();
  if (qp_.pacer() != nullptr || qp_.adaptive_timeout() != nullptr) [[unlikely]] {
    note_acknowledged(count, now_ns);
  }
  window_.acknowledge(count);
  if (queue.front().has_response() && window_.cursor() > queue.head()) {
    responses_.on_responses(count);
  }
}

/// Tells those who measure round trips.
void Requester::note_acknowledged(std::uint32_t count, std::uint64_t now_ns) {
  if (count == 0) return;
  const wire::Psn last = window_.unacked_psn() + (count - 1);
  if (qp_.pacer() != nullptr) {
    Pacer& pacer = *qp_.pacer();
    const std::uint64_t rtt_ns = pacer.rtt().on_acknowledged(last, now_ns);
    pacer.control().on_ack(count, rtt_ns, now_ns);
  }
  if (qp_.adaptive_timeout() != nullptr) qp_.adaptive_timeout()->on_acknowledged(last, now_ns);
}

/// Completes the front request, and what has been executed behind it and waited for it.
void Requester::complete_front(WcStatus status) {
  retire_front(status);
  const SendQueue& queue = qp_.send_queue();
  if (queue.head() < window_.numbered() && queue.front().needs_no_packet()) [[unlikely]] {
    retire_executed();
  }
}

void Requester::retire_front(WcStatus status) {
  SendQueue& queue = qp_.send_queue();
  const SendWqe& front = queue.front();  // its place stays as it is while nothing is posted
  if (front.of_lock()) [[unlikely]] {
    lock::ScopeResult* result = front.is_lock() ? front.lock().result : nullptr;
    status = scope_.complete(front, result, status);
  }
  if (front.has_response() && !front.is_settled()) {
    responses_.on_answered(window_.cursor() > queue.head());
  }
  queue.pop();
  window_.on_retired(queue);
  qp_.complete_send(front, status);
  settle_front_failure();
  if (qp_.state() == QpState::sqd && drained()) qp_.on_drained();
}

/// Completes the oldest requests that no packet carries, as far as they have been executed.
void Requester::retire_executed() {
  const SendQueue& queue = qp_.send_queue();
  while (queue.head() < window_.numbered() && queue.front().needs_no_packet()) {
    retire_front(queue.front().failure);
  }
}

/// A request that failed locally while being sent completes once all before it have.
void Requester::settle_front_failure() {
  const SendQueue& queue = qp_.send_queue();
  if (!queue.empty() && window_.cursor() == queue.head() && !queue.front().is_settled() &&
      queue.front().failure != WcStatus::success) {
    fail(queue.front().failure);
  }
}

void Requester::fail(WcStatus status) {
  SendQueue& queue = qp_.send_queue();
  const SendWqe front = queue.front();
  if (front.is_lock()) [[unlikely]] {
    ClientScope::fail(front.lock().result, status);
  }
  queue.pop();
  qp_.complete_send(front, status);
  qp_.enter_error();
}

/// Returns the PSN of the next response that the peer owes; nothing if it owes none.
std::optional<wire::Psn> Requester::next_response() const {
  const SendQueue& queue = qp_.send_queue();
  for (std::uint64_t sequence = queue.head(); sequence < window_.numbered(); ++sequence) {
    const SendWqe& request = queue.at(sequence);
    if (request.has_response()) {
      return sequence == queue.head() ? window_.unacked_psn() : request.first_psn;
    }
  }
  return std::nullopt;
}

/// Takes the held responses whose turn it is.
void Requester::take_held_responses(std::uint64_t now_ns) {
  HeldPackets& held = qp_.selective_repeat()->responses();
  while (!held.empty()) {
    held.discard_before(window_.unacked_psn());
    const std::optional<wire::Psn> next = next_response();
    if (!next || !held.deliver(
                     *next, [&](const RxPacket& packet) { Answer::take(*this, packet, now_ns); })) {
      return;
    }
  }
}

/// Begins to send again from the oldest unacknowledged PSN on.
void Requester::go_back(SelectiveRepeat::Reason reason) {
  qp_.trace(TraceEvent::retransmit, window_.unacked_psn().value, retry_.retries_left());
  window_.go_back(qp_.send_queue());
  responses_.forget();
  credits_.end_probe();
  if (qp_.repeats_selectively()) {
    qp_.selective_repeat()->on_going_back(reason, window_.unacked_psn());
  }
  qp_.schedule();
}

/// Responses have stayed away: one READ or atomic is asked for again at first.
void Requester::go_back_for_responses() {
  responses_.narrow();
  go_back();
}

/// Something behind a READ or atomic was acknowledged, `distance` PSNs ahead of the oldest one, so
/// its response was lost. Answers to what was sent before going back say so again: they do not
/// count, and of the others only the first until there is progress. Where responses are held, the
/// rest is there or comes still, unless one was not `held`.
void Requester::on_implied_nak(std::uint32_t distance, std::uint64_t now_ns, bool held) {
  qp_.engine().counters().implied_nak_seq_err.add();
  const bool sent_again = distance < window_.cursor_ahead();
  const bool selective = held && qp_.repeats_selectively();
  if (selective && !qp_.selective_repeat()->on_response_skipped(window_.unacked_psn())) return;
  if (sent_again && !retry_.is_loss_known() && !retry_.is_rnr_wait() && use_retry()) {
    retry_.note_known_loss();
    note_loss(false, now_ns);
    if (selective) {
      go_back(SelectiveRepeat::Reason::response);
    } else {
      go_back_for_responses();
    }
    restart_ack_timer(now_ns);
    const std::uint64_t delay_ns = qp_.engine().config().read_retry_delay_ns;
    if (delay_ns != 0) [[unlikely]] {
      retry_.await_receiver(qp_.engine().timers(), now_ns + delay_ns);
    }
  }
}

/// Returns false if retry_cnt is used up: the queue pair has failed then.
bool Requester::use_retry() {
  if (!retry_.use_retry()) {
    qp_.engine().counters().retry_exceeded_err.add();
    fail(WcStatus::retry_exc_err);
    return false;
  }
  return true;
}

/// Returns how long to wait for an answer; 0: the timer never expires.
inline std::uint64_t Requester::timeout_ns() const {
  const RetransmissionSchedule& schedule = qp_.retransmissions();
  if (!schedule.empty()) [[unlikely]] {
    return schedule.wait_ns(retry_.retries_left());
  }
  const std::uint64_t limit_ns = wire::local_ack_timeout_ns(qp_.attributes().timeout);
  if (qp_.adaptive_timeout() != nullptr) [[unlikely]] {
    return qp_.adaptive_timeout()->value_ns(limit_ns);
  }
  return limit_ns;
}

void Requester::restart_ack_timer(std::uint64_t now_ns) {
  const std::uint64_t wait_ns = timeout_ns();
  const bool waits = window_.sent_ahead() > 0 || retry_.state() == Retry::State::unreachable;
  if (waits && wait_ns != 0) {
    retry_.await_answer(qp_.engine().timers(), now_ns + wait_ns);
  } else {
    retry_.await_nothing(qp_.engine().timers());
  }
}

/// The time that timeout_ns() gave has passed. Returns false where that is no retry yet: an
/// adaptive timer has expired before the queue pair's own timeout.
bool Requester::note_expiry() {
  return qp_.adaptive_timeout() == nullptr ||
         qp_.adaptive_timeout()->on_expired(wire::local_ack_timeout_ns(qp_.attributes().timeout));
}

void Requester::on_timer(std::uint64_t now_ns) {
  const Retry::State was = retry_.on_expired();
  if (was == Retry::State::rnr_wait) {
    qp_.schedule();
  } else {
    on_ack_timeout(was == Retry::State::unreachable, now_ns);
  }
}

/// No answer has come in time, or if the next hop is `unreachable`, no address of it.
void Requester::on_ack_timeout(bool unreachable, std::uint64_t now_ns) {
  qp_.engine().counters().local_ack_timeout_err.add();
  if (qp_.send_queue().empty()) return;
  qp_.trace(TraceEvent::ack_timeout, window_.unacked_psn().value, retry_.retries_left());
  const bool is_retry = note_expiry();
  if (is_retry && !use_retry()) return;
  retry_.forget_known_loss();
  note_loss(true, now_ns);
  if (window_.sent_ahead() > 0) go_back_for_responses();
  if (unreachable) {
    on_unreachable(now_ns);
  } else {
    restart_ack_timer(now_ns);
  }
  qp_.schedule();
}

void Requester::note_loss(bool by_timeout, std::uint64_t now_ns) {
  if (qp_.pacer() != nullptr) qp_.pacer()->control().on_loss(by_timeout, now_ns);
}

}  // namespace rockhopper::roce::rc
