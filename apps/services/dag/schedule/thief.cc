// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/thief.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

namespace rockhopper::dag {
namespace {

constexpr std::size_t kAttemptBytes =
    sizeof(DequeHead) + Thief::kEntriesMax * DequeEntry::kSize + 64;
constexpr std::size_t kFoundOffset = kAttemptBytes - 64;
constexpr std::uint64_t kRestNs = 50'000'000;
constexpr std::uint32_t kThiefSends = 16;

}  // namespace

Thief::Thief(roce::Engine& engine, dc::Endpoint& endpoint, roce::ProtectionDomain pd,
             const ClientConfig& timing, std::uint16_t dcis, std::uint64_t seed,
             ThiefListener& listener, WorkerCounters& counters)
    : engine_(engine),
      endpoint_(endpoint),
      pd_(pd),
      timing_(timing),
      listener_(listener),
      counters_(counters),
      random_(seed),
      memory_(engine, pd),
      attempts_(dcis),
      thefts_(dcis) {}

Expected<std::unique_ptr<Thief>> Thief::create(roce::Engine& engine, dc::Endpoint& endpoint,
                                               roce::ProtectionDomain pd,
                                               const ClientConfig& timing, std::uint16_t dcis,
                                               std::uint64_t seed, ThiefListener& listener,
                                               WorkerCounters& counters) {
  std::unique_ptr<Thief> thief(
      new Thief(engine, endpoint, pd, timing, dcis, seed, listener, counters));
  ROCKHOPPER_TRY(thief->set_up());
  return thief;
}

Expected<void> Thief::set_up() {
  const auto dcis = static_cast<std::uint16_t>(attempts_.size());
  ROCKHOPPER_TRY(cq_, roce::CompletionQueue::create(std::uint32_t{dcis} * kThiefSends));
  ROCKHOPPER_TRY(pool_, dc::DciPool::create(endpoint_,
                                            {.pd = pd_,
                                             .send_cq = cq_.get(),
                                             .max_send_wr = kThiefSends,
                                             .sq_sig_all = true,
                                             .path_mtu = timing_.path_mtu,
                                             .timeout = timing_.timeout,
                                             .retry_cnt = timing_.retry_cnt},
                                            {.dcis = dcis}, [](dc::PoolTarget&) {}));
  return memory_.reserve(kAttemptBytes * dcis);
}

Thief::~Thief() {
  for (const auto& victim : victims_) {
    victim->target.reset();
  }
  pool_.reset();  // before the addresses that its requests name
}

std::unique_ptr<Thief::Victim> Thief::make_victim(const WorkerSlot& slot,
                                                  const roce::AddressVector& av) {
  // Whatever is on the board: a worker that says nonsense is none.
  if (slot.client == 0 || !std::has_single_bit(slot.deque_capacity) || slot.deque_capacity < 16 ||
      slot.deque_capacity > 65536 || slot.path_mtu < roce::bytes(timing_.path_mtu)) {
    return nullptr;
  }
  auto victim = std::make_unique<Victim>();
  victim->slot = slot;
  roce::AddressVector way = av;
  way.destination = stack::IpAddress::from_bytes(slot.gid.data());
  auto ah = roce::own(engine_, engine_.create_ah(pd_, way));
  if (!ah) return nullptr;
  victim->ah = std::move(*ah);
  victim->target.emplace(*victim->ah, wire::Qpn{slot.target}, slot.access_key);
  return victim;
}

/// Requests name the address until they are complete.
void Thief::drop_gone() {
  std::erase_if(victims_, [](const std::unique_ptr<Victim>& victim) {
    return victim->gone && victim->attempts == 0;
  });
  turn_ = std::min(turn_, victims_.size());
}

void Thief::set_victims(std::span<const WorkerSlot> workers, std::uint32_t own,
                        const roce::AddressVector& av) {
  for (const auto& victim : victims_) {
    victim->gone = true;
  }
  for (const WorkerSlot& slot : workers) {
    if (slot.client == 0 || slot.client == own) continue;
    const auto known =
        std::find_if(victims_.begin(), victims_.end(), [&](const std::unique_ptr<Victim>& victim) {
          return std::memcmp(&victim->slot, &slot, sizeof slot) == 0;
        });
    if (known != victims_.end()) {
      (*known)->gone = false;
    } else if (auto victim = make_victim(slot, av)) {
      victims_.push_back(std::move(victim));
    } else {
      counters_.board_bad.add();
    }
  }
  drop_gone();
}

std::size_t Thief::victim_count() const {
  return static_cast<std::size_t>(
      std::count_if(victims_.begin(), victims_.end(),
                    [](const std::unique_ptr<Victim>& victim) { return !victim->gone; }));
}

Thief::Victim* Thief::next_victim(std::uint64_t now_ns) {
  for (std::size_t tries = 0; tries < victims_.size(); ++tries) {
    if (turn_ >= victims_.size()) {
      turn_ = 0;
      // The last one that had something is the first one.
      if (victims_.size() > 2) std::shuffle(victims_.begin() + 1, victims_.end(), random_);
    }
    Victim& victim = *victims_[turn_++];
    if (!victim.gone && victim.attempts == 0 && victim.rests_until_ns <= now_ns) return &victim;
  }
  return nullptr;
}

std::byte* Thief::memory_of(unsigned attempt) const {
  return memory_.data() + kAttemptBytes * attempt;
}

bool Thief::start(std::uint64_t now_ns) {
  const auto free = std::find_if(attempts_.begin(), attempts_.end(), [](const Attempt& attempt) {
    return attempt.stage == Stage::free;
  });
  if (free == attempts_.end()) return false;
  Victim* victim = next_victim(now_ns);
  if (victim == nullptr) return false;
  counters_.steals.add();
  *free = {.stage = Stage::ends, .victim = victim};
  ++victim->attempts;
  ++active_;
  post(static_cast<unsigned>(free - attempts_.begin()));
  return true;
}

void Thief::post(unsigned index) {
  Attempt& attempt = attempts_[index];
  std::byte* memory = memory_of(index);
  const DequeLayout layout{.capacity = attempt.victim->slot.deque_capacity};
  roce::Sge sge{reinterpret_cast<std::uintptr_t>(memory), sizeof(DequeHead), memory_.key()};
  roce::SendWr wr{.wr_id = index,
                  .sg_list = {&sge, 1},
                  .opcode = roce::WrOpcode::rdma_read,
                  .rkey = roce::MemoryKey{attempt.victim->slot.deque_key}};
  if (attempt.stage == Stage::entries) {
    sge.addr += sizeof(DequeHead);
    sge.length = static_cast<std::uint32_t>(attempt.count * DequeEntry::kSize);
    wr.remote_addr = layout.entry_offset(attempt.priority, attempt.top);
  } else if (attempt.stage == Stage::advancing) {
    sge.addr += kFoundOffset;
    sge.length = sizeof(std::uint64_t);
    wr.opcode = roce::WrOpcode::atomic_cmp_and_swp;
    wr.remote_addr = DequeLayout::top_offset(attempt.priority);
    wr.compare_add = attempt.top;
    wr.swap = attempt.top + attempt.advance;
  }
  attempt.posted = pool_->post_send(*attempt.victim->target, wr) == roce::PostResult::ok;
}

bool Thief::progress(std::uint64_t now_ns) {
  if (active_ == 0) return false;
  std::array<roce::Completion, 16> completions;
  const std::size_t count = cq_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) {
    on_completion(static_cast<unsigned>(completions[i].wr_id), completions[i].status, now_ns);
  }
  pool_->progress();
  for (unsigned i = 0; i < attempts_.size(); ++i) {
    const Attempt& attempt = attempts_[i];
    if (attempt.stage != Stage::free && attempt.stage != Stage::told && !attempt.posted) post(i);
  }
  return count > 0;
}

