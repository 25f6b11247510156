// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "roce/engine.h"
#include "roce/wire/mad.h"
#include "stack/counter.h"

namespace rockhopper::roce {

using MadBytes = std::span<const std::uint8_t, wire::kMadBytes>;

/// Where management datagrams go, and in which partition.
struct MadPath : AddressVector {
  std::uint16_t pkey_index = 0;  ///< of the port's P_Key table
};

/// A management datagram as it came in. `bytes` are valid during the call that hands it over.
struct ReceivedMad {
  MadBytes bytes;
  MadPath reply;  ///< where an answer goes
};

#define ROCKHOPPER_GSI_COUNTERS(X)                            \
  X(rcvd_mads, "management datagrams received")               \
  X(sent_mads, "management datagrams handed to queue pair 1") \
  X(bad_source_mads, "not from the peer's queue pair 1")      \
  X(bad_length_mads, "not 256 bytes")                         \
  X(unreachable_mads, "not sent: no way to the peer")         \
  X(crowded_out_mads, "not sent: all buffers were in use, by stations that do not answer first")

struct GsiCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_GSI_COUNTERS)
};

/// The general services interface (IBTA vol. 1, 13.5): queue pair 1 with its buffers. It moves
/// management datagrams of 256 bytes and knows nothing of what is in them. Like all datagrams they
/// may get lost. A destination whose MAC address is not known yet holds up no other one. Belongs to
/// the engine's thread; the engine must outlive it.
class Gsi {
 public:
  /// Takes queue pair 1 of `engine` until destroyed. Fails with `busy` when somebody has it.
  [[nodiscard]] static Expected<std::unique_ptr<Gsi>> create(Engine& engine);
  ~Gsi();
  Gsi(const Gsi&) = delete;
  Gsi& operator=(const Gsi&) = delete;

  /// Hands what has arrived to `handler`, which may call send(), and goes on with what waits for a
  /// MAC address. To be called after each receive() of the engine's host.
  void poll(std::uint64_t now_ns, const std::function<void(const ReceivedMad&)>& handler);

  /// Sends to queue pair 1 at `to.destination`. False: there is no buffer or no such way; the
  /// datagram is lost and counted.
  bool send(const MadPath& to, MadBytes mad, std::uint64_t now_ns);

  /// A datagram to `destination` has not left yet: its MAC address is being looked for.
  [[nodiscard]] bool resolves(const stack::IpAddress& destination) const;

  /// When poll() has work again besides what arrives; kNever: not by itself.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;

  [[nodiscard]] const GsiCounters& counters() const { return counters_; }

 private:
  struct Sending {
    AddressHandle* ah = nullptr;
    std::uint16_t buffer = 0;
    std::uint16_t pkey_index = 0;
  };

  explicit Gsi(Engine& engine) : engine_(engine) {}
  [[nodiscard]] Expected<void> open();
  [[nodiscard]] std::byte* receive_buffer(std::uint64_t index);
  [[nodiscard]] std::byte* send_buffer(std::uint64_t index);
  void post_receive(std::uint64_t index);
  void take(const Completion& completion, const std::function<void(const ReceivedMad&)>& handler);
  void finish(const Sending& sending);
  /// Returns false if the way there is still being looked for.
  [[nodiscard]] bool try_post(const Sending& sending, std::uint64_t now_ns);
  void go_on(std::uint64_t now_ns);

  Engine& engine_;
  ProtectionDomain pd_{};
  std::unique_ptr<std::byte[]> memory_;
  MemoryRegion region_{};
  std::unique_ptr<CompletionQueue> cq_;
  QueuePair* qp_ = nullptr;
  std::vector<std::uint16_t> free_buffers_;
  std::deque<Sending> unresolved_;          ///< oldest first
  std::vector<AddressHandle*> posted_ahs_;  ///< by send buffer
  std::uint64_t retry_ns_ = stack::kNever;
  GsiCounters counters_;
};

}  // namespace rockhopper::roce
