// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

// Verbs of IBVERBS_1.15 to 1.18, which Debian 12 and 13 do not declare: a program that was built
// with a newer rdma-core loads, and is told that the device has none of them. Without declarations
// in sight, as those of a newer <infiniband/verbs.h> would disagree; only how many arguments there
// are, and whether a pointer is returned, matters to a caller. Besides, what librdmacm calls for
// answers of /dev/infiniband/rdma_cm, which is not there.

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "apps/verbs/abi/report.h"

namespace {

int unsupported() {
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}

/// For those that return a file descriptor.
int no_descriptor() {
  errno = EOPNOTSUPP;
  return -1;
}

void* no_object() {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

extern "C" {

void* ibv_alloc_dmah(void*, void*) { return no_object(); }
int ibv_dealloc_dmah(void*) { return unsupported(); }
void* ibv_reg_mr_ex(void*, void*) { return no_object(); }

int ibv_dm_export_dmabuf_fd(void*) { return no_descriptor(); }
int ibv_query_port_speed(void*, std::uint32_t, std::uint64_t*) { return unsupported(); }

void* ibv_alloc_buf(void*, std::size_t, void**) { return no_object(); }
void ibv_free_buf(void*) {}
void* ibv_reg_buf_mr(void*, void*, void*, std::size_t, int) { return no_object(); }

// NOLINTNEXTLINE(readability-identifier-naming): libibverbs exports it by that name.
int _ibv_query_comp_cntr_caps(void*, void*, std::size_t) { return unsupported(); }
void* ibv_create_comp_cntr(void*, void*) { return no_object(); }
int ibv_destroy_comp_cntr(void*) { return unsupported(); }
int ibv_export_buf_dmabuf_fd(void*) { return no_descriptor(); }
int ibv_inc_comp_cntr(void*, std::uint64_t) { return unsupported(); }
int ibv_inc_err_comp_cntr(void*, std::uint64_t) { return unsupported(); }
int ibv_qp_attach_comp_cntr(void*, void*, void*) { return unsupported(); }
int ibv_read_comp_cntr(void*, std::uint64_t*) { return unsupported(); }
int ibv_read_err_comp_cntr(void*, std::uint64_t*) { return unsupported(); }
int ibv_set_comp_cntr(void*, std::uint64_t) { return unsupported(); }
int ibv_set_err_comp_cntr(void*, std::uint64_t) { return unsupported(); }

}  // extern "C"
