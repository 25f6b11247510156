// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/worker.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "apps/services/dag/schedule/attempt_table.h"
#include "apps/services/dag/schedule/workplace.h"

namespace rockhopper::dag {
namespace {

constexpr std::size_t kNameMax = 31;
constexpr std::uint16_t kWindowMax = 1024;
constexpr std::size_t kBoardHeadBytes = 128;

Expected<void> check(const Worker::Init& init, const WorkerConfig& config) {
  const bool printable = std::all_of(config.name.begin(), config.name.end(),
                                     [](char c) { return c > ' ' && c <= '~'; });
  if (config.name.empty() || config.name.size() > kNameMax || !printable) {
    return fail(ErrorCode::invalid_argument, "a worker's name has 1 to {} printable characters",
                kNameMax);
  }
  if (config.window == 0 || config.window > kWindowMax) {
    return fail(ErrorCode::invalid_argument, "a worker has 1 to {} nodes at a time", kWindowMax);
  }
  if (!std::has_single_bit(config.deque_entries) || config.deque_entries < kDequeEntriesMin ||
      config.deque_entries > kDequeEntriesMax) {
    return fail(ErrorCode::invalid_argument, "a deque has {} to {} entries, a power of 2",
                kDequeEntriesMin, kDequeEntriesMax);
  }
  if (config.dcis == 0 || config.steal_max == 0 || config.pool_max == 0 ||
      config.idle_min_ns == 0 || config.idle_max_ns < config.idle_min_ns || config.board_ns == 0) {
    return fail(ErrorCode::invalid_argument, "a worker's limits and times are above 0");
  }
  if (init.home >= init.client.servers()) {
    return fail(ErrorCode::invalid_argument, "the home is no server of the client's: {} of {}",
                init.home, init.client.servers());
  }
  if (init.grant.client == 0 || init.grant.application_bytes < kBoardHeadBytes) {
    return fail(ErrorCode::invalid_argument, "the home's server has no board");
  }
  return {};
}

}  // namespace

Worker::Worker(const Init& init, const WorkerConfig& config)
    : init_(init),
      config_(config),
      pd_(init.engine),
      board_memory_(init.engine, pd_.get()),
      pool_memory_(init.engine, pd_.get()),
      deque_memory_(init.engine, pd_.get()),
      unread_(init.engine, pd_.get()),
      lease_(init.client.lease(init.home)) {}

Worker::~Worker() = default;

Expected<std::unique_ptr<Worker>> Worker::create(const Init& init, const WorkerConfig& config) {
  ROCKHOPPER_TRY(check(init, config));
  std::unique_ptr<Worker> worker(new Worker(init, config));
  ROCKHOPPER_TRY(worker->set_up());
  return worker;
}

Expected<void> Worker::set_up() {
  const ClientConfig& timing = init_.client.config();
  const DequeLayout deques{.capacity = config_.deque_entries};
  constexpr std::uint32_t kRights = roce::kAccessRemoteRead | roce::kAccessRemoteAtomic;
  ROCKHOPPER_TRY(home_, HomeLink::create(init_.engine, init_.endpoint, pd_.get(), init_.home_av,
                                         init_.grant, timing));
  ROCKHOPPER_TRY(board_memory_.reserve(kBoardHeadBytes));
  ROCKHOPPER_TRY(unread_.reserve(sizeof(std::uint64_t)));
  // Nothing else of this worker can others reach.
  ROCKHOPPER_TRY(deque_memory_.expose(deques.bytes(), roce::kAccessLocalWrite | kRights));
  ROCKHOPPER_TRY(receives_, roce::ReceiveBuffers::create(init_.engine, pd_.get(), 1, 64));
  ROCKHOPPER_TRY(dct_,
                 dc::own(init_.endpoint, init_.endpoint.create_dct({.pd = pd_.get(),
                                                                    .srq = receives_->srq(),
                                                                    .recv_cq = receives_->cq(),
                                                                    .access_flags = kRights,
                                                                    .path_mtu = timing.path_mtu})));

  board_ = std::make_unique<BoardView>(*home_, init_.grant, roce::bytes(timing.path_mtu), counters_,
                                       wr_id_of(WrKind::board, 0), board_memory_);
  pool_ = std::make_unique<PoolTaker>(*home_, init_.grant, wr_id_of(WrKind::pool, 0),
                                      config_.pool_max, pool_memory_, counters_);
  ROCKHOPPER_TRY(pool_->set_up());
  ROCKHOPPER_TRY(thief_, Thief::create(init_.engine, init_.endpoint, pd_.get(), timing,
                                       config_.dcis, config_.seed, *this, counters_));
  at_.reset(new Workplace{.init = init_,
                          .pd = pd_.get(),
                          .counters = counters_,
                          .home = *home_,
                          .board = *board_,
                          .thief = *thief_,
                          .affinity = Affinity(config_.labels, init_.grant.client),
                          .runs = WorkerRuns(init_.grant.records_bytes),
                          .ready = ReadyNodes(deque_memory_.bytes(), deques, counters_),
                          .arenas = Arenas(init_.client, config_.arena_bytes, counters_),
                          .queue = ExecutorQueue(config_.window),
                          .search = SearchPace(config_.idle_min_ns, config_.idle_max_ns)});
  attempts_ = std::make_unique<AttemptTable>(*at_);
  return {};
}

// Taking part.

/// Asks the home, as server of the record store; there is no connection to it any more if that
/// cannot begin.
Started Worker::ask(HomeRequest request, AskKind kind, std::span<const std::byte> data) {
  const Started started = init_.client.ask(init_.home, static_cast<std::uint8_t>(request), {}, data,
                                           0, at_->context(kind));
  if (started != Started::yes && started != Started::no_room) {
    at_->membership.lose(Status::unreachable);
  }
  return started;
}

void Worker::join() {
  JoinRequest request{.target = dct_->number().value,
                      .access_key = dct_->access_key(),
                      .deque_key = static_cast<std::uint32_t>(deque_memory_.key()),
                      .deque_capacity = config_.deque_entries,
                      .path_mtu = roce::bytes(init_.client.config().path_mtu),
                      .name = config_.name};
  const auto& gid = init_.home_av.source.bytes;
  std::transform(gid.begin(), gid.end(), request.gid.begin(),
                 [](std::uint8_t byte) { return std::byte{byte}; });
  if (ask(HomeRequest::join, AskKind::join, emit(request)) == Started::yes) {
    at_->membership.on_asked_to_join();
  }
}

void Worker::drain() { at_->membership.drain(); }

bool Worker::idle() const {
  if (at_->membership.is_over()) return !attempts_->has_job();
  return at_->window.in_hand() == 0 && !at_->membership.awaits_answer() && at_->arenas.quiet() &&
         home_->quiet() && thief_->quiet() && !at_->runs.has_released();
}

void Worker::leave() {
  if (!at_->membership.leave()) return;
  attempts_->for_each([](NodeAttempt& attempt) {
    if (attempt.has_job()) attempt.abandon();
  });
}

/// When nothing of this worker can be executed any more, so that nobody is disturbed.
void Worker::ask_to_leave() {
  if (!at_->membership.is_to_ask_to_leave() || !at_->arenas.quiet() || attempts_->is_under_way() ||
      !home_->quiet()) {
    return;
  }
  if (ask(HomeRequest::leave, AskKind::leave, {}) == Started::yes) {
    at_->membership.on_asked_to_leave();
  }
}

/// What it had does not count any more: the home puts it back, once it has fenced the client.
void Worker::tell_loss() {
  attempts_->for_each([](NodeAttempt& attempt) {
    if (attempt.has_job()) attempt.abandon();
  });
  init_.listener.on_lost(*at_->membership.take_reason());
}

void Worker::on_server_lost(std::uint16_t server) {
  if (server == init_.home) return at_->membership.lose(Status::unreachable);
  at_->arenas.on_server_lost(server);
}

// What the home's link and the record store answer.

void Worker::on_result(const Result& result) {
  const AskContext context = AskContext::from(result.context);
  if (context.worker != (at_->me() & 0xff)) return counters_.unexpected.add();
  at_->moved = true;
  switch (context.kind) {
    case AskKind::join:
      at_->membership.on_joined();
      if (result.status != Status::ok) at_->membership.lose(result.status);
      return;
    case AskKind::leave:
      return at_->membership.on_left();
    case AskKind::arena:
      if (!at_->arenas.on_result(context.which, context.number, result)) counters_.unexpected.add();
      return;
    case AskKind::input:
    case AskKind::output:
    case AskKind::failure:
      break;
    default:
      return counters_.unexpected.add();
  }
  NodeAttempt* attempt = attempts_->find(context.which);
  if (attempt != nullptr && attempt->on_result(context.kind, context.number, result)) return;
  if (!at_->membership.is_lost()) counters_.unexpected.add();
}

void Worker::poll_home() {
  std::array<roce::Completion, 16> completions;
  for (;;) {
    const std::size_t count = home_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      // An atomic whose outcome is not known cannot be repeated.
      if (completions[i].status != roce::WcStatus::success) {
        at_->membership.lose(completions[i].status == roce::WcStatus::outcome_unknown
                                 ? Status::outcome_unknown
                                 : Status::unreachable);
      }
      if (at_->membership.is_lost()) return;
      on_completion(completions[i].wr_id);
    }
    if (count > 0) at_->moved = true;
    if (count < completions.size()) return;
  }
}

