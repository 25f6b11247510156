// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "roce/memory.h"
#include "roce/types.h"
#include "roce/wire/qpn.h"

namespace rockhopper::roce {

/// One element of a scatter/gather list: registered local memory.
struct Sge {
  std::uint64_t addr = 0;
  std::uint32_t length = 0;
  MemoryKey lkey{};
};

enum class WrOpcode : std::uint8_t {
  rdma_write,
  rdma_write_with_imm,
  send,
  send_with_imm,
  send_with_inv,
  rdma_read,
  atomic_cmp_and_swp,
  atomic_fetch_and_add,
  local_inv,
  bind_mw,  ///< of windows of type 2; for type 1 see QueuePair::bind_mw
  reg_mr,
  flush,
  atomic_write,
  masked_atomic_cmp_and_swp,  ///< ours; needs QpInit::extended_atomics
  masked_atomic_fetch_and_add,
  lock_acquire,  ///< ours; needs QpInit::lock_execution (docs/locks.md)
  lock_release,
  lock_cancel,
};
inline constexpr unsigned kWrOpcodes = 18;

/// A set of opcodes as bits.
class WrOpcodes {
 public:
  constexpr WrOpcodes(std::initializer_list<WrOpcode> opcodes) {
    for (const WrOpcode opcode : opcodes) {
      bits_ |= 1u << static_cast<unsigned>(opcode);
    }
  }
  [[nodiscard]] constexpr bool has(WrOpcode opcode) const {
    return static_cast<unsigned>(opcode) < kWrOpcodes &&
           (bits_ >> static_cast<unsigned>(opcode) & 1) != 0;
  }
  friend constexpr WrOpcodes operator|(WrOpcodes a, WrOpcodes b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  std::uint32_t bits_ = 0;
};

/// Requests that change keys: no packet carries them.
inline constexpr WrOpcodes kLocalOpcodes = {WrOpcode::local_inv, WrOpcode::bind_mw,
                                            WrOpcode::reg_mr};
inline constexpr WrOpcodes kMaskedAtomics = {WrOpcode::masked_atomic_cmp_and_swp,
                                             WrOpcode::masked_atomic_fetch_and_add};
inline constexpr WrOpcodes kAtomics =
    kMaskedAtomics | WrOpcodes{WrOpcode::atomic_cmp_and_swp, WrOpcode::atomic_fetch_and_add};
/// Returns false for an atomic that adds.
[[nodiscard]] constexpr bool is_compare_swap(WrOpcode opcode) {
  return opcode == WrOpcode::atomic_cmp_and_swp || opcode == WrOpcode::masked_atomic_cmp_and_swp;
}
/// Answered by a READ response without payload.
inline constexpr WrOpcodes kPlacements = {WrOpcode::flush, WrOpcode::atomic_write};
inline constexpr WrOpcodes kLocks = {WrOpcode::lock_acquire, WrOpcode::lock_release,
                                     WrOpcode::lock_cancel};
/// What can be between the acquire and the release of a lock (docs/locks.md).
inline constexpr WrOpcodes kScopeAccesses =
    kAtomics | kPlacements | WrOpcodes{WrOpcode::rdma_write, WrOpcode::rdma_read};
/// They take one of the peer's responder resources, and a response ends them.
inline constexpr WrOpcodes kWithResponse =
    kAtomics | kPlacements | kLocks | WrOpcodes{WrOpcode::rdma_read};

/// Flags of a send request; meanings as in enum ibv_send_flags.
enum SendFlags : std::uint32_t {
  kSendFence = 1u << 0,
  kSendSignaled = 1u << 1,
  kSendSolicited = 1u << 2,
  kSendInline = 1u << 3,
};

class AddressHandle;
namespace lock {
struct Request;
}  // namespace lock

/// Bit of a Q_Key in a request that asks for the queue pair's own (IBTA vol. 1, 10.2).
inline constexpr std::uint32_t kOwnQkey = 1u << 31;

/// Bytes that a scatter/gather list names.
[[nodiscard]] constexpr std::uint64_t total_length(std::span<const Sge> list) {
  if (list.size() == 1) return list.front().length;  // nearly always
  std::uint64_t length = 0;
  for (const Sge& sge : list) {
    length += sge.length;
  }
  return length;
}

/// What a FLUSH makes visible or persistent (IBTA vol. 1, annex A19; ibv_wr_flush).
struct FlushInfo {
  std::uint32_t length = 0;            ///< bytes from remote_addr on
  std::uint8_t placement_type = 1;     ///< bits of wire::Feth
  std::uint8_t selectivity_level = 0;  ///< 0: the range, 1: all of the region
};

/// A request to send, as ibv_send_wr. The scatter/gather list is copied by post_send; the memory
/// it names must stay valid until the request completes (with kSendInline only until post_send
/// returns, and lkeys are not looked at).
struct SendWr {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sg_list{};
  WrOpcode opcode = WrOpcode::send;
  std::uint32_t send_flags = 0;
  std::uint32_t imm_data = 0;           ///< host order
  MemoryKey invalidate_rkey{};          ///< send_with_inv, local_inv
  std::uint64_t remote_addr = 0;        ///< RDMA and atomics; atomics: multiple of 8
  MemoryKey rkey{};                     ///< RDMA and atomics; bind_mw: that the window shall have
  std::uint64_t compare_add = 0;        ///< atomics: compare value, or the value to add
  std::uint64_t swap = 0;               ///< compare and swap: the new value
  std::uint64_t compare_add_mask = 0;   ///< masked: bits to compare; highest bit of each field
  std::uint64_t swap_mask = 0;          ///< masked compare and swap: bits to swap
  MwBindInfo mw_bind{};                 ///< bind_mw
  MemoryRegion fast_region{};           ///< reg_mr: base, length, iova, access, key
  FlushInfo flush{};                    ///< flush
  const lock::Request* lock = nullptr;  ///< lock_acquire and so on; copied by post_send
  /// UD and DC; may be destroyed only when the request is complete.
  const AddressHandle* ah = nullptr;
  wire::Qpn remote_qpn{};           ///< UD; DC: number of the target
  std::uint64_t dc_access_key = 0;  ///< DC: the target's
  std::uint32_t remote_srqn = 0;    ///< XRC: number of the peer's SRQ
  /// UD: what the receiver must have. With kOwnQkey in it, the sending queue pair's own is sent.
  std::uint32_t remote_qkey = 0;
  std::uint16_t pkey_index = 0;  ///< queue pair 1: under which P_Key of the table
};

/// A receive request, as ibv_recv_wr.
struct RecvWr {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sg_list{};
};

/// What became of a posted request. Anything but `ok` means that nothing was posted.
enum class PostResult : std::uint8_t {
  ok,
  queue_full,
  invalid_state,    ///< the queue pair's state does not take requests of this kind
  invalid_request,  ///< opcode, fields and queue pair do not fit together
  too_many_sges,
  inline_too_long,
  message_too_long,
};
[[nodiscard]] std::string_view to_string(PostResult result);

}  // namespace rockhopper::roce
