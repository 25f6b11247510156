// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/rc_run.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "tests/sim/rc_world.h"

namespace rockhopper::sim {
namespace {

using roce::QpState;

constexpr std::uint64_t kRunLimitNs = 120'000'000'000;
constexpr std::uint64_t kRestLimitNs = 60'000'000'000;
constexpr std::uint32_t kMaxSteps = 3'000'000;

class RcRun final : private RcWorld {
 public:
  using RcWorld::RcWorld;

  std::string run(RcTotals& totals);

 private:
  void reconnect();
  bool drive(bool eagerly);
  void post_receives(RcChannel& channel, bool eagerly, bool& did);
  void post_shared_receives(bool eagerly, bool& did);
  void take_events();
  bool poll_completions();
  void dispatch(const roce::Completion& completion);
  void local_atomics();
  void break_network();
  void post_fatal(bool& did);
  void revoke_window(bool eagerly, bool& did);
  [[nodiscard]] RcChannel& first_channel() const;
  void drain_and_resume(bool resume_all);
  [[nodiscard]] std::uint8_t pick_timeout();
  void end_failed_run();

  [[nodiscard]] bool finished() const;
  [[nodiscard]] std::string first_error() const;
  [[nodiscard]] std::string progress() const;
  [[nodiscard]] std::string work();
  [[nodiscard]] bool come_to_rest();
  [[nodiscard]] std::string check_end();
  [[nodiscard]] std::string check_memory();
  [[nodiscard]] std::string check_counters();
  [[nodiscard]] std::string tear_down();
  [[nodiscard]] std::uint64_t count_broken();
  void add_totals(RcTotals& totals);