void Thief::on_completion(unsigned index, roce::WcStatus status, std::uint64_t now_ns) {
  Attempt& attempt = attempts_[index];
  assert(attempt.stage != Stage::free && attempt.posted);
  const bool good = status == roce::WcStatus::success;
  if (!good && status != roce::WcStatus::outcome_unknown) {
    counters_.steals_failed.add();
    attempt.victim->rests_until_ns = now_ns + kRestNs;
  }
  switch (attempt.stage) {
    case Stage::ends:
    case Stage::entries:
      if (good) return attempt.stage == Stage::ends ? on_ends(index) : on_entries(index);
      return end(attempt);
    case Stage::advancing:
      // Whether it was executed or not: what was passed over is gone.
      if (good &&
          std::memcmp(memory_of(index) + kFoundOffset, &attempt.top, sizeof attempt.top) != 0) {
        counters_.steals_overtaken.add();
      }
      return end(attempt);
    case Stage::free:
    case Stage::told:
      return;
  }
}

void Thief::on_ends(unsigned index) {
  Attempt& attempt = attempts_[index];
  const DequeLayout layout{.capacity = attempt.victim->slot.deque_capacity};
  DequeHead head;
  std::memcpy(head.data(), memory_of(index), sizeof head);
  if (const auto oldest = oldest_entries(head, layout)) {
    attempt.stage = Stage::entries;
    attempt.priority = oldest->priority;
    attempt.top = oldest->top;
    attempt.count = std::min(oldest->in_a_row, std::uint64_t{kEntriesMax});
    attempt.takeable = half_of(oldest->size);
    return post(index);
  }
  counters_.steals_empty.add();
  end(attempt);
}

void Thief::on_entries(unsigned index) {
  Attempt& attempt = attempts_[index];
  std::array<DequeEntry, kEntriesMax> entries;
  const std::byte* from = memory_of(index) + sizeof(DequeHead);
  for (std::size_t i = 0; i < attempt.count; ++i) {
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), from + i * DequeEntry::kSize, sizeof words);
    entries[i] = DequeEntry::from(words[0], words[1]);
  }
  attempt.stage = Stage::told;
  thefts_.begin(index, attempt.count);
  listener_.on_entries(index, attempt.priority, std::span(entries).first(attempt.count),
                       attempt.takeable);
}

bool Thief::settle(unsigned index, const std::optional<Thefts::Settled>& settled) {
  if (!settled) return false;
  Attempt& attempt = attempts_[index];
  assert(attempt.stage == Stage::told);
  if (settled->successful) {
    counters_.steals_successful.add();
    const auto found = std::find_if(
        victims_.begin(), victims_.end(),
        [&](const std::unique_ptr<Victim>& victim) { return victim.get() == attempt.victim; });
    std::iter_swap(victims_.begin(), found);
    turn_ = 0;
  }
  attempt.advance = std::min({settled->gone, attempt.takeable, attempt.count});
  if (attempt.advance > 0) {
    attempt.stage = Stage::advancing;
    post(index);
  } else {
    end(attempt);
  }
  return settled->successful;
}

void Thief::end(Attempt& attempt) {
  --attempt.victim->attempts;
  const bool gone = attempt.victim->gone;
  attempt.stage = Stage::free;
  attempt.victim = nullptr;
  --active_;
  if (gone) drop_gone();
}

}  // namespace rockhopper::dag
