// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/rc_world.h"

#include <algorithm>

namespace rockhopper::sim {
namespace {

using roce::QpState;
using roce::QpType;

constexpr std::uint32_t kSharedWords = 3;
/// Odd, as the ids of all receives, and beyond those of any channel.
constexpr std::uint32_t kSharedReceiveIds = UINT32_MAX;
/// XRC: SRQs of a node, each of a process of its own.
constexpr std::uint32_t kMaxReceivers = 3;

}  // namespace

SimCq::SimCq(std::uint32_t capacity, bool by_event)
    : queue(must(roce::CompletionQueue::create(capacity))), by_event_(by_event) {
  rearm();
}

void SimCq::rearm() {
  if (by_event_) {
    raised_ = false;
    queue->request_notify(roce::Notify::next, this);
  }
}

RcWorld::RcWorld(std::uint64_t seed, const RcProfile& profile, PoolSet& pools)
    : rng_(seed),
      profile_(profile),
      settings_(draw_rc_settings(rng_, profile)),
      network_config_(draw_network_config(seed, rng_, profile, pools)),
      network_(network_config_),
      may_fail_(profile.ending != Ending::complete) {}

SimCq& RcWorld::make_cq(std::uint32_t capacity) {
  cqs_.push_back(std::make_unique<SimCq>(capacity, rng_.chance(30)));
  return *cqs_.back();
}

void RcWorld::make_shared_words(unsigned node) {
  Area area = memories_[node]->make_area(network_.node(node).engine(), pds_[node], kSharedWords * 8,
                                         roce::kAccessAll, rng_);
  shared_[node].key = area.region.key;
  for (std::uint32_t i = 0; i < kSharedWords; ++i) {
    auto* word = reinterpret_cast<std::uint64_t*>(memories_[node]->actual(area).data() + i * 8);
    shared_[node].words.push_back(
        {.address = area.address(i * 8), .word = word, .swaps = i % 2 == 1});
  }
}

void RcWorld::make_shared_receives(unsigned node) {
  roce::Engine& engine = network_.node(node).engine();
  const auto pd = rng_.chance(30) ? engine.allocate_pd() : pds_[node];
  receives_[node].push_back(std::make_unique<SharedReceives>(
      kSharedReceiveIds - 2 * next_receives_++, engine,
      roce::SrqInit{
          .pd = pd,
          .attributes = {.max_wr = settings_.recv_depth, .max_sge = settings_.max_recv_sge}},
      *memories_[node], settings_.max_message, rng_));
}

/// Processes that share connections: each has its protection domain, SRQ and completion queue; the
/// first is that of the queue pairs. Those of the second domain are out of reach for the targets of
/// the first.
void RcWorld::make_xrc_receives(unsigned node, std::uint32_t connections) {
  roce::Engine& engine = network_.node(node).engine();
  xrcds_[node] = {engine.open_xrcd(), engine.open_xrcd()};
  // All receives can complete in the same queue, and be posted again before it is polled.
  const std::uint32_t capacity = settings_.recv_depth + 2 * settings_.ops * connections + 8;
  const std::uint32_t count = rng_.between32(2, kMaxReceivers);
  SimCq* cq = nullptr;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (cq == nullptr || rng_.chance(70)) cq = &make_cq(capacity * count);
    receives_[node].push_back(std::make_unique<SharedReceives>(
        kSharedReceiveIds - 2 * next_receives_++, engine,
        roce::SrqInit{
            .pd = i == 0 ? pds_[node] : engine.allocate_pd(),
            .attributes = {.max_wr = settings_.recv_depth, .max_sge = settings_.max_recv_sge},
            .xrcd = xrcds_[node][i < 2 ? i : rng_.between(0, 1)],
            .cq = cq->queue.get()},
        *memories_[node], settings_.max_message, rng_));
  }
}

void RcWorld::make_memory(unsigned node, std::uint32_t connections) {
  const std::uint32_t phases = profile_.ending == Ending::reconnect ? 2 : 1;
  const std::uint32_t channel_bytes = settings_.max_message * 7 + settings_.target_size + 8192;
  const bool srq = !profile_.xrc && rng_.chance(profile_.srq_percent);
  const std::uint32_t srq_bytes =
      SharedReceives::memory_bytes(settings_.max_message, settings_.recv_depth);
  const std::uint32_t srqs = profile_.xrc ? kMaxReceivers : srq ? 1 : 0;
  memories_[node] = std::make_unique<NodeMemory>(channel_bytes * connections * 2 * phases +
                                                 srq_bytes * srqs + 4096);
  pds_[node] = network_.node(node).engine().allocate_pd();
  if (srq) make_shared_receives(node);
  if (profile_.xrc) make_xrc_receives(node, connections);
  if (!may_fail_) make_shared_words(node);
}

void RcWorld::set_up() {
  const std::uint32_t most = profile_.short_script ? 1 : profile_.long_messages ? 2 : 4;
  const std::uint32_t count = rng_.between32(1, most);
  for (unsigned node = 0; node < 2; ++node) {
    make_memory(node, count);
  }
  if (profile_.xrc) {
    make_xrc_queue_pairs(count);
  } else {
    make_queue_pairs(count);
  }
  connect_all();
}

