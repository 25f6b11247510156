// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>
#include <sys/types.h>

#include "apps/verbs/abi/table.h"

namespace rockhopper::test {

/// The engine library's verbs.
[[nodiscard]] const verbs::VerbsTable& table();
/// A device as the thin library lists it.
[[nodiscard]] ibv_device* device();
/// Opens it; its link leads back to this process. Fails the test if that is not possible.
[[nodiscard]] ibv_context* open_device();

/// Whether ROCKHOPPER_PROGRESS is `mode`: the same tests run in each.
[[nodiscard]] bool progress_is(std::string_view mode);

/// What one end of a conversation has, but for the queue pair: a context of its own, a protection
/// domain, a completion queue and registered memory. All of it must have gone without an error.
class End {
 public:
  static constexpr std::size_t kBytes = 64 * 1024;
  static constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                 IBV_ACCESS_MW_BIND;
  explicit End(int cqe = 256, ibv_comp_channel* (*make_channel)(ibv_context*) = nullptr);
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End();

  /// A queue pair of the end, destroyed with it. `srq` may be null.
  [[nodiscard]] ibv_qp* create_qp(ibv_qp_type type, ibv_srq* srq = nullptr);
  void destroy_qps();
  [[nodiscard]] ibv_sge element(std::size_t offset, std::uint32_t length) const;

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  std::vector<std::uint8_t> bytes;
  ibv_mr* mr = nullptr;
  std::vector<ibv_qp*> qps;
};

/// A GID of the device.
[[nodiscard]] ibv_gid own_gid(ibv_context* context, int index = 0);
[[nodiscard]] ibv_ah_attr own_address(ibv_context* context, std::uint8_t index = 0);

constexpr std::uint32_t kQkey = 0x11111111;
/// RESET to RTS; `peer` means nothing for UD.
void bring_up(ibv_qp* qp, std::uint32_t peer);
void connect(ibv_qp* a, ibv_qp* b);
[[nodiscard]] int modify_state(ibv_qp* qp, ibv_qp_state state);

/// The next completion, which must come within seconds.
[[nodiscard]] ibv_wc next(ibv_cq* cq);
/// None comes for a while.
[[nodiscard]] bool is_empty(ibv_cq* cq);

[[nodiscard]] int post_recv(ibv_qp* qp, std::uint64_t wr_id, ibv_sge element);
/// Signaled.
[[nodiscard]] int post_send(ibv_qp* qp, std::uint64_t wr_id, ibv_wr_opcode opcode, ibv_sge element,
                            std::uint64_t remote_addr = 0, std::uint32_t rkey = 0);

/// fork(), once every other thread of the process sleeps: AddressSanitizer of clang 14 leaves the
/// locks of its allocator held in a child if a thread that begins or ends has them. A child that
/// hangs is ended by a signal.
[[nodiscard]] pid_t fork_while_others_sleep();

/// The verbs that are reached through the context.
[[nodiscard]] inline verbs_context& extended(ibv_context* context) {
  return *verbs_get_ctx(context);
}

}  // namespace rockhopper::test
