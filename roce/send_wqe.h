// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "roce/completion_queue.h"
#include "roce/memory.h"
#include "roce/types.h"
#include "roce/wire/psn.h"
#include "roce/wire/qpn.h"
#include "roce/work_request.h"

namespace rockhopper::roce {

namespace lock {
struct ScopeResult;
}  // namespace lock

/// Send requests by the fields that they have beside those of all, as the members of the unions in
/// ibv_send_wr.
enum class RequestKind : std::uint8_t {
  send,      ///< a SEND to the one peer of a connection
  datagram,  ///< a SEND of UD
  rdma,      ///< WRITE, READ and ATOMIC WRITE
  atomic,    ///< with masks or without
  flush,
  local_inv,
  bind_mw,
  reg_mr,
  lock,
};

namespace detail {

[[nodiscard]] constexpr RequestKind request_kind(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::send:
    case WrOpcode::send_with_imm:
    case WrOpcode::send_with_inv:
      break;
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm:
    case WrOpcode::rdma_read:
    case WrOpcode::atomic_write:
      return RequestKind::rdma;
    case WrOpcode::atomic_cmp_and_swp:
    case WrOpcode::atomic_fetch_and_add:
    case WrOpcode::masked_atomic_cmp_and_swp:
    case WrOpcode::masked_atomic_fetch_and_add:
      return RequestKind::atomic;
    case WrOpcode::flush:
      return RequestKind::flush;
    case WrOpcode::local_inv:
      return RequestKind::local_inv;
    case WrOpcode::bind_mw:
      return RequestKind::bind_mw;
    case WrOpcode::reg_mr:
      return RequestKind::reg_mr;
    case WrOpcode::lock_acquire:
    case WrOpcode::lock_release:
    case WrOpcode::lock_cancel:
      return RequestKind::lock;
  }
  return RequestKind::send;
}

[[nodiscard]] constexpr std::array<RequestKind, kWrOpcodes> make_request_kinds() {
  std::array<RequestKind, kWrOpcodes> kinds{};
  for (unsigned i = 0; i < kWrOpcodes; ++i) {
    kinds[i] = request_kind(static_cast<WrOpcode>(i));
  }
  return kinds;
}
inline constexpr auto kRequestKinds = make_request_kinds();

}  // namespace detail

/// Returns the kind of requests with `opcode`, which is a valid one, on a connection.
[[nodiscard]] constexpr RequestKind kind_of(WrOpcode opcode) {
  return detail::kRequestKinds[static_cast<std::size_t>(opcode)];
}

/// A posted send request and how far the requester has come with it.
///
/// All requests have the public fields. What only some kinds have is behind an accessor for each
/// kind, which asserts that it is that kind: a request never changes its kind.
class SendWqe {
 public:
  /// Bytes at the peer that a request names.
  struct RemoteMemory {
    std::uint64_t addr;
    MemoryKey rkey;
  };
  struct Send {
    std::uint32_t imm_data;     ///< send_with_imm; host order
    MemoryKey invalidate_rkey;  ///< send_with_inv
  };
  struct Datagram {
    std::uint64_t ah_id;  ///< AddressHandle::id()
    wire::Qpn remote_qpn;
    std::uint32_t remote_qkey;  ///< kOwnQkey in it: the sending queue pair's own
    std::uint32_t imm_data;     ///< send_with_imm; host order
    std::uint16_t pkey_index;   ///< queue pair 1
  };
  struct Rdma {
    RemoteMemory remote;
    std::uint32_t imm_data;  ///< rdma_write_with_imm; host order
  };
  /// The values are as AtomicETH and XAETH have them.
  struct Atomic {
    RemoteMemory remote;
    std::uint64_t swap_add;
    std::uint64_t compare;  ///< 0 if the value is added
  };
  struct Flush {
    RemoteMemory remote;
    std::uint8_t placement_type;     ///< see FlushInfo
    std::uint8_t selectivity_level;  ///< see FlushInfo
  };
  struct LocalInvalidate {
    MemoryKey key;
  };
  struct BindMw {
    std::uint64_t addr;
    std::uint64_t length;
    MemoryKey mr;
    MemoryKey rkey;  ///< that the window will have
    std::uint32_t access;

    [[nodiscard]] MwBindInfo info() const {
      return {.mr = mr, .addr = addr, .length = length, .access = access};
    }
  };
  struct RegMr {
    std::byte* base;
    std::uint64_t length;
    std::uint64_t iova;
    MemoryKey key;
    std::uint32_t access;

