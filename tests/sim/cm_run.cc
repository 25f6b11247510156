// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/cm_run.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/sim/cm_network.h"
#include "tests/sim/rng.h"

namespace rockhopper::sim {
namespace {

using roce::QpState;
using roce::QpType;
using roce::cm::Connection;
using roce::cm::Event;
using roce::cm::EventType;
using roce::cm::Lookup;
using roce::cm::State;
using wire::cm::SidrStatus;

constexpr std::uint64_t kService = 0x0000000001061234;
constexpr std::uint64_t kNobodysService = kService + 1;
constexpr std::uint64_t kRestLimitNs = 100'000'000'000'000;
constexpr unsigned kMaxConnects = 12;  ///< of a node: an engine has 64 queue pairs
constexpr std::uint32_t kQkey = 0x5a5a0000;

/// A connection as its application sees it.
struct End {
  Connection* connection = nullptr;  ///< null: released
  unsigned node = 0;
  std::uint32_t number = 0;  ///< of the connect() that both ends belong to
  bool active = false;
  roce::QueuePair* qp = nullptr;
  bool answered = false;  ///< accepted: an outcome is due; the active end has none from the start
  unsigned outcomes = 0;  ///< established, rejected, unreachable, connect_error
  unsigned ends = 0;      ///< disconnected
  unsigned exits = 0;     ///< timewait_exit
  bool was_established = false;
};

/// A lookup of ours.
struct Question {
  Lookup* lookup = nullptr;  ///< null: released
  unsigned node = 0;
  std::uint64_t service = 0;
  unsigned outcomes = 0;
};

/// What an application does later.
struct Decision {
  std::uint64_t due_ns = 0;
  std::size_t end = 0;       ///< index of ends_, if no lookup
  unsigned node = 0;         ///< of the lookup
  Lookup* lookup = nullptr;  ///< a peer's
  std::uint32_t number = 0;  ///< of the lookup
};

class CmRun {
 public:
  CmRun(std::uint64_t seed, const CmProfile& profile, PoolSet& pools)
      : rng_(seed), profile_(profile), net_(draw(seed, pools)) {}
  std::string run(CmTotals& totals);

 private:
  [[nodiscard]] CmNetworkConfig draw(std::uint64_t seed, PoolSet& pools);
  void act(unsigned node);
  void connect(unsigned node);
  void resolve(unsigned node);
  void disconnect_some(unsigned node);
  void release_some(unsigned node);

  void on_event(unsigned node, const Event& event);
  void on_request(unsigned node, const Event& event);
  void on_outcome(End& end, EventType type);
  void on_lookup_request(unsigned node, const Event& event);
  void on_answer(unsigned node, const Event& event);
  void decide_due();
  void decide(std::size_t index);
  void decide(const Decision& decision);
  void pass(std::uint64_t duration_ns);

  void finish();
  void check_ends();
  void check_pair(const End& active, const End& passive);
  void release_all();
  void add(CmTotals& totals);

  [[nodiscard]] End* find(const Connection* connection);
  void release(End& end);
  [[nodiscard]] std::uint64_t sum(const char* counter) const {
    return net_.counter(0, counter) + net_.counter(1, counter);
  }
  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }
  [[nodiscard]] static std::array<std::uint8_t, 4> number_bytes(std::uint32_t number) {
    std::array<std::uint8_t, 4> bytes;
    wire::store_be32(bytes.data(), number);
    return bytes;
  }

