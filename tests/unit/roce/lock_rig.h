// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <vector>

#include "roce/lock/lock_word.h"
#include "roce/lock/region.h"
#include "tests/unit/roce/rig.h"

namespace rockhopper::test {

/// Lock words and what they guard; outlives the engine that serves them.
struct LockMemory {
  explicit LockMemory(const roce::lock::Region::Config& config)
      : cells(4096), region(cells.data(), cells.size() * sizeof cells[0], config) {}

  std::vector<std::uint64_t> cells;
  roce::lock::Region region;
};

/// An acquire, as the peer asks for it.
struct Ask {
  std::uint16_t id = 7;
  std::uint16_t psns = 0;
  std::uint8_t flags = wire::Lketh::kFifo;
  std::uint16_t tries = wire::Lketh::kTriesUnlimited;
  std::uint32_t wait_us = wire::Lketh::kWaitUnlimited;
  std::uint16_t owner = 0x51;
  std::uint32_t lease_us = 0;
  std::uint8_t timeout = 0;
  std::uint8_t subtype = wire::Lketh::kAcquireExclusive;
  std::size_t word = 0;  ///< offset
};

/// A rig whose queue pair executes locks, in memory of its own that is 0 at first. Offsets are
/// those of that memory.
class LockRig : public LockMemory, public Rig {
 public:
  static constexpr std::uint32_t kPsn = 0x020000;  ///< ConnectionOptions::rq_psn

  [[nodiscard]] static ConnectionOptions with_locks(ConnectionOptions options = {});
  explicit LockRig(const ConnectionOptions& options = with_locks(),
                   const roce::lock::Region::Config& config = {.first_token = 500});

  /// One more connection, of which the first PSN is `rq_psn`; to() it goes what shall.
  [[nodiscard]] roce::QueuePair& connect(std::uint32_t rq_psn);
  void to(roce::QueuePair& qp, Packet packet);
  void inject_all(const std::vector<Packet>& packets);

  [[nodiscard]] std::uint64_t lock_va(std::size_t offset = 0) const;
  [[nodiscard]] std::uint32_t lock_rkey() const { return static_cast<std::uint32_t>(mr_.key); }
  [[nodiscard]] roce::MemoryKey lock_key() const { return mr_.key; }
  [[nodiscard]] roce::lock::LockWord word(std::size_t offset = 0) const;
  [[nodiscard]] Payload data(std::size_t offset, std::size_t length) const;
  /// As a CPU would, telling nobody.
  void poke(std::size_t offset, const Payload& bytes);
  void poke(std::size_t offset, std::uint64_t value) { cells[offset / 8] = value; }
  [[nodiscard]] std::uint64_t cell(std::size_t offset) const { return cells[offset / 8]; }
  void hold_elsewhere(std::size_t offset = 0);
  [[nodiscard]] const roce::lock::Region::Statistics& statistics() const {
    return region.statistics();
  }

  // Packets of the peer.
  [[nodiscard]] Packet acquire(std::uint32_t psn, const Ask& ask = {}) const;
  [[nodiscard]] Packet release(std::uint32_t psn, std::uint16_t id = 7) const;
  [[nodiscard]] Packet cancel(std::uint32_t psn, std::uint16_t id = 7) const;
  [[nodiscard]] Packet write(std::uint32_t psn, std::size_t offset, Payload bytes) const;
  [[nodiscard]] Packet read(std::uint32_t psn, std::size_t offset, std::uint32_t length) const;
  [[nodiscard]] Packet add(std::uint32_t psn, std::size_t offset, std::uint64_t value) const;
  [[nodiscard]] wire::Reth reth_of(std::size_t offset, std::uint32_t length) const;

 private:
  ConnectionOptions options_;
  roce::MemoryRegion mr_;
};

/// The payload of structures that follow a lock request.
template <typename Structure>
[[nodiscard]] Payload payload_of(const std::vector<Structure>& structures) {
  Payload result(structures.size() * Structure::kSize);
  for (std::size_t i = 0; i < structures.size(); ++i) {
    structures[i].emit(
        std::span<std::uint8_t, Structure::kSize>(&result[i * Structure::kSize], Structure::kSize));
  }
  return result;
}

/// What a target answers to a lock request.
[[nodiscard]] Packet lock_answer(std::uint32_t psn, wire::LockStatus status,
                                 wire::LockCause cause = wire::LockCause::none,
                                 std::uint64_t value = 0, std::uint64_t previous = 0);

MATCHER_P3(IsLockAnswer, psn, status, cause, "") {
  return arg.opcode() == wire::Opcode::lock_response && arg.psn() == psn &&
         arg.headers.lkaeth.status == status && arg.headers.lkaeth.cause == cause;
}
MATCHER_P(IsGranted, psn, "") {
  return arg.opcode() == wire::Opcode::lock_response && arg.psn() == psn &&
         arg.headers.lkaeth.status == wire::LockStatus::granted;
}
MATCHER_P(IsReleased, psn, "") {
  return arg.opcode() == wire::Opcode::lock_response && arg.psn() == psn &&
         arg.headers.lkaeth.status == wire::LockStatus::released;
}
MATCHER_P(IsFlushed, psn, "") {
  return arg.opcode() == wire::Opcode::lock_response && arg.psn() == psn &&
         arg.headers.lkaeth.status == wire::LockStatus::flushed;
}
MATCHER_P(IsSignOfLife, psn, "") {
  return arg.opcode() == wire::Opcode::lock_response && arg.psn() == psn &&
         arg.headers.lkaeth.status == wire::LockStatus::waiting;
}
MATCHER_P2(IsFailed, psn, cause, "") {
  return arg.opcode() == wire::Opcode::lock_response && arg.psn() == psn &&
         arg.headers.lkaeth.status == wire::LockStatus::failed && arg.headers.lkaeth.cause == cause;
}
MATCHER_P2(IsReadOnly, psn, payload, "") {
  return arg.opcode() == wire::Opcode::rc_rdma_read_response_only && arg.psn() == psn &&
         arg.payload == payload;
}

}  // namespace rockhopper::test
