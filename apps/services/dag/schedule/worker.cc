// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a worker is made of, results, the executor's side, and a turn.
#include "apps/services/dag/schedule/worker.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <tuple>

#include "apps/services/dag/schedule/home_link.h"
#include "apps/services/dag/schedule/worker_state.h"

namespace rockhopper::dag {
namespace {

constexpr std::size_t kNameMax = 31;
constexpr std::uint16_t kWindowMax = 1024;
constexpr std::size_t kBoardHeadBytes = 128;
constexpr std::size_t kPoolMemoryBytes = 2048;
/// Nodes ahead of an executor that is as fast as nodes are prepared.
constexpr std::size_t kAheadMin = 2;
/// So many times as long as a node is prepared, one may wait.
constexpr std::uint64_t kPreparationsToWait = 64;
constexpr std::uint64_t kPrepareMinNs = 1'000;

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
  if (!std::has_single_bit(config.deque_entries) || config.deque_entries < 16 ||
      config.deque_entries > 65536) {
    return fail(ErrorCode::invalid_argument, "a deque has 16 to 65536 entries, a power of 2");
  }
  if (config.dcis == 0 || config.steal_max == 0 || config.pool_max == 0 ||
      config.idle_min_ns == 0 || config.idle_max_ns < config.idle_min_ns || config.board_ns == 0) {
    return fail(ErrorCode::invalid_argument, "a worker's limits and times are above 0");
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
      client_(init.client),
      me_(init.grant.client),
      pd_(init.engine.allocate_pd()),
      idle_ns_(config.idle_min_ns) {}

Expected<std::unique_ptr<Worker>> Worker::create(const Init& init, const WorkerConfig& config) {
  ROCKHOPPER_TRY(check(init, config));
  std::unique_ptr<Worker> worker(new Worker(init, config));
  ROCKHOPPER_TRY(worker->set_up());
  return worker;
}

Expected<void> Worker::set_up() {
  const ClientConfig& timing = client_.config();
  ROCKHOPPER_TRY(home_, HomeLink::create(init_.engine, init_.endpoint, pd_, init_.home_av,
                                         init_.grant, timing));

  board_memory_ = std::make_unique<LocalMemory>(init_.engine, pd_);
  pool_memory_ = std::make_unique<LocalMemory>(init_.engine, pd_);
  deque_memory_ = std::make_unique<LocalMemory>(init_.engine, pd_);
  ROCKHOPPER_TRY(board_memory_->reserve(kBoardHeadBytes));
  ROCKHOPPER_TRY(pool_memory_->reserve(kPoolMemoryBytes));
  const DequeLayout layout{.capacity = config_.deque_entries};
  // Nothing else of this worker can others reach.
  ROCKHOPPER_TRY(deque_memory_->expose(layout.bytes(), roce::kAccessLocalWrite |
                                                           roce::kAccessRemoteRead |
                                                           roce::kAccessRemoteAtomic));
  deques_.emplace(deque_memory_->bytes(), layout);
  ROCKHOPPER_TRY(receives_, roce::ReceiveBuffers::create(init_.engine, pd_, 1, 64));
  ROCKHOPPER_TRY(dct_, init_.endpoint.create_dct(
                           {.pd = pd_,
                            .srq = receives_->srq(),
                            .recv_cq = receives_->cq(),
                            .access_flags = roce::kAccessRemoteRead | roce::kAccessRemoteAtomic,
                            .path_mtu = timing.path_mtu}));

  board_ = std::make_unique<BoardView>(*home_, init_.grant, roce::bytes(timing.path_mtu), counters_,
                                       wr_id_of(WrKind::board, 0), *board_memory_);
  ROCKHOPPER_TRY(thief_, Thief::create(init_.engine, init_.endpoint, pd_, timing, config_.dcis,
                                       config_.seed, *this, counters_));
  thefts_.resize(config_.dcis);
  return {};
}

Worker::~Worker() {
  if (held_) client_.unhold(init_.home, *held_);
  if (dct_ != nullptr) init_.endpoint.destroy_dct(dct_);
  thief_.reset();
  board_.reset();
  home_.reset();
  receives_.reset();
  slots_.clear();
  deque_memory_.reset();
  pool_memory_.reset();
  board_memory_.reset();
  static_cast<void>(init_.engine.deallocate_pd(pd_));
}

// The client's operations.

std::uint64_t Worker::context(AskKind kind, std::uint32_t which, std::uint32_t number) const {
  return AskContext{.worker = me_, .kind = kind, .which = which, .number = number}.bits();
}

void Worker::on_result(const Result& result) {
  const auto [worker, kind, which, number] = AskContext::from(result.context);
  if (worker != (me_ & 0xff)) return counters_.unexpected.add();
  moved_ = true;
  switch (kind) {
    case AskKind::join:
      --asked_;
      if (result.status != Status::ok) return lose(result.status);
      joined_ = true;
      return;
    case AskKind::leave:
      --asked_;
      left_ = true;
      return;
    case AskKind::arena:
      --asked_;
      return on_arena(which, number, result);
    case AskKind::input:
    case AskKind::output:
    case AskKind::failure:
      break;
    default:
      return counters_.unexpected.add();
  }
  if (which >= slots_.size() || slots_[which]->outstanding == 0) {
    if (!lost_) counters_.unexpected.add();
    return;
  }
  Slot& slot = *slots_[which];
  --slot.outstanding;
  if (stopped()) return;
  switch (kind) {
    case AskKind::input:
      if (result.status != Status::ok) {
        slot.input_status = result.status;
      } else if (number < slot.inputs.size()) {
        slot.inputs[number].assign(result.data.begin(), result.data.end());
      }
      if (slot.outstanding == 0) step(slot);
      return;
    case AskKind::output:
      return on_stored(slot, result);
    default:
      // Not done, and never will be: once more. Whatever else it says, the home has decided.
      if (result.status == Status::timed_out) return enter(slot, Stage::failing);
      report(slot, false);
      return free_slot(slot);
  }
}

// The home's link.

void Worker::poll_home() {
  std::array<roce::Completion, 16> completions;
  for (;;) {
    const std::size_t count = home_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      // An atomic whose outcome is not known cannot be repeated.
      if (completions[i].status != roce::WcStatus::success) {
        lose(completions[i].status == roce::WcStatus::outcome_unknown ? Status::outcome_unknown
                                                                      : Status::unreachable);
      }
      if (lost_) return;
      on_completion(completions[i].wr_id);
    }
    if (count > 0) moved_ = true;
    if (count < completions.size()) return;
  }
}

void Worker::on_completion(std::uint64_t wr_id) {
  const std::uint64_t which = wr_id & 0xffffffff;
  switch (static_cast<WrKind>(wr_id >> 56)) {
    case WrKind::slot: {
      Slot& slot = *slots_[which];
      assert(slot.outstanding > 0);
      if (--slot.outstanding == 0) step(slot);
      return;
    }
    case WrKind::board: {
      const auto seen = board_->on_completion(wr_id, client_.renewals(init_.home));
      if (!stopped()) on_board(seen);
      return;
    }
    case WrKind::pool:
      return on_pool();
    case WrKind::completed:
      runs_[which].adding = false;
      return;
  }
}

bool Worker::retry_slots() {
  if (retry_.empty()) return false;
  retrying_.swap(retry_);
  bool worked = false;
  for (const std::uint32_t index : retrying_) {
    Slot& slot = *slots_[index];
    slot.queued = false;
    if (slot.stage == Stage::free) continue;
    const auto state = [&slot] {
      return std::tuple(slot.stage, slot.generation, slot.posted, slot.outstanding);
    };
    const auto before = state();
    step(slot);
    worked = worked || state() != before;
  }
  retrying_.clear();
  return worked;
}

// The executor.

/// So long a prepared node may wait for the executor.
std::uint64_t Worker::patience_ns() const {
  return kPreparationsToWait * std::max(prepare_ns_, kPrepareMinNs);
}

/// Nodes on their way to the executor: as many as it has room for, and what it ends while one is
/// prepared. No more than it has room for if its jobs take much longer than that.
std::size_t Worker::wanted_ahead() const {
  const std::size_t room = init_.executor.room();
  const std::uint64_t waits_ns = room == 0 ? now_ns_ - executor_ns_ : 0;
  std::uint64_t more = 0;
  if (std::max(run_ns_, waits_ns) <= patience_ns()) {
    const std::uint64_t together = std::max<std::uint64_t>(jobs_, 1);
    more = kAheadMin + 3 * together * prepare_ns_ / (2 * std::max<std::uint64_t>(run_ns_, 1));
  }
  return std::min<std::uint64_t>(room + more, config_.window);
}

bool Worker::start_prepared() {
  bool worked = false;
  while (!prepared_.empty() && !stopped() && init_.executor.room() > 0) {
    std::pop_heap(prepared_.begin(), prepared_.end());
    Slot& slot = *slots_[prepared_.back().slot];
    prepared_.pop_back();
    if (slot.ahead) --ahead_;
    slot.ahead = false;
    slot.job = true;
    slot.stage = Stage::running;
    slot.end_ns = 0;
    ++jobs_;
    executor_ns_ = now_ns_;
    init_.executor.start({.ticket = slot.ticket(),
                          .key = slot.key,
                          .tasks = slot.view.tasks,
                          .inputs = slot.task_inputs});
    worked = true;
  }
  return worked;
}

/// What it has claimed and will not need for long, others can have.
void Worker::take_back_surplus() {
  if (prepared_.empty()) return;
  const std::size_t wanted = wanted_ahead();
  const std::size_t kept = wanted > 0 ? wanted + kAheadMin : 0;
  while (!prepared_.empty() && ahead_ > kept && home_->room() > kLinkReserve) {
    Slot& slot = *slots_[prepared_.back().slot];
    prepared_.pop_back();
    counters_.given_back.add();
    give_back(slot);
  }
}

void Worker::complete(std::uint64_t ticket, Expected<std::span<const std::byte>> output,
                      std::uint64_t start_ns, std::uint64_t end_ns) {
  const std::uint64_t index = ticket & 0xffffffff;
  if (index >= slots_.size() || slots_[index]->generation != ticket >> 32 || !slots_[index]->job) {
    return counters_.unexpected.add();
  }
  Slot& slot = *slots_[index];
  slot.job = false;
  --jobs_;
  moved_ = true;
  executor_ns_ = now_ns_;
  const std::uint64_t took_ns = end_ns > start_ns ? end_ns - start_ns : 0;
  run_ns_ = run_ns_ == 0 ? took_ns : (3 * run_ns_ + took_ns) / 4;
  slot.start_ns = start_ns;
  slot.end_ns = end_ns;
  slot.finished_ns = 0;  // known in the next turn
  if (slot.stage == Stage::abandoned) {
    if (!lost_) free_slot(slot);
    return;
  }
  // A canceled one is on its way back.
  if (slot.stage != Stage::running) return;
  if (output) {
    slot.output.assign(output->begin(), output->end());
  } else {
    slot.failure = output.error().message.empty() ? "failed" : output.error().message;
  }
  slot.stage = Stage::storing;
  slot.posted = 0;
  later(slot);
}

// A turn.

bool Worker::progress(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (lost_) {
    if (lost_told_) return false;
    lost_told_ = true;
    init_.listener.on_lost(lost_why_);
    return true;
  }
  moved_ = false;
  poll_home();
  if (leaving_) {
    if (!lost_) ask_to_leave();
    return moved_;
  }
  if (!joining_) join();
  if (thief_->progress(now_ns)) moved_ = true;
  if (now_ns >= next_look_ns_) look(true);
  if (board_->proved()) {
    if (wake_delayed()) moved_ = true;
    if (retry_slots()) moved_ = true;
    refill_deques();
    if (start_prepared()) moved_ = true;
    take_back_surplus();
    if (claim_ready()) moved_ = true;
    seek();
    seeking_ = hungry();
    add_completed();
  }
  return moved_;
}

std::uint64_t Worker::next_deadline_ns() const {
  if (lost_) return lost_told_ ? UINT64_MAX : now_ns_;
  if (leaving_) return UINT64_MAX;
  std::uint64_t next_ns = next_look_ns_;
  if (!delayed_.empty()) next_ns = std::min(next_ns, delayed_.front().due_ns);
  if (seeking_) next_ns = std::min(next_ns, next_seek_ns_);
  if (!prepared_.empty()) next_ns = std::min(next_ns, executor_ns_ + patience_ns() + 1);
  return next_ns;
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

std::size_t Worker::peer_count() const { return thief_->victim_count(); }

void Worker::visit_counters(void (*visit)(void*, const char*, std::uint64_t), void* context) const {
#define X(name, text) visit(context, #name, counters_.name.value());
  ROCKHOPPER_DAG_WORKER_COUNTERS(X)
#undef X
}

void Worker::describe_counters(void (*visit)(void*, const char*, const char*), void* context) {
#define X(name, text) visit(context, #name, text);
  ROCKHOPPER_DAG_WORKER_COUNTERS(X)
#undef X
}

}  // namespace rockhopper::dag
