// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

// Names and rates: functions of their argument alone. The texts are those that users know.

#include <cstddef>

#include <infiniband/verbs.h>

namespace {

template <typename Value>
struct Text {
  Value value;
  const char* text;
};

template <typename Value, std::size_t kCount>
const char* text_of(const Text<Value> (&texts)[kCount], Value value) {
  for (const Text<Value>& text : texts) {
    if (text.value == value) return text.text;
  }
  return "unknown";
}

constexpr Text<ibv_node_type> kNodeTypes[] = {
    {IBV_NODE_CA, "InfiniBand channel adapter"},
    {IBV_NODE_SWITCH, "InfiniBand switch"},
    {IBV_NODE_ROUTER, "InfiniBand router"},
    {IBV_NODE_RNIC, "iWARP NIC"},
    {IBV_NODE_USNIC, "usNIC"},
    {IBV_NODE_USNIC_UDP, "usNIC UDP"},
    {IBV_NODE_UNSPECIFIED, "unspecified"},
};

constexpr Text<ibv_port_state> kPortStates[] = {
    {IBV_PORT_NOP, "no state change (NOP)"},
    {IBV_PORT_DOWN, "down"},
    {IBV_PORT_INIT, "init"},
    {IBV_PORT_ARMED, "armed"},
    {IBV_PORT_ACTIVE, "active"},
    {IBV_PORT_ACTIVE_DEFER, "active defer"},
};

constexpr Text<ibv_event_type> kEvents[] = {
    {IBV_EVENT_CQ_ERR, "CQ error"},
    {IBV_EVENT_QP_FATAL, "local work queue catastrophic error"},
    {IBV_EVENT_QP_REQ_ERR, "invalid request local work queue error"},
    {IBV_EVENT_QP_ACCESS_ERR, "local access violation work queue error"},
    {IBV_EVENT_COMM_EST, "communication established"},
    {IBV_EVENT_SQ_DRAINED, "send queue drained"},
    {IBV_EVENT_PATH_MIG, "path migrated"},
    {IBV_EVENT_PATH_MIG_ERR, "path migration request error"},
    {IBV_EVENT_DEVICE_FATAL, "local catastrophic error"},
    {IBV_EVENT_PORT_ACTIVE, "port active"},
    {IBV_EVENT_PORT_ERR, "port error"},
    {IBV_EVENT_LID_CHANGE, "LID change"},
    {IBV_EVENT_PKEY_CHANGE, "P_Key change"},
    {IBV_EVENT_SM_CHANGE, "SM change"},
    {IBV_EVENT_SRQ_ERR, "SRQ catastrophic error"},
    {IBV_EVENT_SRQ_LIMIT_REACHED, "SRQ limit reached"},
    {IBV_EVENT_QP_LAST_WQE_REACHED, "last WQE reached"},
    {IBV_EVENT_CLIENT_REREGISTER, "client reregistration"},
    {IBV_EVENT_GID_CHANGE, "GID table change"},
    {IBV_EVENT_WQ_FATAL, "WQ fatal"},
};

constexpr Text<ibv_wc_status> kStatuses[] = {
    {IBV_WC_SUCCESS, "success"},
    {IBV_WC_LOC_LEN_ERR, "local length error"},
    {IBV_WC_LOC_QP_OP_ERR, "local QP operation error"},
    {IBV_WC_LOC_EEC_OP_ERR, "local EE context operation error"},
    {IBV_WC_LOC_PROT_ERR, "local protection error"},
    {IBV_WC_WR_FLUSH_ERR, "Work Request Flushed Error"},
    {IBV_WC_MW_BIND_ERR, "memory management operation error"},
    {IBV_WC_BAD_RESP_ERR, "bad response error"},
    {IBV_WC_LOC_ACCESS_ERR, "local access error"},
    {IBV_WC_REM_INV_REQ_ERR, "remote invalid request error"},
    {IBV_WC_REM_ACCESS_ERR, "remote access error"},
    {IBV_WC_REM_OP_ERR, "remote operation error"},
    {IBV_WC_RETRY_EXC_ERR, "transport retry counter exceeded"},
    {IBV_WC_RNR_RETRY_EXC_ERR, "RNR retry counter exceeded"},
    {IBV_WC_LOC_RDD_VIOL_ERR, "local RDD violation error"},
    {IBV_WC_REM_INV_RD_REQ_ERR, "remote invalid RD request"},
    {IBV_WC_REM_ABORT_ERR, "aborted error"},
    {IBV_WC_INV_EECN_ERR, "invalid EE context number"},
    {IBV_WC_INV_EEC_STATE_ERR, "invalid EE context state"},
    {IBV_WC_FATAL_ERR, "fatal error"},
    {IBV_WC_RESP_TIMEOUT_ERR, "response timeout error"},
    {IBV_WC_GENERAL_ERR, "general error"},
    {IBV_WC_TM_ERR, "TM error"},
    {IBV_WC_TM_RNDV_INCOMPLETE, "TM software rendezvous"},
};

struct Rate {
  ibv_rate rate;
  int multiple;  ///< of 2.5 Gb/s; -1: none is defined
  int mbps;      ///< on the wire, line coding included where the rate's name leaves it out
};
constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},       {IBV_RATE_5_GBPS, 2, 5000},
    {IBV_RATE_10_GBPS, 4, 10000},       {IBV_RATE_20_GBPS, 8, 20000},
    {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},      {IBV_RATE_80_GBPS, 32, 80000},
    {IBV_RATE_120_GBPS, 48, 120000},    {IBV_RATE_14_GBPS, -1, 14062},
    {IBV_RATE_56_GBPS, -1, 56250},      {IBV_RATE_112_GBPS, -1, 112500},
    {IBV_RATE_168_GBPS, -1, 168750},    {IBV_RATE_25_GBPS, -1, 25781},
    {IBV_RATE_100_GBPS, -1, 103125},    {IBV_RATE_200_GBPS, -1, 206250},
    {IBV_RATE_300_GBPS, -1, 309375},    {IBV_RATE_28_GBPS, 11, 28125},
    {IBV_RATE_50_GBPS, 20, 53125},      {IBV_RATE_400_GBPS, 160, 425000},
    {IBV_RATE_600_GBPS, 240, 637500},   {IBV_RATE_800_GBPS, 320, 850000},
    {IBV_RATE_1200_GBPS, 480, 1275000},
};

const Rate* find_rate(ibv_rate rate) {
  for (const Rate& known : kRates) {
    if (known.rate == rate) return &known;
  }
  return nullptr;
}

}  // namespace

extern "C" {

const char* ibv_node_type_str(ibv_node_type type) { return text_of(kNodeTypes, type); }
const char* ibv_port_state_str(ibv_port_state state) { return text_of(kPortStates, state); }
const char* ibv_event_type_str(ibv_event_type event) { return text_of(kEvents, event); }
const char* ibv_wc_status_str(ibv_wc_status status) { return text_of(kStatuses, status); }

int ibv_rate_to_mult(ibv_rate rate) {
  const Rate* known = find_rate(rate);
  return known != nullptr ? known->multiple : -1;
}

int ibv_rate_to_mbps(ibv_rate rate) {
  const Rate* known = find_rate(rate);
  return known != nullptr ? known->mbps : -1;
}

ibv_rate mult_to_ibv_rate(int multiple) {
  for (const Rate& known : kRates) {
    if (multiple > 0 && known.multiple == multiple) return known.rate;
  }
  return IBV_RATE_MAX;
}

ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const Rate& known : kRates) {
    if (known.mbps == mbps) return known.rate;
  }
  return IBV_RATE_MAX;
}

}  // extern "C"
