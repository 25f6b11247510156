// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/cm_network.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace rockhopper::sim {
namespace {

constexpr std::uint32_t kQueueDepth = 16;
constexpr std::uint64_t kBusyStepNs = 1'000;
/// So often what moves may be but completions, or packets that a link has held back.
constexpr std::uint32_t kIdleTurns = 100;

}  // namespace

CmNetwork::CmNetwork(const CmNetworkConfig& config)
    : network_(config.network),
      random_{roce::SeededRandom(config.network.seed * 2 + 100),
              roce::SeededRandom(config.network.seed * 2 + 101)} {
  for (unsigned node = 0; node < 2; ++node) {
    if (node == 1 && config.bare_peer) {
      peer_ = std::make_unique<MadPeer>(engine(1));
    } else {
      roce::cm::ConnectionManagerConfig own = config.managers[node];
      own.engine = &engine(node);
      own.random = &random_[node];
      managers_[node] = must(roce::cm::ConnectionManager::create(own));
      managers_[node]->poll(now_ns());
    }
    End& end = ends_[node];
    end.pd = engine(node).allocate_pd();
    end.cq = must(roce::CompletionQueue::create(256));
    end.memory.resize(kMemoryBytes);
    end.region = must(engine(node).register_memory(end.pd, end.memory.data(), end.memory.size(),
                                                   roce::kAccessAll));
  }
}

CmNetwork::~CmNetwork() = default;

std::uint64_t CmNetwork::counter(unsigned node, const char* name) const {
  struct Search {
    const char* name;
    std::uint64_t value;
    bool found;
  } search{name, 0, false};
  managers_.at(node)->visit_counters(
      [](void* context, const char* counter, std::uint64_t value) {
        auto& wanted = *static_cast<Search*>(context);
        if (std::strcmp(counter, wanted.name) == 0) {
          wanted.value = value;
          wanted.found = true;
        }
      },
      &search);
  if (!search.found) die(std::string("no counter ") + name);
  return search.value;
}

roce::AddressVector CmNetwork::path(unsigned node) {
  return {.source = network_.node(node).address(),
          .destination = network_.node(1 - node).address()};
}

roce::QueuePair& CmNetwork::make_qp(unsigned node, roce::QpType type) {
  return *must(engine(node).create_qp({.qp_type = type,
                                       .pd = ends_[node].pd,
                                       .send_cq = ends_[node].cq.get(),
                                       .recv_cq = ends_[node].cq.get(),
                                       .max_send_wr = kQueueDepth,
                                       .max_recv_wr = kQueueDepth,
                                       .sq_sig_all = true}));
}

roce::Sge CmNetwork::sge(unsigned node, std::uint32_t offset, std::uint32_t length) const {
  const End& end = ends_[node];
  return {.addr = reinterpret_cast<std::uintptr_t>(end.memory.data()) + offset,
          .length = length,
          .lkey = end.region.key};
}

void CmNetwork::serve() {
  if (peer_ != nullptr) peer_->poll(now_ns());
  for (unsigned node = 0; node < 2; ++node) {
    if (managers_[node] == nullptr) continue;
    managers_[node]->poll(now_ns());
    while (const auto event = managers_[node]->poll_event()) {
      ++events_;
      if (on_event) on_event(node, *event);
    }
  }
}

std::uint64_t CmNetwork::activity() const {
  std::uint64_t sum = events_;
  for (unsigned node = 0; node < 2; ++node) {
    if (managers_[node] == nullptr) continue;
    sum += counter(node, "rcvd_mads") + counter(node, "sent_messages");
  }
  if (peer_ != nullptr) sum += peer_->counters().rcvd_mads.value();
  return sum;
}

void CmNetwork::settle() {
  std::uint32_t idle_turns = 0;
  while (idle_turns < kIdleTurns) {
    const std::uint64_t before = activity();
    const bool moved = network_.poll();
    serve();
    if (moved || activity() != before) {
      idle_turns = 0;
    } else if (std::min(next_deadline_ns(), network_.next_deadline_ns()) > now_ns()) {
      return;
    } else {
      ++idle_turns;
    }
  }
}

std::uint64_t CmNetwork::next_deadline_ns() const {
  std::uint64_t next_ns = peer_ == nullptr ? stack::kNever : peer_->next_deadline_ns();
  for (const auto& manager : managers_) {
    if (manager != nullptr) next_ns = std::min(next_ns, manager->next_deadline_ns());
  }
  return next_ns;
}

bool CmNetwork::advance(std::uint64_t limit_ns) {
  std::uint64_t next_ns = next_deadline_ns();
  if (next_ns <= now_ns()) {
    ++busy_deadlines_;
    next_ns = now_ns() + kBusyStepNs;
  }
  if (network_.advance(std::min(limit_ns, next_ns))) return true;
  if (next_ns > limit_ns || next_ns == stack::kNever) return false;
  network_.advance_to(next_ns);
  return true;
}

bool CmNetwork::run_until(const std::function<bool()>& done, std::uint64_t limit_ns) {
  for (;;) {
    settle();
    if (done()) return true;
    if (!advance(limit_ns)) return false;
  }
}

bool CmNetwork::run_to_rest(std::uint64_t limit_ns) {
  return run_until(
      [this] {
        return next_deadline_ns() == stack::kNever && network_.next_deadline_ns() == stack::kNever;
      },
      limit_ns);
}

void CmNetwork::run_for(std::uint64_t duration_ns) {
  const std::uint64_t end_ns = now_ns() + duration_ns;
  (void)run_until([] { return false; }, end_ns);
  network_.advance_to(end_ns);
  settle();
}

}  // namespace rockhopper::sim