  std::uint64_t start_ns_ = network_.now_ns();
  std::uint64_t break_at_ns_ = stack::kNever;
  bool fatal_posted_ = false;
  /// Of Ending::revoke: what has happened to the first connection's window.
  enum class Revocation : std::uint8_t { none, in_use, done, no_window } revocation_{};
  MemoryWindows::Window* revoked_ = nullptr;
  std::uint64_t drains_ = 0;
  std::uint64_t limit_events_ = 0;
  std::uint64_t failed_before_ = 0;  ///< channels that had failed when the queue pairs were reset
};

void RcRun::post_receives(RcChannel& channel, bool eagerly, bool& did) {
  if (!eagerly && rng_.chance(settings_.late_receive_percent)) return;
  const std::uint32_t most = settings_.late_receive_percent > 10 ? 1 : settings_.recv_depth;
  for (std::uint32_t i = 0; i < most && channel.post_receive(); ++i) {
    did = true;
  }
}

void RcRun::post_shared_receives(bool eagerly, bool& did) {
  for (const auto& srqs : receives_) {
    for (const auto& receives : srqs) {
      if (!eagerly && rng_.chance(settings_.late_receive_percent)) continue;
      receives->modify();
      const std::uint32_t most = settings_.late_receive_percent > 10 ? 1 : settings_.recv_depth;
      for (std::uint32_t i = 0; i < most && receives->post(settings_.max_message); ++i) {
        did = true;
      }
    }
  }
}

void RcRun::take_events() {
  for (unsigned node = 0; node < 2; ++node) {
    while (const auto event = network_.node(node).engine().poll_async_event()) {
      for (const auto& receives : receives_[node]) {
        if (event->type == roce::AsyncEventType::srq_limit_reached &&
            event->srq == receives->srq()) {
          ++limit_events_;
          receives->on_limit_reached();
        }
      }
    }
  }
}

/// The applications' turn. `eagerly`: everybody does all that he can.
bool RcRun::drive(bool eagerly) {
  bool did = false;
  post_shared_receives(eagerly, did);
  for_each_channel([&](RcChannel& channel) {
    post_receives(channel, eagerly, did);
    if (eagerly || rng_.chance(60)) {
      for (std::uint32_t i = rng_.between32(1, 6); i > 0 && channel.post_request(); --i) {
        did = true;
      }
    }
  });
  if (settings_.fatal_request) post_fatal(did);
  if (profile_.ending == Ending::revoke) revoke_window(eagerly, did);
  if (eagerly || rng_.chance(70)) did = poll_completions() || did;
  take_events();
  local_atomics();
  break_network();
  if (settings_.drain) drain_and_resume(eagerly);
  return did;
}

RcChannel& RcRun::first_channel() const {
  const Connection& first = *connections_[0];
  return *first.channels[first.channels[0] != nullptr ? 0 : 1];
}

void RcRun::post_fatal(bool& did) {
  RcChannel& first = first_channel();
  if (fatal_posted_ || !first.all_posted() || !first.idle() || settings_.send_depth < 4) return;
  const unsigned responder = first.responder().memory == memories_[0].get() ? 0 : 1;
  first.post_fatal(connections_.back() == connections_.front()
                       ? nullptr
                       : connections_.back()->windows[responder].get());
  fatal_posted_ = true;
  did = true;
}

/// Once all else is done between the ends of the first connection, one of them uses a window of the
/// other's, which takes it away at any moment.
void RcRun::revoke_window(bool eagerly, bool& did) {
  RcChannel& user = *connections_[0]->channels[0];
  RcChannel& owner = *connections_[0]->channels[1];
  MemoryWindows& windows = *connections_[0]->windows[1];
  if (revocation_ == Revocation::none && user.all_posted() && user.idle() && owner.all_posted() &&
      owner.idle()) {
    revoked_ = windows.find(MemoryWindows::State::bound, [](const auto& window) {
      return (window.access & (roce::kAccessRemoteWrite | roce::kAccessRemoteRead)) != 0;
    });
    revocation_ = revoked_ != nullptr ? Revocation::in_use : Revocation::no_window;
    if (revoked_ != nullptr) user.post_revocable(*revoked_);
    did = true;
  } else if (revocation_ == Revocation::in_use && (eagerly || rng_.chance(30))) {
    revocation_ = Revocation::done;
    did = true;
    if (rng_.chance(30)) {
      windows.deallocate(*revoked_);
      windows.reuse_memory(*revoked_);
    } else {
      owner.post_revocation(*revoked_);
    }
  }
}

bool RcRun::poll_completions() {
  std::vector<roce::Completion> found;
  for (const auto& cq : cqs_) {
    if (!cq->due()) continue;
    std::array<roce::Completion, 16> some;
    for (bool again = true; again;) {
      const std::size_t count = cq->queue->poll(some);
      found.insert(found.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
      again = count > 0;
    }
    cq->rearm();
  }
  // Receives first: a request may not complete before its receive has.
  std::stable_partition(found.begin(), found.end(),
                        [](const roce::Completion& c) { return (c.wr_id >> 32) % 2 == 1; });
  for (const roce::Completion& completion : found) {
    dispatch(completion);
  }
  return !found.empty();
}

void RcRun::dispatch(const roce::Completion& completion) {
  for_each_channel([&completion](RcChannel& channel) {
    if (channel.owns_send(completion.wr_id)) {
      channel.on_send_completion(completion);
    } else if (channel.owns_recv(completion)) {
      channel.on_recv_completion(completion);
    }
  });
}

/// The nodes' own processors change the shared words too.
void RcRun::local_atomics() {
  constexpr std::uint32_t kLocalActor = 1000;
  for (SharedWords& shared : shared_) {
    if (shared.words.empty() || !rng_.chance(10)) continue;
    SharedWord& word = shared.words[rng_.between(0, shared.words.size() - 1)];
    std::atomic_ref<std::uint64_t> value(*word.word);
    if (word.swaps) {
      std::uint64_t before = value.load();
      const std::uint64_t compare = before;
      const std::uint64_t swap = rng_.next() << 8;  // requests' swaps end in 1
      value.compare_exchange_strong(before, swap);
      word.history.add_swap(kLocalActor, compare, swap, before);
    } else {
      word.history.add_increment(kLocalActor, value.fetch_add(1));
    }
  }
}

void RcRun::break_network() {
  if (network_.now_ns() >= break_at_ns_) {
    network_.cut(true);
    break_at_ns_ = stack::kNever;
  }
}

/// Takes queue pairs to SQD at random, and back once they are drained.
void RcRun::drain_and_resume(bool resume_all) {
  for_each_end([&](const Endpoint& end) {
    if (end.qp->init().qp_type == roce::QpType::xrc_recv) return;
    roce::QpAttributes a;
    if (end.qp->state() == QpState::rts && !resume_all && rng_.chance(1)) {
      a.qp_state = QpState::sqd;
      must(end.qp->modify(a, roce::kQpState));
      ++drains_;
    } else if (end.qp->state() == QpState::sqd && !end.qp->query().sq_draining &&
               (resume_all || rng_.chance(20))) {
      // Drained is when attributes may change.
      a.qp_state = QpState::sqd;
      a.timeout = pick_timeout();
      must(end.qp->modify(a, roce::kQpState | roce::kQpTimeout));
      a.qp_state = QpState::rts;
      must(end.qp->modify(a, roce::kQpState));
    }
  });
}

std::uint8_t RcRun::pick_timeout() {
  return static_cast<std::uint8_t>(rng_.between32(settings_.timeout, settings_.timeout + 2u));
}

bool RcRun::finished() const {
  bool done = true;
  bool broken = false;
  for_each_channel([&](const RcChannel& channel) {
    done = done && channel.all_posted() && channel.idle();
    broken = broken || channel.broken();
  });
  if (!may_fail_) return done;
  switch (profile_.ending) {
    case Ending::fatal:
      return first_channel().broken() || (done && settings_.send_depth < 4);
    case Ending::revoke:
      return revocation_ == Revocation::no_window ||
             (revocation_ == Revocation::done && connections_[0]->channels[1]->idle() &&
              (connections_[0]->channels[0]->idle() || connections_[0]->channels[0]->broken()));
    default:
      return broken || done;
  }
}

std::string RcRun::first_error() const {
  std::string error;
  for_each_channel(
      [&error](const RcChannel& channel) { error = error.empty() ? channel.error() : error; });
  return error;
}

std::string RcRun::progress() const {
  std::string text;
  for_each_channel([&text](const RcChannel& channel) { text += "\n  " + channel.describe(); });
  return text;
}

std::string RcRun::work() {
  const std::uint64_t limit_ns = network_.now_ns() + kRunLimitNs;
  for (std::uint32_t step = 0; step < kMaxSteps; ++step) {
    const bool did = drive(false);
    const bool moved = network_.poll();
    if (std::string error = first_error(); !error.empty()) return error;
    if (finished()) return {};
    if (did || moved || network_.advance(limit_ns)) continue;
    // All wait: only what the applications have put off can help. Requests that no packet carries
    // complete without anything moving.
    if (!drive(true) && !network_.poll() && !drive(true) && first_error().empty()) {
      return "stuck" + progress();
    }
  }
  return "too many steps" + progress();
}

/// Ends what is left of failed connections, so that every request and receive has its completion.
void RcRun::end_failed_run() {
  roce::QpAttributes error;
  error.qp_state = QpState::err;
  for_each_end([&](const Endpoint& end) { must(end.qp->modify(error, roce::kQpState)); });
  for (int i = 0; i < 3; ++i) {
    network_.poll();
    (void)drive(true);
  }
}

/// A host that knows its neighbours by resolution goes on checking them: it never rests.
bool RcRun::come_to_rest() {
  constexpr std::uint64_t kNeighbourCheckNs = 1'000'000'000;
  const std::uint64_t limit_ns = profile_.resolve_neighbours ? kNeighbourCheckNs : kRestLimitNs;
  return network_.run_to_rest(network_.now_ns() + limit_ns) || profile_.resolve_neighbours;
}

std::string RcRun::check_end() {
  drain_and_resume(true);
  if (may_fail_) end_failed_run();
  if (!come_to_rest()) return "the network does not come to rest";
  for_each_channel([](RcChannel& channel) { channel.accept_unknown(); });
  if (poll_completions() && !may_fail_) return "completions after the last one";
  if (std::string error = first_error(); !error.empty()) return error;
  std::string error;
  for_each_channel([&](const RcChannel& channel) {
    const roce::QueuePair& qp = *channel.requester().qp;
    if (!may_fail_ && (qp.state() != QpState::rts || qp.send_queue_depth() != 0)) {
      error = fmt::format("QP in {} with {} requests at the end", to_string(qp.state()),
                          qp.send_queue_depth());
    }
    if (may_fail_ && channel.outstanding() != 0) {
      error = "requests or receives without a completion" + progress();
    }
  });
  return error.empty() ? check_memory() : error;
}

std::string RcRun::check_memory() {
  take_events();
  for (const auto& srqs : receives_) {
    for (const auto& receives : srqs) {
      if (std::string text = receives->contradiction(); !text.empty()) return text;
    }
  }
  for (unsigned node = 0; node < 2; ++node) {
    for (const SharedWord& word : shared_[node].words) {
      if (const auto text = word.history.contradiction(*word.word); text) {
        return "shared word: " + *text;
      }
    }
    for (SharedWord& word : shared_[node].words) {
      const auto base = reinterpret_cast<std::uint8_t*>(word.word);
      const auto start = memories_[node]->actual(0, 1).data();
      memories_[node]->accept(static_cast<std::uint32_t>(base - start), 8);
    }
    if (const auto at = memories_[node]->first_difference(); at) {
      return fmt::format("memory of node {} differs from the model at byte {}", node, *at);
    }
  }
  return {};
}

/// The same queue pairs, from RESET on, with other PSNs: nothing of the failed connections may
/// be left in them.
void RcRun::reconnect() {
  network_.cut(false);
  break_at_ns_ = stack::kNever;
  roce::QpAttributes reset;
  reset.qp_state = QpState::reset;
  for_each_end([&](const Endpoint& end) { must(end.qp->modify(reset, roce::kQpState)); });
  may_fail_ = false;
  failed_before_ = count_broken();
  connect_all();
}

std::string RcRun::check_counters() {
  // What waits for mbufs or room must be asked again; without delay so must what is held back.
  const bool enough = !profile_.scarce_mbufs && network_config_.wire_packets >= 4096 &&
                      network_config_.delay_ns > 0;
  if (enough && network_.busy_deadlines() != 0) {
    return fmt::format("an idle engine asked {} times to be called at once",
                       network_.busy_deadlines());
  }
  for (unsigned node = 0; node < 2; ++node) {
    const roce::EngineCounters& self = network_.node(node).engine().counters();
    const roce::EngineCounters& peer = network_.node(1 - node).engine().counters();
    ChannelTotals asked;
    for (const auto& connection : connections_) {
      if (connection->channels[node] == nullptr) continue;
      const ChannelTotals& some = connection->channels[node]->totals();
      asked.writes += some.writes;
      asked.reads += some.reads;
      asked.atomics += some.atomics;
      asked.atomic_writes += some.atomic_writes;
      asked.flushes += some.flushes;
      asked.local += some.local;
      asked.receives += some.receives;
    }
    // Executed exactly once, whatever the network did.
    if (peer.rx_write_requests.value() != asked.writes ||
        peer.rx_atomic_requests.value() != asked.atomics ||
        peer.rdma_recvs.value() != asked.receives) {
      return fmt::format("asked for {} writes, {} atomics, {} receives, executed {}, {}, {}",
                         asked.writes, asked.atomics, asked.receives,
                         peer.rx_write_requests.value(), peer.rx_atomic_requests.value(),
                         peer.rdma_recvs.value());
    }
    const std::uint64_t local =
        self.fast_registrations.value() + self.local_invalidations.value() + self.mw_binds.value();
    if (peer.rx_atomic_write_requests.value() != asked.atomic_writes ||
        peer.rx_flush_requests.value() != asked.flushes || local != asked.local) {
      return fmt::format(
          "asked for {} ATOMIC WRITEs, {} FLUSHes, {} local requests, executed {}, {}, {}",
          asked.atomic_writes, asked.flushes, asked.local, peer.rx_atomic_write_requests.value(),
          peer.rx_flush_requests.value(), local);
    }
    if (peer.rx_read_requests.value() < asked.reads) {
      return fmt::format("asked for {} reads, executed {}", asked.reads,
                         peer.rx_read_requests.value());
    }
    if (!profile_.lossless) continue;
    if (self.sent_pkts.value() != peer.rcvd_pkts.value() ||
        self.sent_bytes.value() != peer.rcvd_bytes.value()) {
      return fmt::format("sent {} packets of {} bytes, the peer counts {} of {}",
                         self.sent_pkts.value(), self.sent_bytes.value(), peer.rcvd_pkts.value(),
                         peer.rcvd_bytes.value());
    }
    if (profile_.recovery == roce::RecoveryAlgorithm::selective_repeat &&
        self.rcvd_rnr_err.value() + peer.rcvd_rnr_err.value() != 0) {
      continue;  // what is behind a message without a receive request is held, or comes again
    }
    const bool again = self.retransmitted_pkts.value() != 0 && self.rcvd_rnr_err.value() == 0;
    if (again || self.local_ack_timeout_err.value() != 0 || self.out_of_seq_request.value() != 0 ||
        self.duplicate_request.value() != 0) {
      return fmt::format(
          "without any loss {} packets sent again, {} timeouts, {} out of sequence, "
          "{} duplicates",
          self.retransmitted_pkts.value(), self.local_ack_timeout_err.value(),
          self.out_of_seq_request.value(), self.duplicate_request.value());
    }
  }
  return {};
}

std::string RcRun::tear_down() {
  for_each_end([](const Endpoint& end) { end.engine->destroy_qp(end.qp); });
  for (const auto& connection : connections_) {
    for (const auto& windows : connection->windows) {
      std::string error = windows != nullptr ? windows->tear_down(!may_fail_) : std::string();
      if (!error.empty()) return error;
    }
  }
  for (unsigned node = 0; node < 2; ++node) {
    for (const auto& receives : receives_[node]) {
      must(network_.node(node).engine().destroy_srq(receives->srq()));
    }
    if (network_.node(node).engine().qp_count() != 0) return "queue pairs are left";
  }
  return come_to_rest() ? std::string() : "deadlines are left behind queue pairs";
}

std::uint64_t RcRun::count_broken() {
  std::uint64_t count = 0;
  for_each_channel([&count](RcChannel& channel) { count += channel.broken() ? 1 : 0; });
  return count;
}

void RcRun::add_totals(RcTotals& totals) {
  ++totals.runs;
  totals.drains += drains_;
  totals.limit_events += limit_events_;
  totals.virtual_ns += network_.now_ns() - start_ns_;
  for_each_channel([&](RcChannel& channel) {
    const ChannelTotals& t = channel.totals();
    totals.requests +=
        t.sends + t.writes + t.reads + t.atomics + t.atomic_writes + t.flushes + t.local;
    totals.bytes += t.bytes;
    totals.refused += t.refused;
  });
  totals.failed_connections += failed_before_ + count_broken();
  for (unsigned node = 0; node < 2; ++node) {
    const roce::EngineCounters& c = network_.node(node).engine().counters();
    totals.packets += c.sent_pkts.value();
    totals.no_mbuf += c.tx_no_mbuf.value();
    totals.binds += c.mw_binds.value();
    totals.invalidations += c.local_invalidations.value() + c.remote_invalidations.value();
    totals.stale_keys += c.stale_keys.value();
    totals.held += c.held_requests.value() + c.held_responses.value();
    totals.not_held += c.held_pkts_no_room.value();
    totals.selective_acks += c.rcvd_selective_ack.value();
    totals.last_offered[node] = network_.node(node).offered();
    totals.last_digest[node] = network_.node(node).digest();
    totals.retransmitted += c.retransmitted_pkts.value();
    totals.duplicates += c.duplicate_request.value();
    totals.out_of_sequence += c.out_of_seq_request.value();
    totals.timeouts += c.local_ack_timeout_err.value();
    totals.implied_naks += c.implied_nak_seq_err.value();
    totals.rnr_naks += c.send_rnr_err.value();
    totals.bad_icrc += c.drops[static_cast<std::size_t>(roce::DropReason::bad_icrc)].value();
    totals.lost += network_.node(node).faults().tx_counters().lost.value() +
                   network_.node(node).selectively_dropped();
  }
}

std::string RcRun::run(RcTotals& totals) {
  set_up();
  if (profile_.ending == Ending::blackhole || profile_.ending == Ending::reconnect) {
    break_at_ns_ = network_.now_ns() + rng_.between(0, 300'000);
  }
  std::string error = work();
  if (error.empty()) error = check_end();
  if (error.empty() && profile_.ending == Ending::reconnect) {
    reconnect();
    error = work();
    error = error.empty() ? check_end() : error;
  }
  if (error.empty() && profile_.ending == Ending::complete) error = check_counters();
  add_totals(totals);
  if (error.empty()) error = tear_down();
  return error;
}

}  // namespace

std::string run_rc(std::uint64_t seed, const RcProfile& profile, PoolSet& pools, RcTotals& totals) {
  std::string error = std::make_unique<RcRun>(seed, profile, pools)->run(totals);
  if (const std::uint32_t leaked = pools.in_use(); error.empty() && leaked != 0) {
    error = fmt::format("{} mbufs are not back in their pools", leaked);
  }
  return error;
}

}  // namespace rockhopper::sim
