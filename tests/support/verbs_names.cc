// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/support/verbs_names.h"

#include <array>

namespace rockhopper::test {
namespace {

template <std::size_t N>
std::string name_of(const std::array<const char*, N>& names, unsigned number) {
  return number < N ? names[number] : "unknown";
}

}  // namespace

std::string wc_status_name(unsigned status) {
  static constexpr std::array<const char*, 22> kNames = {
      "success",          "loc_len_err",       "loc_qp_op_err",     "loc_eec_op_err",
      "loc_prot_err",     "wr_flush_err",      "mw_bind_err",       "bad_resp_err",
      "loc_access_err",   "rem_inv_req_err",   "rem_access_err",    "rem_op_err",
      "retry_exc_err",    "rnr_retry_exc_err", "loc_rdd_viol_err",  "rem_inv_rd_req_err",
      "rem_abort_err",    "inv_eecn_err",      "inv_eec_state_err", "fatal_err",
      "resp_timeout_err", "general_err"};
  return name_of(kNames, status);
}

std::string event_type_name(unsigned type) {
  static constexpr std::array<const char*, 19> kNames = {"cq_err",
                                                         "qp_fatal",
                                                         "qp_req_err",
                                                         "qp_access_err",
                                                         "comm_est",
                                                         "sq_drained",
                                                         "path_mig",
                                                         "path_mig_err",
                                                         "device_fatal",
                                                         "port_active",
                                                         "port_err",
                                                         "lid_change",
                                                         "pkey_change",
                                                         "sm_change",
                                                         "srq_err",
                                                         "srq_limit_reached",
                                                         "qp_last_wqe_reached",
                                                         "client_reregister",
                                                         "gid_change"};
  return name_of(kNames, type);
}

}  // namespace rockhopper::test