void Worker::on_completion(std::uint64_t wr_id) {
  const std::uint64_t which = wr_id & 0xffffffff;
  switch (static_cast<WrKind>(wr_id >> 56)) {
    case WrKind::attempt:
      return attempts_->find(which)->on_completion();
    case WrKind::board: {
      const auto seen = board_->on_completion(init_.client.lease(init_.home).renewals());
      if (!at_->membership.has_stopped()) on_board(seen);
      return;
    }
    case WrKind::pool:
      at_->search.on_found(at_->now_ns);
      return pool_->on_completion(at_->ready);
    case WrKind::completed:
      return at_->runs.on_added(static_cast<std::uint8_t>(which));
  }
}

// The board.

void Worker::look(bool runs) {
  if (at_->membership.has_stopped() ||
      !board_->look(init_.client.lease(init_.home).renewals(), runs)) {
    return;
  }
  // At least once for each renewal of the lease, which the view holds up otherwise.
  next_look_ns_ = at_->now_ns + std::min(config_.board_ns, init_.grant.lease_ns / 16);
}

void Worker::on_board(BoardView::Seen seen) {
  switch (seen) {
    case BoardView::Seen::nothing:
      return;
    case BoardView::Seen::bad:
      return at_->membership.lose(Status::damaged);
    case BoardView::Seen::changed:
      follow_runs();
      thief_->set_victims(board_->workers(), at_->me(), init_.home_av);
      at_->ready.reconsider();
      at_->moved = true;
      break;
    case BoardView::Seen::same:
      break;
  }
  const auto proved = board_->proved();
  if (!proved) return look(false);
  // Claims that are under way when the next look begins are executed before it, as all is one
  // stream.
  lease_.hold(*proved);
  if (is_hungry()) pool_->take(board_->pool(), board_->layout());
}

