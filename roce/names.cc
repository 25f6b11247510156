// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <array>

#include "roce/async_event.h"
#include "roce/completion_queue.h"
#include "roce/counters.h"
#include "roce/name_table.h"
#include "roce/types.h"
#include "roce/work_request.h"

namespace rockhopper::roce {

std::string_view to_string(QpType type) {
  switch (type) {
    case QpType::rc:
      return "RC";
    case QpType::uc:
      return "UC";
    case QpType::ud:
      return "UD";
    case QpType::xrc_send:
      return "XRC initiator";
    case QpType::xrc_recv:
      return "XRC target";
    case QpType::extension_initiator:
      return "extension initiator";
    case QpType::extension_responder:
      return "extension responder";
  }
  return "invalid";
}

std::string_view to_string(QpState state) {
  static constexpr std::array<std::string_view, 7> kNames = {"RESET", "INIT", "RTR", "RTS",
                                                             "SQD",   "SQE",  "ERR"};
  return name_of(state, kNames);
}

std::string_view to_string(AsyncEventType type) {
  static constexpr std::array<std::string_view, 14> kNames = {
      "CQ error",
      "local work queue catastrophic error",
      "invalid request local work queue error",
      "local access violation work queue error",
      "communication established",
      "send queue drained",
      "SRQ limit reached",
      "last WQE reached",
      "port active",
      "port error",
      "P_Key change",
      "GID table change",
      "duplicate address",
      "path MTU exceeded"};
  return name_of(type, kNames);
}

std::string_view to_string(PostResult result) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "ok",
      "the queue is full",
      "the queue pair's state takes no such requests",
      "opcode, fields and queue pair do not fit together",
      "too many scatter/gather elements",
      "more inline data than the queue pair was made for",
      "the message is longer than 2^31 bytes"};
  return name_of(result, kNames);
}

std::string_view to_string(WcStatus status) {
  static constexpr std::array<std::string_view, 25> kNames = {"success",
                                                              "local length error",
                                                              "local QP operation error",
                                                              "local EE context operation error",
                                                              "local protection error",
                                                              "Work Request Flushed Error",
                                                              "memory bind operation error",
                                                              "bad response error",
                                                              "local access error",
                                                              "remote invalid request error",
                                                              "remote access error",
                                                              "remote operation error",
                                                              "transport retry counter exceeded",
                                                              "RNR retry counter exceeded",
                                                              "local RDD violation error",
                                                              "remote invalid RD request",
                                                              "aborted error",
                                                              "invalid EE context number",
                                                              "invalid EE context state",
                                                              "fatal error",
                                                              "response timeout error",
                                                              "general error",
                                                              "outcome unknown",
                                                              "lock not granted or lost",
                                                              "flushed with the scope of its lock"};
  return name_of(status, kNames);
}

std::string_view to_string(WcOpcode opcode) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "SEND",         "RDMA_WRITE",         "RDMA_READ",        "COMP_SWAP",        "FETCH_ADD",
      "RECV",         "RECV_RDMA_WITH_IMM", "LOCAL_INV",        "BIND_MW",          "REG_MR",
      "FLUSH",        "ATOMIC_WRITE",       "MASKED_COMP_SWAP", "MASKED_FETCH_ADD", "LOCK_ACQUIRE",
      "LOCK_RELEASE", "LOCK_CANCEL"};
  return name_of(opcode, kNames);
}

const char* to_string(DropReason reason) {
  switch (reason) {
#define X(name, text)    \
  case DropReason::name: \
    return #name;
    ROCKHOPPER_DROP_REASONS(X)
#undef X
    case DropReason::count:
      break;
  }
  return "invalid";
}

}  // namespace rockhopper::roce
