// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The operation script of the interoperability peers: what one end of an RC connection requests of
/// the other, drawn from a seed, so that both ends know every size, every byte and every value that
/// an atomic must return. No verbs and no DPDK here: the verbs peer (rc_peer) and the Rockhopper
/// peer (rh_rc_peer) share it.
///
/// Directions. A connection carries one script from the client to the server, one from the server
/// to the client, or both at once. An end is the *requester* of its own script and the *responder*
/// of the other. Each end exposes one region to the peer's script (`region`), holds what it sends
/// and reads in a second one (`local`), and its receives in a third (`receive`).
///
/// Flow. Operations come in phases; in each phase, on both ends:
///  1. The responder half posts the receives of the phase (all of them, or with `late_receives` = N
///     only N after step 2, and N more each time those are used up: this provokes RNR NAKs on
///     purpose; otherwise none can occur), makes the phase's `keys` further rkeys of its region
///     which SEND with Invalidate will invalidate, and says {"ready":phase,"keys":[rkey,...]}.
///  2. When the peer has said "ready", the requester half posts its operations in order, at most
///     `window` of them not known to be complete.
///  3. When all of them have completed, content checked, it says {"done":phase}.
///  4. When the peer has said "done" and all receives of the phase have completed, content checked,
///     the responder half compares its whole region with the script's model, byte for byte.
/// The next phase begins when steps 3 and 4 are done. An end without a script (or at the end of it)
/// takes part with an empty phase.
///
/// Order. RC executes operations in order, but a READ whose response was lost is executed again:
/// what comes after it and changes what it read carries a fence, and so does a SEND with Invalidate
/// of the key it used. Atomics may follow each other without one: their answers are kept. Instead
/// of the fence the requester may wait for all that is outstanding (`wait_for_fence`): rxe of
/// Linux 6.1 stops for good when a packet is lost while it waits at a fence. As responder it ends
/// the connection when a late copy of a READ comes whose key is invalidated by then, though the
/// READ was answered: with `lasting_read_keys` READs use the region's own key alone.
namespace rockhopper::interop {

enum class OperationKind : std::uint8_t {
  send,
  send_imm,
  send_inv,
  write,
  write_imm,
  read,
  compare_swap,
  fetch_add,
  atomic_write,  ///< IBTA 1.6, annex A19; rxe of Linux 6.2 and later
  flush,
};
inline constexpr std::size_t kOperationKinds = 10;
/// Those that every peer knows: what a script without a choice of kinds has.
inline constexpr std::size_t kUsualKinds = 8;
[[nodiscard]] std::string_view to_string(OperationKind kind);
[[nodiscard]] std::optional<OperationKind> operation_kind(std::string_view name);

[[nodiscard]] constexpr bool consumes_receive(OperationKind kind) {
  return kind <= OperationKind::send_inv || kind == OperationKind::write_imm;
}
[[nodiscard]] constexpr bool is_send(OperationKind kind) { return kind <= OperationKind::send_inv; }
[[nodiscard]] constexpr bool is_write(OperationKind kind) {
  return kind == OperationKind::write || kind == OperationKind::write_imm;
}
[[nodiscard]] constexpr bool is_atomic(OperationKind kind) {
  return kind == OperationKind::compare_swap || kind == OperationKind::fetch_add;
}
[[nodiscard]] constexpr bool is_placement(OperationKind kind) {
  return kind == OperationKind::atomic_write || kind == OperationKind::flush;
}

/// 64-bit cells for atomics at the end of the region.
inline constexpr std::size_t kAtomicCells = 64;
inline constexpr std::size_t kAtomicBytes = kAtomicCells * 8;
/// Most keys that a phase can ask for.
inline constexpr std::uint32_t kMaxKeys = 32;
/// What a phase's local buffers, and its receive buffers, may take together.
inline constexpr std::uint32_t kArenaBytes = 8u << 20;
/// Most elements of a scatter/gather list.
inline constexpr std::uint32_t kMaxSges = 3;
/// Untouched bytes that follow each buffer.
inline constexpr std::uint32_t kGuardBytes = 64;

/// What both ends must agree on; the client's choice.
struct ScriptOptions {
  std::uint64_t seed = 1;
  std::uint64_t operations = 1000;  ///< of each kind
  std::vector<OperationKind> kinds;
  std::uint32_t window = 64;             ///< 1 to 4096
  std::uint32_t phase_operations = 256;  ///< 1 to 4096
  std::uint32_t region_bytes = 256u << 10;
  std::uint32_t max_length = 96u << 10;  ///< longest message; at most half the region
  std::uint32_t max_sges = kMaxSges;     ///< elements of a request's list
  std::uint32_t path_mtu = 1024;
  bool lasting_read_keys = false;  ///< see above, order
};
/// An empty text, or why the options are not valid.
[[nodiscard]] std::string check(const ScriptOptions& options);

struct Operation {
  std::uint64_t index;  ///< in the whole script
  OperationKind kind;
  bool fenced;
  bool signalled;
  bool solicited;
  std::uint8_t sges;  ///< elements of the local list; 0 for a message of 0 bytes
  std::int32_t key;   ///< RDMA: the phase's key to use, -1 the region's own. SEND with Invalidate:
                      ///< to invalidate
  std::uint32_t length;
  std::uint32_t local_offset;     ///< of its buffer in `local`
  std::uint32_t receive_offset;   ///< of the receive it consumes, in `receive`
  std::uint32_t receive_length;   ///< of that receive
  std::uint32_t remote_offset;    ///< in `region`
  std::uint32_t immediate;        ///< host order
  std::uint64_t compare;          ///< compare and swap
  std::uint64_t swap_or_add;      ///< new value, or what to add
  std::uint64_t expected;         ///< atomics: the value to be returned
  std::uint32_t expected_offset;  ///< READ: of the expected bytes in Phase::expected
};

struct Phase {
  std::uint64_t index = 0;
  std::vector<Operation> operations;
  std::vector<std::byte> expected;  ///< what the READs must bring
  std::uint32_t receives = 0;
  std::uint32_t keys = 0;
  std::uint32_t local_bytes = 0;
  std::uint32_t receive_bytes = 0;
};

enum class Direction : std::uint8_t { client_to_server, server_to_client };

class Script {
 public:
  Script(const ScriptOptions& options, Direction direction);

