// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <infiniband/verbs.h>

namespace rockhopper::verbs {

// Verbs. Of a list with an error in the middle the requests before it are posted, and `bad` is the
// first that is not.
[[nodiscard]] int post_send(ibv_qp* verbs, ibv_send_wr* list, ibv_send_wr** bad) noexcept;
[[nodiscard]] int post_recv(ibv_qp* verbs, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept;
[[nodiscard]] int post_srq_recv(ibv_srq* verbs, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept;

}  // namespace rockhopper::verbs
