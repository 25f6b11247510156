// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/home.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "apps/services/dag/graph/graph_image.h"

namespace rockhopper::dag {
namespace {

constexpr std::size_t kBoardAlignment = 64;

std::string_view characters_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ApplicationResponse refuse(stack::Counter& counter, Status status) {
  counter.add();
  return {.status = status};
}

}  // namespace

Home::Home(Store& store, std::span<std::byte> board, HomeListener& listener,
           const HomeConfig& config)
    : store_(store),
      listener_(listener),
      config_(config),
      board_(board, config.board),
      pool_(board_.pool(), config.board.pool()),
      workers_(board_),
      runs_(config.board.runs) {}

Home::~Home() = default;

Expected<std::unique_ptr<Home>> Home::create(Store& store, std::span<std::byte> board,
                                             HomeListener& listener, const HomeConfig& config) {
  const BoardLayout& layout = config.board;
  if (layout.runs == 0 || layout.runs > kBoardRunsMax) {
    return fail(ErrorCode::invalid_argument, "a home has 1 to {} runs", kBoardRunsMax);
  }
  if (layout.workers == 0 || layout.workers > kBoardWorkersMax) {
    return fail(ErrorCode::invalid_argument, "a home has 1 to {} workers", kBoardWorkersMax);
  }
  if (!std::has_single_bit(layout.pool_entries) || layout.pool_entries < kDequeEntriesMin ||
      layout.pool_entries > kDequeEntriesMax) {
    return fail(ErrorCode::invalid_argument, "a pool has {} to {} entries, a power of 2",
                kDequeEntriesMin, kDequeEntriesMax);
  }
  if (config.slice == 0) return fail(ErrorCode::invalid_argument, "a slice has 1 node or more");
  if (board.size() < layout.bytes() ||
      reinterpret_cast<std::uintptr_t>(board.data()) % kBoardAlignment != 0) {
    return fail(ErrorCode::invalid_argument, "the board needs {} bytes, aligned to {}",
                layout.bytes(), kBoardAlignment);
  }
  return std::unique_ptr<Home>(new Home(store, board, listener, config));
}

// Runs.

Run* Home::find(std::string_view name) const {
  for (const Held& held : runs_) {
    if (held.run != nullptr && !held.run->is_dropped() && held.run->name() == name) {
      return held.run.get();
    }
  }
  return nullptr;
}

/// One that was refused makes room: for another with its name, and for any when nothing is free.
ApplicationResponse Home::find_slot(std::string_view name) {
  const Run* same = find(name);
  if (same != nullptr) {
    if (same->phase() != RunPhase::refused) return {.status = Status::exists};
    return {.status = Status::ok, .value = same->slot()};
  }
  const Run* oldest = nullptr;
  for (std::uint32_t slot = 0; slot < runs_.size(); ++slot) {
    const Run* run = runs_[slot].run.get();
    if (run == nullptr) return {.status = Status::ok, .value = slot};
    if (run->phase() == RunPhase::refused && (oldest == nullptr || run->id() < oldest->id())) {
      oldest = run;
    }
  }
  if (oldest == nullptr) return {.status = Status::exhausted};
  return {.status = Status::ok, .value = oldest->slot()};
}

Run& Home::add(std::uint32_t slot, std::string_view name, std::uint32_t priority,
               const RunAttempts& attempts) {
  counters_.runs_submitted.add();
  next_turn_ns_ = 0;
  auto run = std::make_unique<Run>(Run::Site{.store = store_,
                                             .board = board_,
                                             .workers = workers_,
                                             .counters = counters_,
                                             .slice = config_.slice},
                                   Run::Init{.id = RunId{next_id_++},
                                             .slot = slot,
                                             .name = name,
                                             .priority = priority,
                                             .attempts = attempts});
  runs_[slot] = Held{};
  runs_[slot].run = std::move(run);
  return *runs_[slot].run;
}

void Home::decide(RunId run, Expected<Graph> graph) {
  next_turn_ns_ = 0;
  for (Held& held : runs_) {
    if (held.run != nullptr && held.run->id() == run) {
      held.run->decide(std::move(graph));
      return;
    }
  }
}

Expected<RunId> Home::submit(std::string_view name, Graph graph, std::uint32_t priority,
                             const RunAttempts& attempts) {
  if (!is_run_name(name)) {
    return fail(ErrorCode::invalid_argument,
                "a run's name has 1 to {} letters, digits and any of . _ -", kRunNameMax);
  }
  if (priority >= kPriorityClasses || !attempts.is_valid()) {
    return fail(ErrorCode::invalid_argument, "priorities are 0 to {}, attempts 1 to {}",
                kPriorityClasses - 1, kAttemptsMax);
  }
  const auto slot = find_slot(name);
  if (slot.status == Status::exists) {
    return fail(ErrorCode::busy, "there is a run '{}' already", name);
  }
  if (slot.status != Status::ok) {
    return fail(ErrorCode::exhausted, "there are {} runs already", runs_.size());
  }
  Run& run = add(static_cast<std::uint32_t>(slot.value), name, priority, attempts);
  run.decide(std::move(graph));
  return run.id();
}

std::vector<Home::RunStatus> Home::runs() const {
  std::vector<RunStatus> all;
  for (const Held& held : runs_) {
    if (held.run == nullptr || held.run->is_dropped()) continue;
    const Run& run = *held.run;
    all.push_back({.id = run.id(),
                   .name = run.name(),
                   .phase = run.phase(),
                   .nodes = run.nodes(),
                   .completed = run.completed(),
                   .text = run.text()});
  }
  return all;
}

// A turn.

bool Home::progress(std::uint64_t now_ns) {
  bool worked = false;
  for (Held& held : runs_) {
    if (held.run == nullptr) continue;
    if (held.submitted) hand_out(held);
    const Run& run = *held.run;
    if (run.needs_name() && name_is_resting(run.name())) continue;
    worked = held.run->progress(now_ns) || worked;
    tell(held);
    if (run.is_gone()) held = {};
  }
  worked = fill_pool() || worked;
  next_turn_ns_ = UINT64_MAX;
  for (const Held& held : runs_) {
    if (held.run == nullptr) continue;
    next_turn_ns_ = std::min(next_turn_ns_, held.run->next_deadline_ns(now_ns));
  }
  return worked;
}

void Home::hand_out(Held& held) {
  held.submitted = false;
  if (held.run->phase() != RunPhase::checking) {
    held.image = {};
    return;
  }
  listener_.on_submitted(held.run->id(), std::exchange(held.image, {}));
}

void Home::tell(Held& held) {
  const RunPhase phase = held.run->phase();
  if (phase == held.told) return;
  held.told = phase;
  listener_.on_run_changed(held.run->id(), phase);
}

/// Records of a dropped run with that name are in the store still.
bool Home::name_is_resting(std::string_view name) const {
  return std::any_of(runs_.begin(), runs_.end(), [name](const Held& held) {
    return held.run != nullptr && held.run->is_dropped() && !held.run->is_erased() &&
           held.run->name() == name;
  });
}

// The pool.

/// One node of each run in turn, as long as there is room for one of its class.
bool Home::fill_pool() {
  bool filled = false;
  bool full = false;
  std::uint32_t idle = 0;
  const auto count = static_cast<std::uint32_t>(runs_.size());
  for (std::uint32_t pushes = 0; idle < count && pushes < config_.slice;
       next_slot_ = (next_slot_ + 1) % count) {
    Run* run = runs_[next_slot_].run.get();
    const auto entry = run == nullptr ? std::nullopt : run->first_ready();
    if (!entry) {
      ++idle;
    } else if (!pool_.push(run->priority(), *entry)) {
      full = true;
      ++idle;
    } else {
      run->pop_ready();
      counters_.pool_entries.add();
      filled = true;
      idle = 0;
      ++pushes;
    }
  }
  if (full) counters_.pool_full.add();
  return filled;
}

void Home::on_worker_gone(std::optional<std::uint32_t> lost) {
  next_turn_ns_ = 0;
  for (const Held& held : runs_) {
    if (held.run != nullptr) held.run->on_worker_gone(lost);
  }
}

void Home::on_client_gone(ClientId client, std::uint64_t /*now_ns*/) {
  if (!workers_.remove(client)) return;
  counters_.workers_lost.add();
  on_worker_gone(static_cast<std::uint32_t>(client));
}

// What clients ask.

ApplicationResponse Home::on_request(ClientId client, const ApplicationRequest& request,
                                     std::uint64_t now_ns) {
  next_turn_ns_ = 0;
  switch (static_cast<HomeRequest>(request.code)) {
    case HomeRequest::submit:
      return submit(client, request);
    case HomeRequest::cancel:
      return cancel(request);
    case HomeRequest::drop:
      return drop(request, now_ns);
    case HomeRequest::join:
      return join(client, request);
    case HomeRequest::leave:
      return leave(client, request);
    case HomeRequest::node_failed:
      return node_failed(client, request);
  }
  return refuse(counters_.refused_code, Status::invalid);
}

ApplicationResponse Home::submit(ClientId client, const ApplicationRequest& request) {
  const auto wanted = parse_submit(request.data);
  if (!wanted) return refuse(counters_.refused_data, Status::invalid);
  const std::string_view name = characters_of(request.name);
  if (!is_run_name(name)) return refuse(counters_.refused_name, Status::invalid);
  const auto arena =
      store_.arena_bytes(static_cast<std::uint32_t>(client), request.value, wanted->incarnation);
  if (!arena || wanted->image_bytes > arena->size() ||
      wanted->image_bytes > image_bytes_max(config_.limits)) {
    return refuse(counters_.refused_image, Status::invalid);
  }
  const ApplicationResponse slot = find_slot(name);
  if (slot.status == Status::exists) return refuse(counters_.refused_exists, slot.status);
  if (slot.status != Status::ok) return refuse(counters_.refused_runs, slot.status);
  const auto which = static_cast<std::uint32_t>(slot.value);
  (void)add(which, name, wanted->priority, wanted->attempts);
  // The client can write to it still.
  const auto image = arena->first(wanted->image_bytes);
  runs_[which].image.assign(image.begin(), image.end());
  runs_[which].submitted = true;
  return slot;
}

Run* Home::find(const ApplicationRequest& request) {
  Run* run = find(characters_of(request.name));
  if (run == nullptr) counters_.refused_not_found.add();
  return run;
}

ApplicationResponse Home::cancel(const ApplicationRequest& request) {
  Run* run = find(request);
  if (run == nullptr) return {.status = Status::not_found};
  run->cancel();
  return {.status = Status::ok};
}

ApplicationResponse Home::drop(const ApplicationRequest& request, std::uint64_t now_ns) {
  Run* run = find(request);
  if (run == nullptr) return {.status = Status::not_found};
  if (!run->drop(now_ns)) return refuse(counters_.refused_not_ended, Status::invalid);
  // Its entries must not be there when its slot is another run's. Before the slot rests, so that
  // who has taken one sees that the run is gone.
  pool_.remove_run(static_cast<std::uint8_t>(run->slot()));
  return {.status = Status::ok};
}

ApplicationResponse Home::join(ClientId client, const ApplicationRequest& request) {
  const auto wanted = parse_join(request.data);
  if (!wanted) return refuse(counters_.refused_data, Status::invalid);
  const ApplicationResponse joined = workers_.join(client, *wanted);
  if (joined.status == Status::exists) return refuse(counters_.refused_joined, joined.status);
  if (joined.status != Status::ok) return refuse(counters_.refused_workers, joined.status);
  counters_.joins.add();
  return joined;
}

ApplicationResponse Home::leave(ClientId client, const ApplicationRequest& request) {
  if (!request.name.empty() || !request.data.empty()) {
    return refuse(counters_.refused_data, Status::invalid);
  }
  if (!workers_.leave(client)) return refuse(counters_.refused_not_joined, Status::not_found);
  counters_.leaves.add();
  on_worker_gone(std::nullopt);
  return {.status = Status::ok};
}

ApplicationResponse Home::node_failed(ClientId client, const ApplicationRequest& request) {
  Run* run = find(request);
  if (run == nullptr) return {.status = Status::not_found};
  const Status status = run->on_node_failed(
      static_cast<std::uint32_t>(client), static_cast<NodeIndex>(request.value >> 32),
      static_cast<std::uint32_t>(request.value), characters_of(request.data));
  if (status != Status::ok) return refuse(counters_.refused_failure, status);
  return {.status = Status::ok};
}

}  // namespace rockhopper::dag
