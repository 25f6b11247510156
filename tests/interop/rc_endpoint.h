// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/interop/rc_script.h"

namespace rockhopper::interop {

/// What the peer may do: granted by a queue pair or by a registered region.
struct Rights {
  bool write = true;
  bool read = true;
  bool atomic = true;
  bool flush = false;  ///< with global visibility
};

/// How the queue pair and its memory are made.
struct ConnectionConfig {
  std::uint32_t region_bytes = 0;   ///< the peer's operations act on it
  std::uint32_t local_bytes = 0;    ///< source and sink of this end's operations
  std::uint32_t receive_bytes = 0;  ///< receive buffers
  std::uint32_t keys = 0;           ///< further keys of the region, see renew_keys()
  std::uint32_t send_depth = 128;
  std::uint32_t receive_depth = 256;
  bool placements = false;  ///< requests of ATOMIC WRITE and FLUSH will be posted
  Rights queue_pair_rights;
  Rights region_rights;
  std::uint32_t first_psn = 0;
  std::uint8_t max_dest_rd_atomic = 16;
  std::uint8_t timeout = 14;        ///< local ACK timeout code: 4.096 us * 2^n
  std::uint8_t retry_count = 7;     ///< 0 to 7
  std::uint8_t rnr_retry = 7;       ///< 7: without limit
  std::uint8_t min_rnr_timer = 12;  ///< code; 12 is 0.64 ms
};

struct Address {
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  std::string gid;  ///< text of an IPv6 address; IPv4 as ::ffff:a.b.c.d
};

struct RemoteRegion {
  std::uint64_t addr = 0;
  std::uint32_t rkey = 0;
  std::uint64_t length = 0;
};

struct Limits {
  std::uint32_t path_mtu = 0;
  std::uint8_t max_rd_atomic = 0;
  bool invalidate = false;
};

/// One request, with everything the verbs request has. Buffers are offsets in `local`.
struct Request {
  std::uint64_t id = 0;
  OperationKind kind = OperationKind::send;
  bool fenced = false;
  bool signalled = true;
  bool solicited = false;
  std::uint32_t immediate = 0;  ///< host order
  std::uint64_t remote_addr = 0;
  std::uint32_t rkey = 0;  ///< SEND with Invalidate: the key to invalidate
  std::uint64_t compare = 0;
  std::uint64_t swap_or_add = 0;
  std::uint32_t flush_length = 0;
  std::uint32_t pieces = 0;
  Piece piece[kMaxSges] = {};
  bool bad_lkey = false;  ///< on purpose: name local memory by a key that does not exist
};

struct Receive {
  std::uint64_t id = 0;
  std::uint32_t pieces = 0;
  Piece piece[kMaxSges] = {};
  bool bad_lkey = false;
};

/// What a completion says. Names of statuses and opcodes are those of verbs, lower case without
/// prefix: "success", "rem_access_err", ...
struct Completed {
  std::uint64_t id = 0;
  bool receive = false;
  bool success = false;
  std::string status;          ///< filled when !success
  std::uint32_t length = 0;    ///< receives
  bool has_immediate = false;  ///< receives
  bool rdma_write = false;     ///< receives: consumed by a WRITE with immediate
  std::uint32_t immediate = 0;
  bool has_invalidated = false;
  std::uint32_t invalidated = 0;
};

/// One end of an RC connection, over whatever makes it: verbs, or Rockhopper. Failures throw
/// Failure (rc_exchange.h). Belongs to one thread.
class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  virtual ~Endpoint() = default;

  [[nodiscard]] virtual Limits limits() const = 0;

  /// Makes memory (zeroed) and a queue pair in INIT; what an earlier open() made is destroyed.
  [[nodiscard]] virtual Address open(const ConnectionConfig& config) = 0;
  /// Moves the queue pair to RTS.
  virtual void connect(const Address& peer, std::uint32_t path_mtu, std::uint8_t max_rd_atomic) = 0;
  /// Destroys the queue pair and keeps the memory.
  virtual void destroy_queue_pair() = 0;

  [[nodiscard]] virtual RemoteRegion remote_region() const = 0;
  [[nodiscard]] virtual std::span<std::byte> region() = 0;
  [[nodiscard]] virtual std::span<std::byte> local() = 0;
  [[nodiscard]] virtual std::span<std::byte> receive() = 0;

  virtual void post(std::span<const Request> requests) = 0;
  virtual void post(std::span<const Receive> receives) = 0;
  /// Moves the transport on, where that is the caller's job, and takes completions, oldest first.
  [[nodiscard]] virtual std::size_t poll(std::span<Completed> out) = 0;
  /// Moves the transport on, where that is the caller's job; returns when a completion may be
  /// there, `descriptor` is readable, or after `timeout_ms`. Completions stay for poll().
  virtual void wait(int descriptor, int timeout_ms) = 0;

  /// The rkeys of `count` keys (at most ConnectionConfig::keys) that a SEND with Invalidate may
  /// invalidate; those that were invalidated are replaced. Nothing of ours may be in flight.
  [[nodiscard]] virtual std::vector<std::uint32_t> renew_keys(std::uint32_t count) = 0;
  /// Told of each key that a receive completion named as invalidated.
  virtual void on_invalidated(std::uint32_t rkey) = 0;

  /// State of the queue pair: "INIT", "RTR", "RTS", "SQE", "ERR", ...
  [[nodiscard]] virtual std::string state() = 0;
  /// Asynchronous events since the last call: "qp_access_err", "qp_req_err", "comm_est", ...
  [[nodiscard]] virtual std::vector<std::string> events() = 0;
};

}  // namespace rockhopper::interop