void Worker::follow_runs() {
  for (const WorkerRuns::Change& change : at_->runs.follow(board_->runs())) {
    if (change.has_ended) at_->ready.remove_run(change.slot);
    if (change.is_another) {
      at_->arenas.on_another_run(change.slot, RunId{at_->runs.at(change.slot).id},
                                 init_.outputs.servers());
    }
  }
  at_->queue.remove_if(
      [this](std::uint32_t which) { return !attempts_->find(which)->is_wanted(); });
  attempts_->for_each([](NodeAttempt& attempt) { attempt.on_runs_changed(); });
}

/// Behind the WRITEs of the states: who sees that all are counted finds all released (DG-40).
void Worker::add_completed() {
  for (std::uint32_t slot = 0; slot < at_->runs.size() && home_->room() > 0; ++slot) {
    const std::uint64_t count = at_->runs.take_released(static_cast<std::uint8_t>(slot));
    if (count == 0) continue;
    home_->fetch_add(wr_id_of(WrKind::completed, slot), init_.grant.application_key,
                     board_->layout().run_offset(slot) + kRunCompletedOffset, count, unread_,
                     unread_.data(), true);
  }
}

// Looking for work, and taking it.

bool Worker::can_take() const {
  return at_->membership.takes_nodes() && lease_.holds() && at_->window.active() < config_.window &&
         home_->room() > Workplace::kLinkReserve;
}

/// So many ahead of the executor as it takes to keep it busy: what is claimed, others cannot run.
bool Worker::can_claim() const { return can_take() && at_->window.ahead() < at_->wanted_ahead(); }

bool Worker::is_hungry() { return can_claim() && at_->ready.is_exhausted(); }

void Worker::seek() {
  if (!at_->search.is_due(at_->now_ns) || !is_hungry()) return;
  if (!board_->looking()) {
    counters_.pool_looks.add();
    look(false);
  }
  if (config_.steals && thief_->start(at_->now_ns)) at_->moved = true;
  at_->search.on_look(thief_->victim_count(), at_->now_ns);
}

/// Returns false if it is no node of a run that goes on, or there is no memory for it.
bool Worker::begin(const DequeEntry& entry, unsigned priority, std::optional<unsigned> theft,
                   unsigned number) {
  const BoardView::Run* run = at_->runs.find(entry);
  if (run == nullptr) return false;
  NodeAttempt* attempt = attempts_->find_free();
  if (attempt == nullptr) return false;
  // What is stolen beyond what can be run soon goes into the own deques once it is claimed.
  const bool is_ahead = !theft || at_->window.ahead() < at_->wanted_ahead();
  attempt->begin(
      {.entry = entry, .priority = priority, .run = run->id, .theft = theft, .number = number},
      is_ahead ? Window::Place::ahead : Window::Place::inside);
  return true;
}

