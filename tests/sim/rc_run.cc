// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/rc_run.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

namespace rockhopper::sim {
namespace {

using roce::QpState;

constexpr std::uint64_t kRunLimit_ns = 120'000'000'000;
constexpr std::uint64_t kRestLimit_ns = 60'000'000'000;
constexpr std::uint32_t kMaxSteps = 3'000'000;
constexpr std::uint32_t kSharedWords = 3;
/// Odd, as the ids of all receives, and beyond those of any channel.
constexpr std::uint32_t kSharedReceiveIds = UINT32_MAX;

/// A connection: two queue pairs, a channel each way.
struct Connection {
  std::array<Endpoint, 2> ends;
  std::array<std::unique_ptr<RcChannel>, 2> channels;
};

class RcRun final {
 public:
  RcRun(std::uint64_t seed, const RcProfile& profile, PoolSet& pools)
      : rng_(seed),
        profile_(profile),
        settings_(draw_rc_settings(rng_, profile)),
        network_config_(draw_network_config(seed, rng_, profile, pools)),
        network_(network_config_) {}

  std::string run(RcTotals& totals);

 private:
  /// A completion queue, polled freely or only after its event.
  class Cq final : public roce::CompletionHandler {
   public:
    Cq(std::uint32_t capacity, bool by_event)
        : queue(must(roce::CompletionQueue::create(capacity))), by_event_(by_event) {
      if (by_event_) {
        queue->request_notify(roce::Notify::next, this);
      }
    }
    void on_completion_event(roce::CompletionQueue& /*cq*/) override { raised_ = true; }
    [[nodiscard]] bool due() const { return !by_event_ || raised_; }
    void rearm() {
      if (by_event_) {
        raised_ = false;
        queue->request_notify(roce::Notify::next, this);
      }
    }
    std::unique_ptr<roce::CompletionQueue> queue;

   private:
    bool by_event_;
    bool raised_ = false;
  };

  void set_up();
  void make_shared_words(unsigned node);
  void make_shared_receives(unsigned node);
  void make_queue_pairs(std::uint32_t count);
  void connect_all();
  void connect(Connection& connection);
  void reconnect();
  Cq& make_cq(std::uint32_t capacity);
  void bring_up(unsigned node, Connection& connection, wire::Psn rq_psn, wire::Psn sq_psn);

  bool drive(bool eagerly);
  void post_receives(RcChannel& channel, bool eagerly, bool& did);
  void post_shared_receives(bool eagerly, bool& did);
  void take_events();
  bool poll_completions();
  void dispatch(const roce::Completion& completion);
  void local_atomics();
  void break_network();
  void drain_and_resume(bool resume_all);
  [[nodiscard]] std::uint8_t pick_timeout();
  void end_failed_run();

  [[nodiscard]] bool finished() const;
  [[nodiscard]] std::string first_error() const;
  [[nodiscard]] std::string progress() const;
  [[nodiscard]] std::string work();
  [[nodiscard]] bool come_to_rest();
  [[nodiscard]] std::string check_end();
  [[nodiscard]] std::string check_counters();
  [[nodiscard]] std::string tear_down();
  [[nodiscard]] std::uint64_t count_broken();
  void add_totals(RcTotals& totals);

  template <typename Action>
  void for_each_channel(Action action) {
    for (const auto& connection : connections_) {
      for (const auto& channel : connection->channels) {
        action(*channel);
      }
    }
  }