  /// The region's content before the first operation.
  static void fill_region(const ScriptOptions& options, Direction direction,
                          std::span<std::byte> region);

  /// Makes the next phase; false when there is none.
  [[nodiscard]] bool next(Phase& phase);

  /// The responder's region after the phase last made.
  [[nodiscard]] std::span<const std::byte> region() const { return region_; }

  /// Which bytes an operation carries: for pattern_fill and pattern_check.
  [[nodiscard]] std::uint64_t pattern(const Operation& operation) const;

 private:
  struct Drawn {
    OperationKind kind;
    std::uint32_t length;
  };
  struct OutstandingRead {
    std::uint64_t index;
    std::uint32_t begin;
    std::uint32_t end;
    std::int32_t key;
  };

  std::uint64_t random_below(std::uint64_t bound);
  bool one_in(std::uint64_t n) { return random_below(n) == 0; }
  Drawn draw();
  std::uint32_t draw_length();
  [[nodiscard]] bool fits(const Phase& phase, const Drawn& drawn) const;
  void append(Phase& phase, const Drawn& drawn);
  void place_rdma(Phase& phase, Operation& operation);
  void place_atomic(Operation& operation);
  void place_placement(Operation& operation);
  void decide_fence(Operation& operation);

  const ScriptOptions options_;
  const std::uint64_t key_;
  const bool uses_keys_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> remaining_;  ///< of each of options_.kinds
  std::uint64_t remaining_total_;
  std::optional<Drawn> pending_;  ///< did not fit into the last phase
  std::vector<std::byte> region_;
  std::deque<OutstandingRead> reads_;  ///< that may be executed again
  std::uint64_t next_index_ = 0;
  std::uint64_t next_phase_ = 0;
  std::uint32_t unsignalled_ = 0;
  std::uint32_t keys_invalidated_ = 0;
};

/// Fills a buffer with bytes that only `pattern` decides.
void pattern_fill(std::uint64_t pattern, std::span<std::byte> out);
/// The offset of the first byte that differs, or `bytes.size()`.
[[nodiscard]] std::size_t pattern_check(std::uint64_t pattern, std::span<const std::byte> bytes);

/// The elements of a scatter/gather list of `count` pieces over [offset, offset + length).
struct Piece {
  std::uint32_t offset;
  std::uint32_t length;
};
[[nodiscard]] std::span<const Piece> split(std::uint32_t offset, std::uint32_t length,
                                           std::uint32_t count, std::span<Piece, kMaxSges> out);

}  // namespace rockhopper::interop
