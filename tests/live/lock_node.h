// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include <sys/types.h>

#include "apps/common/endpoint.h"
#include "roce/lock/scope_builder.h"
#include "roce/memory.h"
#include "roce/wire/qpn.h"
#include "stack/error.h"
#include "stack/ip_address.h"
#include "tests/live/shared_memory.h"

namespace rockhopper::live {

// Ends of locks as two processes each: the application, and its child, the engine, with the port
// and all of the transport. They share memory and nothing else, so that an application can be
// stopped or killed whatever its interface is doing, and the other way round.

struct LockOptions {
  std::string transport = "rc";
  std::uint32_t bytes = 4096;  ///< that each scope writes

  // The target's.
  std::string memory;  ///< file that is its memory: LockRecord, and `bytes` behind each
  std::uint32_t records = 4;
  std::uint32_t lease_us = 100'000;

  // An initiator's.
  std::string peer;            ///< file with what the target has printed at its start
  std::string journal;         ///< file of a Journal
  std::uint8_t name = 1;       ///< upper half of what its lock words say of their owner
  std::uint32_t slots = 1;     ///< scopes on their way at a time, each with a connection of its own
  std::uint64_t scopes = 0;    ///< 0: until it is stopped
  std::uint32_t pause_us = 0;  ///< at least so long between a slot's scopes, as the journal ends
  bool cut_through = false;
  bool stop = false;  ///< the application stops itself when each slot has a scope
  std::uint8_t timeout =
      20;  ///< local ACK timeout code: 4 s, nothing is sent again as somebody is busy
};

/// At the target: under the lock of `word`, scopes add 1 to the two counters and write what is
/// behind.
struct alignas(64) LockRecord {
  std::uint64_t word;
  std::uint64_t first;  ///< added to before the WRITE
  std::uint64_t last;   ///< and behind it
};
[[nodiscard]] constexpr std::size_t record_stride(std::uint32_t bytes) {
  return sizeof(LockRecord) + (bytes + 63) / 64 * 64;
}

/// Of an initiator, in a file that outlives it.
struct Journal {
  static constexpr std::size_t kSlots = 1000;
  static constexpr std::size_t kEntries = 1 << 22;
  enum class Outcome : std::uint32_t { success, unknown };
  struct Entry {
    std::uint32_t record;
    Outcome outcome;
    std::uint64_t found;  ///< `first` of the record, before it was added to
    std::uint64_t token;  ///< fencing token
  };

  std::atomic<std::uint64_t> entries;
  /// Of each slot: the record + 1 that its scope is for, 0 when it is complete and in the journal.
  std::array<std::atomic<std::uint32_t>, kSlots> on_its_way;
  std::array<Entry, kEntries> log;
};
static_assert(sizeof(Journal::Entry) == 24 && offsetof(Journal, log) == 8 + 4 * Journal::kSlots);

/// One scope at a time. The application fills it in and counts `posted` up; the engine posts the
/// scope and brings `completed` up to that.
struct Slot {
  alignas(64) std::atomic<std::uint32_t> posted{0};
  alignas(64) std::atomic<std::uint32_t> completed{0};
  alignas(64) std::optional<roce::lock::ScopeBuilder> scope;
  roce::lock::ScopeResult result;
  std::uint32_t record = 0;
  std::array<std::uint64_t, 2> found{};  ///< what the additions return
};

/// What application and engine share besides.
struct Mailbox {
  std::atomic<bool> ready{false};  ///< the engine is connected, and what is below is known
  roce::MemoryKey key{};           ///< of the slots, of what they write, or of the records
  stack::IpAddress address;
  wire::Qpn number{};  ///< of the DC target
  std::uint64_t access_key = 0;
  std::array<char, 8192> report{};  ///< JSON: the engine's counters at its end
};

/// Whether a child has not ended.
[[nodiscard]] bool is_running(pid_t child);

/// The two processes of a node. Shared memory is theirs from before they part.
class LockNode {
 public:
  LockNode() = default;
  LockNode(const LockNode&) = delete;
  LockNode& operator=(const LockNode&) = delete;
  virtual ~LockNode() = default;

  /// Before they part.
  [[nodiscard]] virtual Expected<void> share() = 0;
  /// The child: until a signal.
  [[nodiscard]] virtual Expected<void> run_engine(apps::Endpoint& endpoint) = 0;
  /// The parent, from when the engine is ready; until a signal or until all is done. What is on its
  /// way then is waited for.
  virtual void run_application(pid_t engine) = 0;
  /// At the end of both.
  virtual void report() = 0;

  [[nodiscard]] Mailbox& mailbox() { return *mailbox_; }

 protected:
  [[nodiscard]] Expected<void> share_mailbox();

 private:
  SharedMemory mailbox_memory_;
  Mailbox* mailbox_ = nullptr;
};

[[nodiscard]] std::unique_ptr<LockNode> make_lock_target(const LockOptions& options);
[[nodiscard]] std::unique_ptr<LockNode> make_lock_initiator(const LockOptions& options,
                                                            std::uint64_t seed);

/// Service of the connection manager that targets listen at.
inline constexpr std::uint16_t kLockPort = 7176;
/// What an initiator tells there: its name, and a number that is another one in its next life.
inline constexpr std::size_t kIntroductionBytes = 9;

}  // namespace rockhopper::live