  Rng rng_;
  const RcProfile& profile_;
  RcSettings settings_;
  NetworkConfig network_config_;
  SimNetwork network_;
  std::array<std::unique_ptr<NodeMemory>, 2> memories_;
  std::array<SharedWords, 2> shared_;
  std::array<std::unique_ptr<SharedReceives>, 2> receives_;  ///< of nodes with an SRQ
  std::array<roce::ProtectionDomain, 2> pds_;
  std::vector<std::unique_ptr<Cq>> cqs_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::uint64_t start_ns_ = network_.now_ns();
  std::uint64_t break_at_ns_ = stack::kNever;
  bool fatal_posted_ = false;
  bool may_fail_ = profile_.ending != Ending::complete;
  std::uint32_t next_channel_ = 0;
  std::uint64_t drains_ = 0;
  std::uint64_t limit_events_ = 0;
  std::uint64_t failed_before_ = 0;  ///< channels that had failed when the queue pairs were reset
};

RcRun::Cq& RcRun::make_cq(std::uint32_t capacity) {
  cqs_.push_back(std::make_unique<Cq>(capacity, rng_.chance(30)));
  return *cqs_.back();
}

void RcRun::make_shared_words(unsigned node) {
  Area area = memories_[node]->make_area(network_.node(node).engine(), pds_[node], kSharedWords * 8,
                                         roce::kAccessAll, rng_);
  shared_[node].key = area.region.key;
  for (std::uint32_t i = 0; i < kSharedWords; ++i) {
    auto* word = reinterpret_cast<std::uint64_t*>(memories_[node]->actual(area).data() + i * 8);
    shared_[node].words.push_back(
        {.address = area.address(i * 8), .word = word, .swaps = i % 2 == 1});
  }
}

void RcRun::make_shared_receives(unsigned node) {
  roce::Engine& engine = network_.node(node).engine();
  const auto pd = rng_.chance(30) ? engine.allocate_pd() : pds_[node];
  receives_[node] = std::make_unique<SharedReceives>(
      kSharedReceiveIds - 2 * node, engine, pd, *memories_[node], settings_.max_message,
      settings_.recv_depth, settings_.max_recv_sge, rng_);
}

void RcRun::set_up() {
  const std::uint32_t most = profile_.short_script ? 1 : profile_.long_messages ? 2 : 4;
  const std::uint32_t count = rng_.between32(1, most);
  const std::uint32_t phases = profile_.ending == Ending::reconnect ? 2 : 1;
  const std::uint32_t channel_bytes = settings_.max_message * 7 + settings_.target_size + 8192;
  for (unsigned node = 0; node < 2; ++node) {
    const bool srq = rng_.chance(profile_.srq_percent);
    const std::uint32_t srq_bytes =
        srq ? SharedReceives::memory_bytes(settings_.max_message, settings_.recv_depth) : 0;
    memories_[node] =
        std::make_unique<NodeMemory>(channel_bytes * count * 2 * phases + srq_bytes + 4096);
    pds_[node] = network_.node(node).engine().allocate_pd();
    if (srq) {
      make_shared_receives(node);
    }
    if (!may_fail_) {
      make_shared_words(node);
    }
  }
  make_queue_pairs(count);
  connect_all();
  if (profile_.ending == Ending::blackhole || profile_.ending == Ending::reconnect) {
    break_at_ns_ = network_.now_ns() + rng_.between(0, 300'000);
  }
}

void RcRun::make_queue_pairs(std::uint32_t count) {
  const bool share_cqs = rng_.chance(50);
  // An SRQ's receives can all complete in the same queue, and be posted again before it is polled.
  const std::uint32_t srq_receives =
      receives_[0] || receives_[1] ? 2 * settings_.ops * count * 2 : 0;
  const std::uint32_t capacity = settings_.send_depth + settings_.recv_depth + srq_receives + 8;
  std::array<Cq*, 2> common{};
  for (std::uint32_t i = 0; i < count; ++i) {
    connections_.push_back(std::make_unique<Connection>());
    for (unsigned node = 0; node < 2; ++node) {
      if (common[node] == nullptr || !share_cqs) {
        common[node] = &make_cq(capacity * (share_cqs ? count : 1));
      }
      Cq& recv_cq = share_cqs ? *common[node] : make_cq(capacity);
      roce::Engine& engine = network_.node(node).engine();
      SharedReceives* receives = receives_[node].get();
      roce::QueuePair* qp =
          must(engine.create_qp({.pd = pds_[node],
                                 .send_cq = common[node]->queue.get(),
                                 .recv_cq = recv_cq.queue.get(),
                                 .srq = receives ? receives->srq() : nullptr,
                                 .max_send_wr = settings_.send_depth,
                                 .max_recv_wr = settings_.recv_depth,
                                 .max_send_sge = settings_.max_send_sge,
                                 .max_recv_sge = settings_.max_recv_sge,
                                 .max_inline_data = settings_.max_inline,
                                 .sq_sig_all = settings_.sq_sig_all,
                                 .extended_atomics = settings_.extended_atomics}));
      connections_.back()->ends[node] = {&engine, qp, pds_[node], memories_[node].get(), receives};
    }
  }
}

/// Gives every connection its channels, and the model the memory as it is then.
void RcRun::connect_all() {
  for (const auto& connection : connections_) {
    connect(*connection);
  }
  for (unsigned node = 0; node < 2; ++node) {
    memories_[node]->fill(rng_);
    for (SharedWord& word : shared_[node].words) {
      word.history = AtomicHistory(*word.word);
    }
  }
}

void RcRun::connect(Connection& connection) {
  for (unsigned node = 0; node < 2; ++node) {
    connection.channels[node] =
        std::make_unique<RcChannel>(settings_, next_channel_++, connection.ends[node],
                                    connection.ends[1 - node], shared_[1 - node], rng_);
    if (may_fail_) {
      connection.channels[node]->allow_failure();
    }
  }
  std::array<wire::Psn, 2> psn;
  for (wire::Psn& first : psn) {
    first = rng_.chance(50) ? wire::Psn::make(0u - rng_.between32(0, 40))
                            : wire::Psn::make(static_cast<std::uint32_t>(rng_.next()));
  }
  for (unsigned node = 0; node < 2; ++node) {
    bring_up(node, connection, psn[1 - node], psn[node]);
  }
}

void RcRun::bring_up(unsigned node, Connection& connection, wire::Psn rq_psn, wire::Psn sq_psn) {
  roce::QueuePair& qp = *connection.ends[node].qp;
  roce::QpAttributes a;
  a.qp_access_flags = roce::kAccessAll | roce::kAccessFlushGlobal;
  a.path_mtu = settings_.path_mtu;
  a.dest_qp_num = connection.ends[1 - node].qp->number();
  a.rq_psn = rq_psn;
  a.max_dest_rd_atomic = settings_.max_dest_rd_atomic;
  a.min_rnr_timer = settings_.min_rnr_timer;
  a.ah_attr.source = network_.node(node).address();
  a.ah_attr.destination = network_.node(1 - node).address();
  a.sq_psn = sq_psn;
  a.timeout = settings_.timeout;
  a.retry_cnt = settings_.retry_cnt;
  a.rnr_retry = settings_.rnr_retry;
  a.max_rd_atomic = settings_.max_rd_atomic;
  must(qp.set_loss_recovery(settings_.recovery));
  must(qp.bring_up(a, QpState::rts));
}

void RcRun::post_receives(RcChannel& channel, bool eagerly, bool& did) {
  if (!eagerly && rng_.chance(settings_.late_receive_percent)) {
    return;
  }
  const std::uint32_t most = settings_.late_receive_percent > 10 ? 1 : settings_.recv_depth;
  for (std::uint32_t i = 0; i < most && channel.post_receive(); ++i) {
    did = true;
  }
}

void RcRun::post_shared_receives(bool eagerly, bool& did) {
  for (unsigned node = 0; node < 2; ++node) {
    if (receives_[node] == nullptr || (!eagerly && rng_.chance(settings_.late_receive_percent))) {
      continue;
    }
    receives_[node]->modify();
    const std::uint32_t most = settings_.late_receive_percent > 10 ? 1 : settings_.recv_depth;
    for (std::uint32_t i = 0; i < most && receives_[node]->post(settings_.max_message); ++i) {
      did = true;
    }
  }
}

void RcRun::take_events() {
  for (unsigned node = 0; node < 2; ++node) {
    while (const auto event = network_.node(node).engine().poll_async_event()) {
      if (event->type == roce::AsyncEventType::srq_limit_reached) {
        ++limit_events_;
        receives_[node]->on_limit_reached();
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
  RcChannel& first = *connections_[0]->channels[0];
  if (settings_.fatal_request && !fatal_posted_ && first.all_posted() && first.idle() &&
      settings_.send_depth >= 4) {
    first.post_fatal();
    fatal_posted_ = true;
    did = true;
  }
  if (eagerly || rng_.chance(70)) {
    did = poll_completions() || did;
  }
  take_events();
  local_atomics();
  break_network();
  if (settings_.drain) {
    drain_and_resume(eagerly);
  }
  return did;
}

bool RcRun::poll_completions() {
  std::vector<roce::Completion> found;
  for (const auto& cq : cqs_) {
    if (!cq->due()) {
      continue;
    }
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
    if (shared.words.empty() || !rng_.chance(10)) {
      continue;
    }
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
  for (const auto& connection : connections_) {
    for (const Endpoint& end : connection->ends) {
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
    }
  }
}

std::uint8_t RcRun::pick_timeout() {
  return static_cast<std::uint8_t>(rng_.between32(settings_.timeout, settings_.timeout + 2u));
}

bool RcRun::finished() const {
  bool done = true;
  bool broken = false;
  const bool fatal_done = connections_[0]->channels[0]->broken();
  for (const auto& connection : connections_) {
    for (const auto& channel : connection->channels) {
      done = done && channel->all_posted() && channel->idle();
      broken = broken || channel->broken();
    }
  }
  if (!may_fail_) {
    return done;
  }
  if (profile_.ending == Ending::fatal) {
    return fatal_done || (done && settings_.send_depth < 4);
  }
  return broken || done;
}

std::string RcRun::first_error() const {
  for (const auto& connection : connections_) {
    for (const auto& channel : connection->channels) {
      if (!channel->error().empty()) {
        return channel->error();
      }
    }
  }
  return {};
}

std::string RcRun::progress() const {
  std::string text;
  for (const auto& connection : connections_) {
    for (const auto& channel : connection->channels) {
      text += "\n  " + channel->describe();
    }
  }
  return text;
}

std::string RcRun::work() {
  const std::uint64_t limit_ns = network_.now_ns() + kRunLimit_ns;
  for (std::uint32_t step = 0; step < kMaxSteps; ++step) {
    const bool did = drive(false);
    const bool moved = network_.poll();
    if (std::string error = first_error(); !error.empty()) {
      return error;
    }
    if (finished()) {
      return {};
    }
    if (did || moved || network_.advance(limit_ns)) {
      continue;
    }
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
  for_each_channel(
      [&](RcChannel& channel) { must(channel.requester().qp->modify(error, roce::kQpState)); });
  for (int i = 0; i < 3; ++i) {
    network_.poll();
    static_cast<void>(drive(true));
  }
}

/// A host that knows its neighbours by resolution goes on checking them: it never rests.
bool RcRun::come_to_rest() {
  constexpr std::uint64_t kNeighbourCheck_ns = 1'000'000'000;
  const std::uint64_t limit_ns = profile_.resolve_neighbours ? kNeighbourCheck_ns : kRestLimit_ns;
  return network_.run_to_rest(network_.now_ns() + limit_ns) || profile_.resolve_neighbours;
}

std::string RcRun::check_end() {
  drain_and_resume(true);
  if (may_fail_) {
    end_failed_run();
  }
  if (!come_to_rest()) {
    return "the network does not come to rest";
  }
  for_each_channel([](RcChannel& channel) { channel.accept_unknown(); });
  if (poll_completions() && !may_fail_) {
    return "completions after the last one";
  }
  if (std::string error = first_error(); !error.empty()) {
    return error;
  }
  for (const auto& connection : connections_) {
    for (const auto& channel : connection->channels) {
      const roce::QueuePair& qp = *channel->requester().qp;
      if (!may_fail_ && (qp.state() != QpState::rts || qp.send_queue_depth() != 0)) {
        return fmt::format("QP in {} with {} requests at the end", to_string(qp.state()),
                           qp.send_queue_depth());
      }
      if (may_fail_ && channel->outstanding() != 0) {
        return "requests or receives without a completion" + progress();
      }
    }
  }
  take_events();
  for (const auto& receives : receives_) {
    if (receives == nullptr) {
      continue;
    }
    if (std::string text = receives->contradiction(); !text.empty()) {
      return text;
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
  for_each_channel(
      [&](RcChannel& channel) { must(channel.requester().qp->modify(reset, roce::kQpState)); });
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
    const std::uint64_t local = self.fast_registrations.value() + self.local_invalidations.value();
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
    if (!profile_.lossless) {
      continue;
    }
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
  for (const auto& connection : connections_) {
    for (const Endpoint& end : connection->ends) {
      end.engine->destroy_qp(end.qp);
    }
  }
  for (unsigned node = 0; node < 2; ++node) {
    if (receives_[node] != nullptr) {
      must(network_.node(node).engine().destroy_srq(receives_[node]->srq()));
    }
    if (network_.node(node).engine().qp_count() != 0) {
      return "queue pairs are left";
    }
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
  });
  totals.failed_connections += failed_before_ + count_broken();
  for (unsigned node = 0; node < 2; ++node) {
    const roce::EngineCounters& c = network_.node(node).engine().counters();
    totals.packets += c.sent_pkts.value();
    totals.no_mbuf += c.tx_no_mbuf.value();
    totals.held += c.held_requests.value() + c.held_responses.value();
    totals.not_held += c.held_pkts_no_room.value();
    totals.selective_acks += c.rcvd_selective_ack.value();
    totals.last_offered[node] = network_.node(node).offered();
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
  std::string error = work();
  if (error.empty()) {
    error = check_end();
  }
  if (error.empty() && profile_.ending == Ending::reconnect) {
    reconnect();
    error = work();
    error = error.empty() ? check_end() : error;
  }
  if (error.empty() && profile_.ending == Ending::complete) {
    error = check_counters();
  }
  add_totals(totals);
  if (error.empty()) {
    error = tear_down();
  }
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