    /// Returns the region that it will be.
    [[nodiscard]] MemoryRegion region() const;
  };
  /// The rest of a lock request is in LockWqe.
  struct Lock {
    roce::lock::ScopeResult* result;  ///< the caller's; may be null
  };

  std::uint64_t wr_id;
  std::uint32_t length;     ///< bytes of payload, to read, or to flush; 8 for atomics
  std::uint32_t flags;      ///< SendFlags, and the bits below
  std::uint32_t psn_count;  ///< PSNs it takes; 0 until the requester has given it PSNs
  wire::Psn first_psn;  ///< kept when it is sent again; written by SendWindow, or UC's requester
  std::uint32_t ssn;    ///< send sequence number, 24 bits (IBTA vol. 1, 9.7.7.2)
  std::uint16_t num_sge;
  WrOpcode opcode;
  WcStatus failure;  ///< a local error met while sending; completes in its turn

  /// Makes it what `wr` asks for, a valid request of `kind`, whose scatter/gather list names
  /// `list_length` bytes. The kind is that of the opcode, or datagram.
  void begin(const SendWr& wr, RequestKind kind, std::uint32_t list_length);

  /// What two requests have in common whose packets differ in nothing but PSN, place and payload,
  /// and which complete alike but for the signal: length, flags, elements, opcode, failure.
  struct Shape {
    std::uint64_t length_and_flags = 0;
    std::uint32_t rest = 0;
    friend bool operator==(const Shape&, const Shape&) = default;
  };
  [[nodiscard]] Shape shape() const {
    constexpr std::uint64_t kSignaled = std::uint64_t{kSendSignaled} << 32;
    // In the order of the fields, so that each is one load.
    return {.length_and_flags = (length | std::uint64_t{flags} << 32) & ~kSignaled,
            .rest = num_sge | static_cast<std::uint32_t>(opcode) << 16 |
                    static_cast<std::uint32_t>(failure) << 24};
  }

  [[nodiscard]] RequestKind kind() const {
    return (flags & kDatagram) != 0 ? RequestKind::datagram : kind_of(opcode);
  }
  [[nodiscard]] const Send& send() const {
    assert(kind() == RequestKind::send);
    return body_.send;
  }
  [[nodiscard]] const Datagram& datagram() const {
    assert(kind() == RequestKind::datagram);
    return body_.datagram;
  }
  [[nodiscard]] const Rdma& rdma() const {
    assert(kind() == RequestKind::rdma);
    return body_.rdma;
  }
  [[nodiscard]] const Atomic& atomic() const {
    assert(kind() == RequestKind::atomic);
    return body_.atomic;
  }
  [[nodiscard]] const Flush& flush() const {
    assert(kind() == RequestKind::flush);
    return body_.flush;
  }
  [[nodiscard]] const LocalInvalidate& local_inv() const {
    assert(kind() == RequestKind::local_inv);
    return body_.local_inv;
  }
  [[nodiscard]] const BindMw& bind_mw() const {
    assert(kind() == RequestKind::bind_mw);
    return body_.bind_mw;
  }
  [[nodiscard]] const RegMr& reg_mr() const {
    assert(kind() == RequestKind::reg_mr);
    return body_.reg_mr;
  }
  [[nodiscard]] const Lock& lock() const {
    assert(kind() == RequestKind::lock);
    return body_.lock;
  }
  /// Returns what a RETH says of the peer's memory: of the kinds rdma, atomic and flush.
  [[nodiscard]] const RemoteMemory& remote() const {
    assert(kind() == RequestKind::rdma || kind() == RequestKind::atomic ||
           kind() == RequestKind::flush);
    return body_.rdma.remote;  // the first member of all three
  }
  /// Returns the immediate data of a request on a connection, in host order.
  [[nodiscard]] std::uint32_t imm_data() const {
    return kind() == RequestKind::rdma ? rdma().imm_data : send().imm_data;
  }

  [[nodiscard]] bool is_read() const { return opcode == WrOpcode::rdma_read; }
  [[nodiscard]] bool is_atomic() const { return kAtomics.has(opcode); }
  [[nodiscard]] bool is_placement() const { return kPlacements.has(opcode); }