void Worker::claim_ready() {
  while (can_claim()) {
    const auto ready = at_->ready.pop();
    if (!ready) return;
    counters_.popped.add();
    at_->moved = true;
    if (at_->runs.find(ready->entry) == nullptr ||
        !at_->affinity.may_fit(ready->entry.label, board_->workers())) {
      put_aside(*ready);
    } else if (!begin(ready->entry, ready->priority, {}, 0)) {
      return at_->ready.push(*ready);
    }
  }
}

/// An entry that is not for this worker, at least not now.
void Worker::put_aside(const ReadyNodes::Ready& ready) {
  const bool is_known = at_->runs.find(ready.entry) != nullptr;
  if (!is_known && at_->runs.has_ended(ready.entry)) return counters_.entries_dropped.add();
  at_->ready.set_aside(ready);
  if (!is_known) look(false);  // the board will tell
}

void Worker::on_entries(unsigned attempt, unsigned priority, std::span<const DequeEntry> entries,
                        std::uint64_t takeable) {
  std::uint64_t begun = 0;
  const std::uint64_t most = std::min<std::uint64_t>(takeable, config_.steal_max);
  for (unsigned i = 0; i < entries.size() && begun < most && can_take(); ++i) {
    if (!at_->affinity.may_fit(entries[i].label, board_->workers())) continue;
    thief_->on_claim(attempt);
    if (begin(entries[i], priority, attempt, i)) {
      ++begun;
    } else {
      (void)thief_->decide(attempt, i, Fate::left);
    }
  }
  if (thief_->on_all_claimed(attempt)) at_->search.on_found(at_->now_ns);
}

// The executor's side.

void Worker::start_prepared() {
  while (!at_->queue.empty() && !at_->membership.has_stopped() && init_.executor.room() > 0) {
    attempts_->find(at_->queue.start(at_->now_ns))->start();
    at_->moved = true;
  }
}

/// What it has claimed and will not need for long, others can have.
void Worker::take_back_surplus() {
  if (at_->queue.empty()) return;
  const std::size_t kept = at_->queue.kept(init_.executor.room(), at_->now_ns);
  while (!at_->queue.empty() && at_->window.ahead() > kept &&
         home_->room() > Workplace::kLinkReserve) {
    counters_.given_back.add();
    attempts_->find(at_->queue.take_back())->give_back();
  }
}

void Worker::complete(std::uint64_t ticket, Expected<std::span<const std::byte>> output,
                      std::uint64_t start_ns, std::uint64_t end_ns) {
  NodeAttempt* attempt = attempts_->find_job(ticket);
  if (attempt == nullptr) return counters_.unexpected.add();
  at_->moved = true;
  at_->queue.on_job_ended(end_ns > start_ns ? end_ns - start_ns : 0, at_->now_ns);
  attempt->complete(std::move(output), start_ns, end_ns);
}

// A turn.

bool Worker::progress(std::uint64_t now_ns) {
  Membership& membership = at_->membership;
  at_->now_ns = now_ns;
  if (membership.is_lost()) {
    if (!membership.has_to_tell()) return false;
    tell_loss();
    return true;
  }
  at_->moved = false;
  poll_home();
  if (membership.has_stopped()) {
    ask_to_leave();
    return at_->moved || membership.is_lost();
  }
  if (membership.state() == Membership::State::outside) join();
  if (thief_->progress(now_ns)) at_->moved = true;
  if (now_ns >= next_look_ns_) look(true);
  if (board_->proved()) {
    if (attempts_->wake()) at_->moved = true;
    if (attempts_->retry()) at_->moved = true;
    at_->ready.refill();
    start_prepared();
    take_back_surplus();
    claim_ready();
    seek();
    seeks_ = is_hungry();
    add_completed();
  }
  return at_->moved || membership.is_lost();
}

std::uint64_t Worker::next_deadline_ns() const {
  const Membership& membership = at_->membership;
  if (membership.is_lost()) return membership.has_to_tell() ? at_->now_ns : UINT64_MAX;
  if (membership.has_stopped()) return UINT64_MAX;
  return std::min({next_look_ns_, attempts_->next_wake_ns(), at_->queue.next_ns(),
                   seeks_ ? at_->search.next_ns() : UINT64_MAX});
}

// What it tells.

std::vector<Worker::RunView> Worker::runs() const {
  std::vector<RunView> views;
  for (const BoardView::Run& run : board_->runs()) {
    if (run.phase == RunPhase::none) continue;
    views.push_back({.id = run.id,
                     .name = run.name,
                     .phase = run.phase,
                     .nodes = run.nodes,
                     .completed = run.completed});
  }
  return views;
}

}  // namespace rockhopper::dag