  Rng rng_;
  const CmProfile& profile_;
  CmNetwork net_;
  std::vector<End> ends_;
  std::vector<Question> questions_;
  std::vector<Decision> decisions_;
  std::array<unsigned, 2> connects_{};
  std::uint64_t early_ = 0;
  bool finishing_ = false;  ///< applications answer at once
  std::string error_;
};

CmNetworkConfig CmRun::draw(std::uint64_t seed, PoolSet& pools) {
  CmNetworkConfig config{.network = {.seed = seed, .pools = &pools, .faults = profile_.faults},
                         .managers = {}};
  config.network.ipv6 = rng_.chance(40);
  config.network.static_neighbours = !profile_.resolve_neighbours;
  config.network.segment_arrivals = rng_.chance(25);
  config.network.delay_ns = rng_.pick<std::uint64_t>({0, 300, 20'000, 1'000'000});
  for (auto& manager : config.managers) {
    manager.response_timeout = static_cast<std::uint8_t>(rng_.between(13, 18));
    manager.service_timeout = static_cast<std::uint8_t>(rng_.between(14, 20));
    manager.max_retries = static_cast<std::uint8_t>(profile_.few_retries ? rng_.between(0, 2) : 15);
  }
  return config;
}

std::string CmRun::run(CmTotals& totals) {
  net_.on_event = [this](unsigned node, const Event& event) { on_event(node, event); };
  for (unsigned node = 0; node < 2; ++node) {
    must(net_.manager(node).listen(kService, rng_.between32(1, 16)));
  }
  const std::uint32_t actions = rng_.between32(5, 60);
  for (std::uint32_t i = 0; i < actions && error_.empty(); ++i) {
    act(rng_.between32(0, 1));
    pass(rng_.pick<std::uint64_t>({0, 1'000, 1'000'000, rng_.between(0, 500'000'000)}));
  }
  finish();
  add(totals);
  return error_;
}

void CmRun::act(unsigned node) {
  switch (rng_.between(0, 9)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return connect(node);
    case 4:
    case 5:
      return resolve(node);
    case 6:
    case 7:
      return disconnect_some(node);
    default:
      return release_some(node);
  }
}

void CmRun::connect(unsigned node) {
  if (++connects_[node] > kMaxConnects) return;
  const QpType type = rng_.chance(30) ? QpType::uc : QpType::rc;
  roce::QueuePair& qp = net_.make_qp(node, type);
  const auto number = static_cast<std::uint32_t>(ends_.size());
  const auto data = number_bytes(number);
  Connection* connection = must(net_.manager(node).connect(
      qp, {.path = net_.path(node),
           .pkey_index = kPartitions[rng_.chance(30) ? 1 : 0][node],
           .service_id = rng_.chance(5) ? kNobodysService : kService,
           .path_mtu = rng_.pick<std::uint32_t>({0, 256, 1024, 4096}),
           .private_data = data,
           .qp = {.ack_timeout = static_cast<std::uint8_t>(rng_.between(8, 18))}}));
  ends_.push_back(
      {.connection = connection, .node = node, .number = number, .active = true, .qp = &qp});
}

void CmRun::resolve(unsigned node) {
  const auto number = static_cast<std::uint32_t>(questions_.size());
  const auto data = number_bytes(number);
  const std::uint64_t service = rng_.chance(10) ? kNobodysService : kService;
  questions_.push_back({.lookup = must(net_.manager(node).resolve(
                            {.path = net_.path(node),
                             .pkey_index = kPartitions[rng_.chance(30) ? 1 : 0][node],
                             .service_id = service,
                             .private_data = data})),
                        .node = node,
                        .service = service});
}

void CmRun::disconnect_some(unsigned node) {
  for (const End& end : ends_) {
    if (end.connection == nullptr || end.node != node || !rng_.chance(30)) continue;
    const State state = end.connection->state();
    const bool possible =
        state != State::req_sent && state != State::req_rcvd && state != State::closed;
    const auto result = net_.manager(node).disconnect(*end.connection);
    if (result.has_value() != possible) fail(fmt::format("disconnect() in {}", to_string(state)));
  }
}

void CmRun::release_some(unsigned node) {
  for (End& end : ends_) {
    if (end.connection != nullptr && end.node == node && rng_.chance(15)) release(end);
  }
  for (Question& question : questions_) {
    if (question.lookup == nullptr || question.node != node || !rng_.chance(15)) continue;
    early_ += question.outcomes == 0 ? 1 : 0;
    net_.manager(node).release(*std::exchange(question.lookup, nullptr));
  }
}

End* CmRun::find(const Connection* connection) {
  for (End& end : ends_) {
    if (end.connection == connection) return &end;
  }
  return nullptr;
}

void CmRun::release(End& end) {
  early_ += end.outcomes == 0 ? 1 : 0;
  net_.manager(end.node).release(*std::exchange(end.connection, nullptr));
  if (end.qp != nullptr) net_.engine(end.node).destroy_qp(std::exchange(end.qp, nullptr));
}

void CmRun::on_event(unsigned node, const Event& event) {
  switch (event.type) {
    case EventType::connect_request:
      return on_request(node, event);
    case EventType::lookup_request:
      return on_lookup_request(node, event);
    case EventType::resolved:
    case EventType::lookup_failed:
      return on_answer(node, event);
    default:
      break;
  }
  End* end = find(event.connection);
  if (end == nullptr || end->node != node) {
    return fail(fmt::format("{} of a connection that was released", to_string(event.type)));
  }
  on_outcome(*end, event.type);
}

void CmRun::on_outcome(End& end, EventType type) {
  switch (type) {
    case EventType::established:
      end.was_established = true;
      // The next event may be waiting already.
      if (end.connection->state() == State::established && end.qp->state() != QpState::rts) {
        fail("established, but the queue pair is not in RTS");
      }
      [[fallthrough]];
    case EventType::rejected:
    case EventType::unreachable:
    case EventType::connect_error:
      ++end.outcomes;
      break;
    case EventType::disconnected:
      ++end.ends;
      if (end.qp->state() != QpState::err) fail("disconnected, but the queue pair is not in ERR");
      // The RTU never came.
      if (end.outcomes == 0 && !end.active) ++end.outcomes;
      break;
    case EventType::timewait_exit:
      ++end.exits;
      break;
    default:
      fail("an event of another kind");
  }
  if (end.outcomes > 1 || end.ends > 1 || end.exits > 1) {
    fail(fmt::format("{} a second time", to_string(type)));
  }
  if (end.ends > end.outcomes) fail("disconnected before it was connected");
  if (!end.active && !end.answered && type == EventType::established) {
    fail("established before the application has accepted");
  }
}

void CmRun::on_request(unsigned node, const Event& event) {
  const std::uint32_t number = wire::load_be32(event.private_data.view().data());
  if (number >= ends_.size() || !ends_[number].active || ends_[number].node == node) {
    return fail("a request that nobody has made");
  }
  for (const End& end : ends_) {
    // Only an application that has released the first sees a repetition as a second.
    if (!end.active && end.number == number && end.connection != nullptr) {
      return fail("a request for the second time");
    }
  }
  ends_.push_back({.connection = event.connection, .node = node, .number = number});
  const bool later = rng_.chance(profile_.slow_answers ? 60 : 20) && !finishing_;
  if (!later) return decide(ends_.size() - 1);
  const std::uint64_t most_ns = profile_.slow_answers ? 20'000'000'000 : 100'000'000;
  decisions_.push_back(
      {.due_ns = net_.now_ns() + rng_.between(0, most_ns), .end = ends_.size() - 1});
}

/// The application answers a request.
void CmRun::decide(std::size_t index) {
  End& end = ends_[index];
  if (end.connection == nullptr) return;
  roce::cm::ConnectionManager& manager = net_.manager(end.node);
  const bool waits = end.connection->state() == State::req_rcvd;
  const std::uint64_t choice = rng_.between(0, 9);
  if (choice == 0) return release(end);
  if (choice <= 2) {
    if (manager.reject(*end.connection).has_value() != waits) fail("reject() in another state");
    if (rng_.chance(50)) release(end);
    return;
  }
  end.qp =
      &net_.make_qp(end.node, end.connection->qp_type() == QpType::uc ? QpType::uc : QpType::rc);
  const auto accepted = manager.accept(*end.connection, *end.qp, {});
  if (accepted.has_value() != waits) {
    fail(accepted ? "accept() in another state" : accepted.error().message);
  }
  end.answered = accepted.has_value();
}

void CmRun::on_lookup_request(unsigned node, const Event& event) {
  const Decision decision{.due_ns = net_.now_ns() + rng_.between(0, 10'000'000),
                          .node = node,
                          .lookup = event.lookup,
                          .number = wire::load_be32(event.private_data.view().data())};
  if (decision.number >= questions_.size() || questions_[decision.number].node == node) {
    return fail("a question that nobody has asked");
  }
  if (rng_.chance(20) && !finishing_) {
    decisions_.push_back(decision);
  } else {
    decide(decision);
  }
}

/// The application answers a lookup: what it says depends on the number, so that the other end can
/// check it.
void CmRun::decide(const Decision& decision) {
  roce::cm::ConnectionManager& manager = net_.manager(decision.node);
  const std::uint32_t number = decision.number;
  if (number % 5 == 4) {
    must(manager.refuse(*decision.lookup, SidrStatus::no_qp));
  } else {
    must(manager.answer(*decision.lookup, wire::Qpn{100 + number}, kQkey + number));
  }
}

void CmRun::on_answer(unsigned node, const Event& event) {
  for (std::uint32_t number = 0; number < questions_.size(); ++number) {
    Question& question = questions_[number];
    if (question.lookup != event.lookup || question.node != node) continue;
    if (++question.outcomes > 1) fail("a second answer");
    if (event.type == EventType::resolved) {
      if (number % 5 == 4 || event.qpn.value != 100 + number || event.qkey != kQkey + number) {
        fail("an answer to another question");
      }
    } else if (!event.unreachable) {
      const SidrStatus expected =
          question.service == kService ? SidrStatus::no_qp : SidrStatus::unsupported_service;
      if (event.status != expected) fail("another refusal than was given");
    }
    return;
  }
  fail("an answer for a lookup that was released");
}

void CmRun::decide_due() {
  for (std::size_t i = 0; i < decisions_.size();) {
    if (decisions_[i].due_ns > net_.now_ns()) {
      ++i;
      continue;
    }
    const Decision decision = decisions_[i];
    decisions_.erase(decisions_.begin() + static_cast<std::ptrdiff_t>(i));
    if (decision.lookup != nullptr) {
      decide(decision);
    } else {
      decide(decision.end);
    }
  }
}

void CmRun::pass(std::uint64_t duration_ns) {
  const std::uint64_t end_ns = net_.now_ns() + duration_ns;
  for (;;) {
    decide_due();
    std::uint64_t next_ns = end_ns;
    for (const Decision& decision : decisions_) {
      next_ns = std::min(next_ns, decision.due_ns);
    }
    net_.run_for(std::max(next_ns, net_.now_ns() + 1) - net_.now_ns());
    if (net_.now_ns() >= end_ns && next_ns >= end_ns) return;
  }
}

void CmRun::finish() {
  finishing_ = true;
  while (!decisions_.empty() && error_.empty()) {
    pass(1'000'000'000);
  }
  if (!error_.empty()) return;
  if (!net_.run_to_rest(net_.now_ns() + kRestLimitNs)) return fail("it does not come to rest");
  check_ends();
  if (profile_.exact && sum("timeouts") > 0 && sum("refused_backlog") == 0) {
    fail("somebody gave up, and nothing was lost");
  }
  release_all();
}

/// At rest every request has had its outcome, and both ends think the same of their connection
/// unless one of them had to give up.
void CmRun::check_ends() {
  for (const End& end : ends_) {
    if (end.connection == nullptr) continue;
    const State state = end.connection->state();
    if (state != State::established && state != State::closed) {
      return fail(fmt::format("a connection rests in {}", to_string(state)));
    }
    if ((end.active || end.answered) && end.outcomes != 1) {
      return fail(fmt::format("{} outcomes of a request", end.outcomes));
    }
    if (end.was_established && state == State::closed && (end.ends != 1 || end.exits != 1)) {
      return fail("an established connection ended without its events");
    }
    if (end.active) continue;
    const End& active = ends_[end.number];
    if (active.connection != nullptr) {
      check_pair(active, end);
    } else if (state == State::established && sum("timeouts") == 0) {
      return fail("the peer has released a connection that still stands here");
    }
  }
  for (const End& end : ends_) {
    if (!end.active || end.connection == nullptr || end.connection->state() != State::established) {
      continue;
    }
    const bool has_peer = std::any_of(ends_.begin(), ends_.end(), [&](const End& other) {
      return !other.active && other.number == end.number && other.connection != nullptr &&
             other.connection->state() == State::established;
    });
    if (!has_peer && sum("timeouts") == 0) return fail("established at the active end only");
  }
  for (const Question& question : questions_) {
    if (question.lookup != nullptr && question.outcomes != 1) {
      return fail(fmt::format("{} answers to a question", question.outcomes));
    }
  }
}

void CmRun::check_pair(const End& active, const End& passive) {
  const bool here = active.connection->state() == State::established;
  const bool there = passive.connection->state() == State::established;
  if (there && !here && sum("timeouts") == 0) return fail("established at the passive end only");
  if (!here || !there) return;
  const roce::QpAttributes a = active.qp->query();
  const roce::QpAttributes p = passive.qp->query();
  if (a.dest_qp_num != passive.qp->number() || p.dest_qp_num != active.qp->number() ||
      a.sq_psn != p.rq_psn || p.sq_psn != a.rq_psn || a.path_mtu != p.path_mtu ||
      a.qp_state != QpState::rts || p.qp_state != QpState::rts) {
    fail("the queue pairs of a connection do not fit together");
  }
}

void CmRun::release_all() {
  for (End& end : ends_) {
    if (end.connection != nullptr) release(end);
  }
  for (Question& question : questions_) {
    if (question.lookup != nullptr) {
      net_.manager(question.node).release(*std::exchange(question.lookup, nullptr));
    }
  }
  if (!net_.run_to_rest(net_.now_ns() + kRestLimitNs)) return fail("it does not end");
  for (unsigned node = 0; node < 2; ++node) {
    if (net_.manager(node).connection_count() != 0) fail("connections are left over");
    if (net_.engine(node).qp_count() != 1) fail("queue pairs are left over");
  }
  if (net_.busy_deadlines() != 0) fail("somebody asked to be called at once and had nothing to do");
}

void CmRun::add(CmTotals& totals) {
  ++totals.runs;
  for (const End& end : ends_) {
    totals.connects += end.active ? 1 : 0;
    totals.established += end.active && end.was_established ? 1 : 0;
  }
  totals.lookups += questions_.size();
  for (const Question& question : questions_) {
    totals.answered += question.outcomes;
  }
  totals.rejects += sum("rcvd_rejects");
  totals.disconnected += sum("disconnected");
  totals.released_early += early_;
  totals.repeated += sum("repeated_messages");
  totals.duplicates += sum("duplicate_messages");
  totals.timeouts += sum("timeouts");
  for (unsigned node = 0; node < 2; ++node) {
    totals.lost += net_.network().node(node).faults().tx_counters().lost.value();
  }
}

}  // namespace

std::string run_connection_managers(std::uint64_t seed, const CmProfile& profile, PoolSet& pools,
                                    CmTotals& totals) {
  const std::uint32_t mbufs_before = pools.in_use();
  std::string error;
  {
    CmRun run(seed, profile, pools);
    error = run.run(totals);
  }
  if (error.empty() && pools.in_use() != mbufs_before) error = "mbufs are left over";
  return error;
}

}  // namespace rockhopper::sim
