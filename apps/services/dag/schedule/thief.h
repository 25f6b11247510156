// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "apps/services/dag/client.h"
#include "apps/services/dag/schedule/board.h"
#include "apps/services/dag/schedule/local_memory.h"
#include "apps/services/dag/schedule/worker_counters.h"
#include "dc/dci_pool.h"

namespace rockhopper::dag {

/// What comes of attempts to steal. Called from progress(); may call settle().
class ThiefListener {
 public:
  ThiefListener() = default;
  ThiefListener(const ThiefListener&) = delete;
  ThiefListener& operator=(const ThiefListener&) = delete;
  virtual ~ThiefListener() = default;
  /// The oldest entries of a victim, of which `takeable` may be had. settle() has to follow, at
  /// once or later.
  virtual void on_entries(unsigned attempt, unsigned priority, std::span<const DequeEntry> entries,
                          std::uint64_t takeable) = 0;
  /// There was nothing.
  virtual void on_empty_handed(unsigned attempt) = 0;
};

/// The ways to other workers' deques (DG-38): READs the ends, then the oldest entries of the most
/// urgent class, and advances the top by CAS over what is known to be gone. Victims take no notice
/// (DG-39). They are visited in a random order, the last one that had something first.
class Thief {
 public:
  static constexpr std::size_t kEntriesMax = 32;

  /// All must outlive it. As many attempts as `dcis` at a time.
  [[nodiscard]] static Expected<std::unique_ptr<Thief>> create(
      roce::Engine& engine, dc::Endpoint& endpoint, roce::ProtectionDomain pd,
      const ClientConfig& timing, std::uint16_t dcis, std::uint64_t seed, ThiefListener& listener,
      WorkerCounters& counters);
  Thief(const Thief&) = delete;
  Thief& operator=(const Thief&) = delete;
  ~Thief();

  /// Takes the workers on the board; all but `own` are victims. `av` is that of the home, for what
  /// all ways have in common.
  void set_victims(std::span<const WorkerSlot> workers, std::uint32_t own,
                   const roce::AddressVector& av);
  [[nodiscard]] std::size_t victim_count() const;

  /// Visits the next victim. False: there is none, or as many attempts as there may be.
  [[nodiscard]] bool start(std::uint64_t now_ns);
  /// Ends an attempt that was told. So many of its entries, the oldest ones, are known to be gone:
  /// claimed by this worker, or found not to be ready.
  void settle(unsigned attempt, std::uint64_t gone, bool successful);

  /// Polls. True if there was something to do.
  bool progress(std::uint64_t now_ns);
  [[nodiscard]] bool quiet() const { return active_ == 0; }

 private:
  enum class Stage : std::uint8_t { free, ends, entries, told, advancing };
  struct Victim {
    WorkerSlot slot;
    roce::AddressHandle* ah = nullptr;
    std::optional<dc::PoolTarget> target;
    unsigned attempts = 0;
    bool gone = false;
    std::uint64_t rests_until_ns = 0;  ///< it could not be reached
  };
  struct Attempt {
    Stage stage = Stage::free;
    bool posted = false;
    Victim* victim = nullptr;
    unsigned priority = 0;
    std::uint64_t top = 0;
    std::uint64_t count = 0;  ///< entries READ
    std::uint64_t takeable = 0;
    std::uint64_t advance = 0;
  };

  Thief(roce::Engine& engine, dc::Endpoint& endpoint, roce::ProtectionDomain pd,
        const ClientConfig& timing, std::uint64_t seed, ThiefListener& listener,
        WorkerCounters& counters);
  [[nodiscard]] Expected<void> set_up(std::uint16_t dcis);
  [[nodiscard]] std::unique_ptr<Victim> make_victim(const WorkerSlot& slot,
                                                    const roce::AddressVector& av);
  void destroy(Victim& victim);
  void drop_gone();
  [[nodiscard]] Victim* next_victim(std::uint64_t now_ns);
  [[nodiscard]] std::byte* memory_of(unsigned attempt) const;
  void post(unsigned index);
  void on_completion(unsigned index, roce::WcStatus status, std::uint64_t now_ns);
  void on_ends(unsigned index);
  void on_entries(unsigned index);
  void end(Attempt& attempt);

  roce::Engine& engine_;
  dc::Endpoint& endpoint_;
  roce::ProtectionDomain pd_;
  ClientConfig timing_;
  ThiefListener& listener_;
  WorkerCounters& counters_;
  std::mt19937_64 random_;
  LocalMemory memory_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::unique_ptr<dc::DciPool> pool_;
  std::vector<std::unique_ptr<Victim>> victims_;
  std::size_t turn_ = 0;  ///< of victims_, in this round
  std::vector<Attempt> attempts_;
  std::size_t active_ = 0;
};

}  // namespace rockhopper::dag
