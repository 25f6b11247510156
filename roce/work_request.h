// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>

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
};

/// Flags of a send request; meanings as in enum ibv_send_flags.
enum SendFlags : std::uint32_t {
  kSendFence = 1u << 0,
  kSendSignaled = 1u << 1,
  kSendSolicited = 1u << 2,
  kSendInline = 1u << 3,
};

class AddressHandle;

/// Bit of a Q_Key in a request that asks for the queue pair's own (IBTA vol. 1, 10.2).
inline constexpr std::uint32_t kOwnQkey = 1u << 31;

/// Bytes that a scatter/gather list names.
[[nodiscard]] constexpr std::uint64_t total_length(std::span<const Sge> list) {
  std::uint64_t length = 0;
  for (const Sge& sge : list) {
    length += sge.length;
  }
  return length;
}

/// A request to send, as ibv_send_wr. The scatter/gather list is copied by post_send; the memory
/// it names must stay valid until the request completes (with kSendInline only until post_send
/// returns, and lkeys are not looked at).
struct SendWr {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sg_list{};
  WrOpcode opcode = WrOpcode::send;
  std::uint32_t send_flags = 0;
  std::uint32_t imm_data = 0;         ///< host order
  MemoryKey invalidate_rkey{};        ///< send_with_inv
  std::uint64_t remote_addr = 0;      ///< RDMA and atomics; atomics: multiple of 8
  MemoryKey rkey{};                   ///< RDMA and atomics
  std::uint64_t compare_add = 0;      ///< atomics: compare value, or the value to add
  std::uint64_t swap = 0;             ///< compare and swap: the new value
  const AddressHandle* ah = nullptr;  ///< UD; may be destroyed only when the request is complete
  wire::Qpn remote_qpn{};             ///< UD
  /// UD: what the receiver must have. With kOwnQkey in it, the sending queue pair's own is sent.
  std::uint32_t remote_qkey = 0;
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
