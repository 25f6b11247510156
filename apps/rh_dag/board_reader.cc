// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/board_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::uint32_t kRunsMax = 256;
constexpr std::uint32_t kWorkersMax = 4096;
constexpr std::uint32_t kPoolMin = 16;
constexpr std::uint32_t kPoolMax = 65536;
constexpr std::size_t kSlotsMax =
    kRunsMax * sizeof(dag::RunSlot) + kWorkersMax * sizeof(dag::WorkerSlot);
/// READs of a board in which some slot has changed each time.
constexpr unsigned kTriesMax = 10'000;

template <typename Slot>
std::vector<Slot> slots_of(const std::byte* bytes, std::size_t count) {
  std::vector<Slot> slots(count);
  std::memcpy(slots.data(), bytes, count * sizeof(Slot));
  return slots;
}

/// No slot was being changed at the first look, nor has been since.
template <typename Slot>
bool is_same(const std::vector<Slot>& before, const std::vector<Slot>& now) {
  return std::equal(
      before.begin(), before.end(), now.begin(), now.end(),
      [](const Slot& a, const Slot& b) { return a.sequence == b.sequence && a.sequence % 2 == 0; });
}

}  // namespace

const dag::RunSlot* find_run(const Board& board, std::string_view name) {
  const auto found = std::find_if(board.runs.begin(), board.runs.end(),
                                  [&](const auto& run) { return dag::text_of(run.name) == name; });
  return found == board.runs.end() ? nullptr : &*found;
}

bool has_ended(dag::RunPhase phase) {
  return phase == dag::RunPhase::complete || phase == dag::RunPhase::failed ||
         phase == dag::RunPhase::canceled || phase == dag::RunPhase::refused;
}

Expected<std::unique_ptr<BoardReader>> BoardReader::create(Connection& connection,
                                                           std::uint16_t server) {
  if (connection.grant(server).application_bytes < sizeof(dag::BoardHead)) {
    return fail(ErrorCode::unsupported, "server {} keeps no runs; see --home", server);
  }
  std::unique_ptr<BoardReader> reader(new BoardReader(connection, server));
  ROCKHOPPER_TRY(reader->set_up());
  ROCKHOPPER_TRY(reader->read_layout());
  return reader;
}

Expected<void> BoardReader::set_up() {
  roce::Engine& engine = connection_.engine();
  const dag::Grant& grant = connection_.grant(server_);
  pd_ = engine.allocate_pd();
  ROCKHOPPER_TRY(cq_, roce::CompletionQueue::create(1));
  ROCKHOPPER_TRY(
      pool_,
      dc::DciPool::create(
          *connection_.dc(),
          {.pd = pd_, .send_cq = cq_.get(), .max_send_wr = 1, .path_mtu = connection_.path_mtu()},
          {.dcis = 1}, [](dc::PoolTarget&) {}));
  ROCKHOPPER_TRY(ah_, engine.create_ah(pd_, connection_.path(server_)));
  target_.emplace(*ah_, grant.target, grant.access_key);
  memory_.resize(std::max<std::size_t>(kSlotsMax, sizeof(dag::BoardHead)));
  ROCKHOPPER_TRY(auto region, engine.register_memory(pd_, memory_.data(), memory_.size(),
                                                     roce::kAccessLocalWrite));
  key_ = region.key;
  return {};
}

BoardReader::~BoardReader() {
  roce::Engine& engine = connection_.engine();
  target_.reset();
  pool_.reset();
  if (ah_ != nullptr) engine.destroy_ah(ah_);
  if (key_ != roce::MemoryKey{}) (void)engine.deregister_memory(key_);
  (void)engine.deallocate_pd(pd_);
}

Expected<void> BoardReader::read(std::uint64_t offset, std::uint64_t bytes) {
  const roce::Sge sge{reinterpret_cast<std::uintptr_t>(memory_.data()),
                      static_cast<std::uint32_t>(bytes), key_};
  const auto posted =
      pool_->post_send(*target_, {.sg_list = {&sge, 1},
                                  .opcode = roce::WrOpcode::rdma_read,
                                  .send_flags = roce::kSendSignaled,
                                  .remote_addr = offset,
                                  .rkey = connection_.grant(server_).application_key});
  if (posted != roce::PostResult::ok) {
    return fail(ErrorCode::busy, "the board of server {} cannot be read now", server_);
  }
  std::array<roce::Completion, 1> completions;
  ROCKHOPPER_TRY(connection_.turn_until([&] { return cq_->poll(completions) > 0; }));
  pool_->progress();
  if (completions[0].status == roce::WcStatus::success) return {};
  return fail(ErrorCode::io, "the board of server {} cannot be read: it has gone, or fenced us",
              server_);
}

Expected<void> BoardReader::read_layout() {
  ROCKHOPPER_TRY(read(0, sizeof(dag::BoardHead)));
  dag::BoardHead head;
  std::memcpy(&head, memory_.data(), sizeof head);
  layout_ = {.runs = head.runs, .workers = head.workers, .pool_entries = head.pool_entries};
  const bool good = head.magic == dag::kBoardMagic && head.version == dag::kBoardVersion &&
                    head.runs >= 1 && head.runs <= kRunsMax && head.workers >= 1 &&
                    head.workers <= kWorkersMax && head.pool_entries >= kPoolMin &&
                    head.pool_entries <= kPoolMax && std::has_single_bit(head.pool_entries) &&
                    layout_.bytes() <= connection_.grant(server_).application_bytes;
  if (good) return {};
  return fail(ErrorCode::unsupported, "server {} has a board of another kind", server_);
}

Expected<Board> BoardReader::read() {
  const std::uint64_t bytes = layout_.bytes() - layout_.run_offset(0);
  const std::uint64_t workers_at = layout_.worker_offset(0) - layout_.run_offset(0);
  std::vector<dag::RunSlot> runs;
  std::vector<dag::WorkerSlot> workers;
  for (unsigned i = 0; i < kTriesMax; ++i) {
    ROCKHOPPER_TRY(read(layout_.run_offset(0), bytes));
    auto runs_now = slots_of<dag::RunSlot>(memory_.data(), layout_.runs);
    auto workers_now = slots_of<dag::WorkerSlot>(memory_.data() + workers_at, layout_.workers);
    if (is_same(runs, runs_now) && is_same(workers, workers_now)) {
      Board board;
      std::copy_if(runs_now.begin(), runs_now.end(), std::back_inserter(board.runs),
                   [](const dag::RunSlot& run) { return run.phase != dag::RunPhase::none; });
      std::copy_if(workers_now.begin(), workers_now.end(), std::back_inserter(board.workers),
                   [](const dag::WorkerSlot& worker) { return worker.client != 0; });
      return board;
    }
    runs = std::move(runs_now);
    workers = std::move(workers_now);
  }
  return fail(ErrorCode::busy, "the board of server {} never stands still", server_);
}

}  // namespace rockhopper::apps::dag_node