  // Bits of `flags` that are not the caller's.
  /// It will not be sent again, and completes in its turn with `failure`.
  static constexpr std::uint32_t kSettled = 1u << 31;
  /// It stands between an acquire and the release of the same scope, or is that.
  static constexpr std::uint32_t kInScope = 1u << 30;
  // What the opcode says, looked up once: it is asked for several times with each packet.
  static constexpr std::uint32_t kHasResponse = 1u << 29;  ///< kWithResponse
  static constexpr std::uint32_t kLocal = 1u << 28;        ///< kLocalOpcodes
  static constexpr std::uint32_t kLock = 1u << 27;         ///< kLocks
  /// Its kind is datagram, which its opcode does not say.
  static constexpr std::uint32_t kDatagram = 1u << 26;
  static constexpr std::uint32_t kOwnFlags =
      kSettled | kInScope | kHasResponse | kLocal | kLock | kDatagram;

  /// Those that a request with `opcode`, which is a valid one, has from the beginning.
  [[nodiscard]] static std::uint32_t flags_of(WrOpcode opcode);

  [[nodiscard]] bool has_response() const { return (flags & kHasResponse) != 0; }
  [[nodiscard]] bool is_lock() const { return (flags & kLock) != 0; }
  [[nodiscard]] bool is_local() const { return (flags & kLocal) != 0; }
  [[nodiscard]] bool is_settled() const { return (flags & kSettled) != 0; }
  [[nodiscard]] bool in_scope() const { return (flags & kInScope) != 0; }
  /// A lock request, or one that is executed under a lock.
  [[nodiscard]] bool of_lock() const { return (flags & (kInScope | kLock)) != 0; }
  [[nodiscard]] bool needs_no_packet() const { return (flags & (kLocal | kSettled)) != 0; }

 private:
  union Body {
    constexpr Body() : send{} {}

    Send send;
    Datagram datagram;
    Rdma rdma;
    Atomic atomic;
    Flush flush;
    LocalInvalidate local_inv;
    BindMw bind_mw;
    RegMr reg_mr;
    Lock lock;
  };

  void fill_other(const SendWr& wr, RequestKind kind);

  Body body_;
};

// A cache line: the queue is as dense as it can be, and a request is copied in two steps.
static_assert(sizeof(SendWqe) == 64);
static_assert(std::is_trivially_copyable_v<SendWqe>);

namespace detail {

[[nodiscard]] constexpr std::array<std::uint32_t, kWrOpcodes> make_request_flags() {
  std::array<std::uint32_t, kWrOpcodes> flags{};
  for (unsigned i = 0; i < kWrOpcodes; ++i) {
    const auto opcode = static_cast<WrOpcode>(i);
    flags[i] = (kWithResponse.has(opcode) ? SendWqe::kHasResponse : 0) |
               (kLocalOpcodes.has(opcode) ? SendWqe::kLocal : 0) |
               (kLocks.has(opcode) ? SendWqe::kLock : 0);
  }
  return flags;
}
inline constexpr auto kRequestFlags = make_request_flags();

}  // namespace detail

inline std::uint32_t SendWqe::flags_of(WrOpcode opcode) {
  return detail::kRequestFlags[static_cast<std::size_t>(opcode)];
}

inline void SendWqe::begin(const SendWr& wr, RequestKind kind, std::uint32_t list_length) {
  assert(kind == kind_of(wr.opcode) ||
         (kind == RequestKind::datagram && kind_of(wr.opcode) == RequestKind::send));
  wr_id = wr.wr_id;
  length = list_length;
  flags = (wr.send_flags & ~kOwnFlags) | flags_of(wr.opcode);
  psn_count = 0;
  first_psn = {};
  ssn = 0;
  num_sge = static_cast<std::uint16_t>(wr.sg_list.size());
  opcode = wr.opcode;
  failure = WcStatus::success;
  if (kind == RequestKind::rdma) {
    body_.rdma = {.remote = {.addr = wr.remote_addr, .rkey = wr.rkey}, .imm_data = wr.imm_data};
  } else if (kind == RequestKind::send) {
    body_.send = {.imm_data = wr.imm_data, .invalidate_rkey = wr.invalidate_rkey};
  } else if (kind == RequestKind::atomic) {
    const bool compares = is_compare_swap(wr.opcode);
    body_.atomic = {.remote = {.addr = wr.remote_addr, .rkey = wr.rkey},
                    .swap_add = compares ? wr.swap : wr.compare_add,
                    .compare = compares ? wr.compare_add : 0};
  } else {
    fill_other(wr, kind);
  }
}

}  // namespace rockhopper::roce
