// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/background.h"
#include "apps/rh_perf/agreement.h"
#include "apps/rh_perf/operation.h"
#include "stack/error.h"
#include "stack/ip_address.h"

namespace rockhopper::apps::perf {

/// Identifies a work request: what it is, its queue pair, and a value of the poster's.
struct WorkId {
  bool receive = false;
  std::uint16_t qp = 0;     ///< index, 15 bits
  std::uint64_t value = 0;  ///< 48 bits

  [[nodiscard]] std::uint64_t encode() const {
    return (std::uint64_t{receive} << 63) | (std::uint64_t{qp} << 48) | value;
  }
  [[nodiscard]] static WorkId decode(std::uint64_t id) {
    return {(id >> 63) != 0, static_cast<std::uint16_t>((id >> 48) & 0x7fff),
            id & ((std::uint64_t{1} << 48) - 1)};
  }
};

/// A request to send. Offsets count from the start of the backend's memory. Of a scope the remote
/// address is that of the lock word; a FETCH_ADD of `compare_add` goes to the word behind it.
struct SendRequest {
  std::uint64_t id = 0;
  Operation operation = Operation::send;
  bool signaled = true;
  std::uint32_t length = 0;
  std::uint64_t local_offset = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
};

struct ReceiveRequest {
  std::uint64_t id = 0;
  std::uint64_t local_offset = 0;
  std::uint32_t length = 0;
};

struct Done {
  std::uint64_t id = 0;
  std::uint32_t byte_len = 0;  ///< of receives
  std::string_view error;      ///< the status's name unless it is a success; static
  bool comes_again = false;    ///< of a receive that failed: its message will be sent anew
};

struct QpAddress {
  std::uint32_t qpn = 0;         ///< DC: of a target
  std::uint32_t psn = 0;         ///< RC: the first
  std::uint64_t access_key = 0;  ///< DC: the target's

  void describe(Fields& fields);
};

/// What the other end must know of this one.
struct Side {
  stack::IpAddress gid;
  std::uint64_t address = 0;  ///< of the memory, for its rkey
  std::uint64_t bytes = 0;
  std::uint32_t rkey = 0;
  std::vector<QpAddress> qps;

  void describe(Fields& fields);
};

/// By name, as in roce/lock/region.h.
using LockStatistics = std::map<std::string, std::uint64_t>;

/// Queue pairs of one device with one piece of registered memory: what a workload needs of an RDMA
/// implementation. With DC each "queue pair" is a target at the other end, all served by one
/// initiator. Belongs to one thread. Lists go down in batches, so that a virtual call
/// costs little.
class Backend : public Background {
 public:
  /// The most requests or completions in one call.
  static constexpr std::size_t kBatch = 32;

  /// "rockhopper net_memif0" and the like, for reports.
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::uint32_t path_mtu_max() const = 0;
  [[nodiscard]] virtual std::uint16_t outstanding_reads_max() const = 0;
  /// Its queue pairs can have selective repeat (docs/loss-recovery.md).
  [[nodiscard]] virtual bool selective_repeat() const { return false; }
  /// It can do Operation::lock, and serve LockMode::target. To serve LockMode::cas takes nothing.
  [[nodiscard]] virtual bool has_locks() const { return false; }

  /// Waits until packets can be exchanged with the peer at all.
  [[nodiscard]] virtual Expected<void> wait_for_link() = 0;

  /// Memory of `bytes`, completion queue, queue pairs in INIT. `ipv4`: the peer's address family,
  /// if it is known. Once.
  [[nodiscard]] virtual Expected<Side> prepare(const Agreement& agreement, std::size_t bytes,
                                               std::optional<bool> ipv4) = 0;
  /// To RTS, towards `remote`. A queue pair that is there by the connection manager stays as it is.
  [[nodiscard]] virtual Expected<void> connect(const Agreement& agreement, const Side& remote) = 0;

  [[nodiscard]] virtual std::span<std::byte> memory() = 0;

  /// Posts in order; returns how many were taken. Fewer than asked for only when the queue is full
  /// or broken.
  [[nodiscard]] virtual std::size_t post_sends(std::uint16_t qp,
                                               std::span<const SendRequest> requests) = 0;
  [[nodiscard]] virtual std::size_t post_receives(std::uint16_t qp,
                                                  std::span<const ReceiveRequest> requests) = 0;
  /// Moves packets where that is the program's business, then takes completions.
  [[nodiscard]] virtual std::size_t poll(std::span<Done> out) = 0;

  /// False when the peer can no longer be reached, as far as the device can tell. Cheap.
  [[nodiscard]] virtual bool link_alive() { return true; }
  /// RoCE packets that this end has sent and received, acknowledgements and what was sent again
  /// among them; 0: the device does not tell.
  [[nodiscard]] virtual std::uint64_t packets() const { return 0; }
  /// Of the locks that it has served at this end, if it has.
  [[nodiscard]] virtual LockStatistics lock_statistics() const { return {}; }
  /// Counters and the like on standard error.
  virtual void print_statistics() {}
};

}  // namespace rockhopper::apps::perf