void RcWorld::make_queue_pairs(std::uint32_t count) {
  const bool share_cqs = rng_.chance(50);
  // An SRQ's receives can all complete in the same queue, and be posted again before it is polled.
  const bool any_srq = !receives_[0].empty() || !receives_[1].empty();
  const std::uint32_t srq_receives = any_srq ? 2 * settings_.ops * count * 2 : 0;
  const std::uint32_t capacity = settings_.send_depth + settings_.recv_depth + srq_receives + 8;
  std::array<SimCq*, 2> common{};
  for (std::uint32_t i = 0; i < count; ++i) {
    connections_.push_back(std::make_unique<Connection>());
    for (unsigned node = 0; node < 2; ++node) {
      if (common[node] == nullptr || !share_cqs) {
        common[node] = &make_cq(capacity * (share_cqs ? count : 1));
      }
      SimCq& recv_cq = share_cqs ? *common[node] : make_cq(capacity);
      roce::Engine& engine = network_.node(node).engine();
      Endpoint& end = connections_.back()->ends[node];
      if (!receives_[node].empty()) end.receives = {receives_[node][0].get()};
      end.engine = &engine;
      end.pd = pds_[node];
      end.memory = memories_[node].get();
      end.qp =
          must(engine.create_qp({.pd = pds_[node],
                                 .send_cq = common[node]->queue.get(),
                                 .recv_cq = recv_cq.queue.get(),
                                 .srq = end.receives.empty() ? nullptr : end.receives[0]->srq(),
                                 .max_send_wr = settings_.send_depth,
                                 .max_recv_wr = settings_.recv_depth,
                                 .max_send_sge = settings_.max_send_sge,
                                 .max_recv_sge = settings_.max_recv_sge,
                                 .max_inline_data = settings_.max_inline,
                                 .sq_sig_all = settings_.sq_sig_all,
                                 .extended_atomics = settings_.extended_atomics}));
    }
    if (profile_.windows) make_windows(*connections_.back());
  }
}

/// Each connection goes one way: from an initiator to a target of one of the peer's domains.
void RcWorld::make_xrc_queue_pairs(std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    connections_.push_back(std::make_unique<Connection>());
    const unsigned initiator = rng_.between32(0, 1);
    const roce::XrcDomain xrcd = xrcds_[1 - initiator][rng_.between(0, 1)];
    for (unsigned node = 0; node < 2; ++node) {
      roce::Engine& engine = network_.node(node).engine();
      Endpoint& end = connections_.back()->ends[node];
      end.engine = &engine;
      end.pd = pds_[node];
      end.memory = memories_[node].get();
      if (node == initiator) {
        end.qp = must(engine.create_qp({.qp_type = QpType::xrc_send,
                                        .pd = pds_[node],
                                        .send_cq = make_cq(settings_.send_depth + 8).queue.get(),
                                        .max_send_wr = settings_.send_depth,
                                        .max_send_sge = settings_.max_send_sge,
                                        .max_inline_data = settings_.max_inline,
                                        .sq_sig_all = settings_.sq_sig_all}));
        continue;
      }
      end.qp = must(engine.create_qp({.qp_type = QpType::xrc_recv, .xrcd = xrcd}));
      for (const auto& receives : receives_[node]) {
        (receives->srq()->xrcd() == xrcd ? end.receives : end.unreachable)
            .push_back(receives.get());
      }
    }
  }
}

void RcWorld::make_windows(Connection& connection) {
  for (unsigned node = 0; node < 2; ++node) {
    Endpoint& end = connection.ends[node];
    connection.windows[node] = std::make_unique<MemoryWindows>(*end.engine, end.pd, rng_);
    end.windows = connection.windows[node].get();
  }
}

void RcWorld::connect_all() {
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

void RcWorld::connect(Connection& connection) {
  for (unsigned node = 0; node < 2; ++node) {
    if (connection.ends[node].qp->init().qp_type == QpType::xrc_recv) continue;
    connection.channels[node] =
        std::make_unique<RcChannel>(settings_, next_channel_++, connection.ends[node],
                                    connection.ends[1 - node], shared_[1 - node], rng_);
    if (may_fail_) connection.channels[node]->allow_failure();
  }
  connection.pkey_index = kPartitions[rng_.chance(30) ? 1 : 0];
  std::array<wire::Psn, 2> psn;
  for (wire::Psn& first : psn) {
    first = rng_.chance(50) ? wire::Psn::make(0u - rng_.between32(0, 40))
                            : wire::Psn::make(static_cast<std::uint32_t>(rng_.next()));
  }
  for (unsigned node = 0; node < 2; ++node) {
    bring_up(node, connection, psn[1 - node], psn[node]);
  }
}

void RcWorld::bring_up(unsigned node, Connection& connection, wire::Psn rq_psn, wire::Psn sq_psn) {
  roce::QueuePair& qp = *connection.ends[node].qp;
  roce::QpAttributes a;
  a.qp_access_flags = roce::kAccessAll | roce::kAccessFlushGlobal;
  a.pkey_index = connection.pkey_index[node];
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
  // A target needs no more than RTR, and may have it.
  const bool rtr = qp.init().qp_type == QpType::xrc_recv && rng_.chance(50);
  must(qp.bring_up(a, rtr ? QpState::rtr : QpState::rts));
}

}  // namespace rockhopper::sim
