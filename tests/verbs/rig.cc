// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/verbs/rig.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "apps/verbs/abi/device_object.h"
#include "tests/support/child_process.h"

extern "C" rockhopper::verbs::GetVerbsTable rockhopper_verbs;

namespace rockhopper::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(20);
constexpr auto kAWhile = std::chrono::milliseconds(20);
/// More than what a child does may take with its own patience.
constexpr unsigned kChildSeconds = 90;

/// Whether the kernel says so of a thread of this process, or it has ended.
bool sleeps(const std::filesystem::path& thread) {
  std::ifstream file(thread / "stat");
  std::string stat;
  std::getline(file, stat);
  const std::size_t name_end = stat.rfind(") ");  // the state is behind the name
  return name_end == std::string::npos || stat[name_end + 2] == 'S';
}

bool all_others_sleep() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  const std::string own = std::to_string(gettid());
  return std::all_of(begin(threads), end(threads), [&own](const auto& thread) {
    return thread.path().filename() == own || sleeps(thread.path());
  });
}

}  // namespace

const verbs::VerbsTable& table() {
  static const verbs::VerbsTable* const found = rockhopper_verbs(verbs::kTableVersion);
  return *found;
}

bool progress_is(std::string_view mode) {
  const char* value = std::getenv("ROCKHOPPER_PROGRESS");
  return value != nullptr && value == mode;
}

ibv_device* device() {
  static verbs::DeviceObject* const object = [] {
    auto* made = new verbs::DeviceObject{};
    std::strcpy(made->device.name, "rh0");
    made->guid = 0x0200'00ff'fe00'0001;
    return made;
  }();
  return &object->device;
}

ibv_context* open_device() {
  // No other process is at this segment.
  static const TemporaryDirectory segment;
  setenv("ROCKHOPPER_SEGMENT", segment.path().c_str(), 1);
  setenv("ROCKHOPPER_ADDRESSES", "192.0.2.1/24,fd00::1/64", 1);
  ibv_context* context = table().open_device(device());
  EXPECT_NE(context, nullptr) << std::strerror(errno);
  return context;
}

End::End(int cqe, ibv_comp_channel* (*make_channel)(ibv_context*))
    : context(open_device()),
      pd(table().alloc_pd(context)),
      channel(make_channel == nullptr ? nullptr : make_channel(context)),
      cq(table().create_cq(context, cqe, this, channel, 0)),
      bytes(kBytes),
      mr(table().reg_mr(pd, bytes.data(), bytes.size(), kAccess)) {
  EXPECT_NE(pd, nullptr);
  EXPECT_NE(cq, nullptr);
  EXPECT_NE(mr, nullptr);
}

End::~End() {
  destroy_qps();
  EXPECT_EQ(table().dereg_mr(mr), 0);
  EXPECT_EQ(table().destroy_cq(cq), 0);
  if (channel != nullptr) {
    EXPECT_EQ(table().destroy_comp_channel(channel), 0);
  }
  EXPECT_EQ(table().dealloc_pd(pd), 0);
  EXPECT_EQ(table().close_device(context), 0);
}

void End::destroy_qps() {
  for (ibv_qp* qp : qps) {
    EXPECT_EQ(table().destroy_qp(qp), 0);
  }
  qps.clear();
}

ibv_qp* End::create_qp(ibv_qp_type type, ibv_srq* srq) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.srq = srq;
  init.cap = {.max_send_wr = 32,
              .max_recv_wr = 32,
              .max_send_sge = 4,
              .max_recv_sge = 4,
              .max_inline_data = 128};
  init.qp_type = type;
  ibv_qp* qp = table().create_qp(pd, &init);
  EXPECT_NE(qp, nullptr) << std::strerror(errno);
  if (qp != nullptr) qps.push_back(qp);
  return qp;
}

ibv_sge End::element(std::size_t offset, std::uint32_t length) const {
  return {.addr = reinterpret_cast<std::uint64_t>(bytes.data() + offset),
          .length = length,
          .lkey = mr->lkey};
}

ibv_gid own_gid(ibv_context* context, int index) {
  ibv_gid gid{};
  EXPECT_EQ(table().query_gid(context, 1, index, &gid), 0);
  return gid;
}

ibv_ah_attr own_address(ibv_context* context, std::uint8_t index) {
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = 1;
  attributes.grh.dgid = own_gid(context, index);
  attributes.grh.sgid_index = index;
  attributes.grh.hop_limit = 64;
  return attributes;
}

void bring_up(ibv_qp* qp, std::uint32_t peer) {
  const bool ud = qp->qp_type == IBV_QPT_UD;
  const bool rc = !ud && qp->qp_type != IBV_QPT_UC;
  const bool sends = qp->qp_type != IBV_QPT_XRC_RECV;
  const bool receives = qp->qp_type != IBV_QPT_XRC_SEND;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qkey = kQkey;
  attributes.qp_access_flags = End::kAccess;
  EXPECT_EQ(table().modify_qp(qp, &attributes,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                  (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
            0);
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer;
  attributes.rq_psn = 100;
  attributes.max_dest_rd_atomic = 16;
  attributes.min_rnr_timer = 1;
  attributes.ah_attr = own_address(qp->context);
  int mask = IBV_QP_STATE;
  if (!ud) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (rc && receives) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  EXPECT_EQ(table().modify_qp(qp, &attributes, mask), 0);
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = 100;
  attributes.timeout = 14;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic = 16;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (rc) mask |= IBV_QP_TIMEOUT;
  if (rc && sends) mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  EXPECT_EQ(table().modify_qp(qp, &attributes, mask), 0);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
}

void connect(ibv_qp* a, ibv_qp* b) {
  bring_up(a, b->qp_num);
  bring_up(b, a->qp_num);
}

int modify_state(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  return table().modify_qp(qp, &attributes, IBV_QP_STATE);
}

ibv_wc next(ibv_cq* cq) {
  ibv_wc completion{};
  const auto deadline = Clock::now() + kPatience;
  while (ibv_poll_cq(cq, 1, &completion) == 0) {
    if (Clock::now() > deadline) {
      ADD_FAILURE() << "no completion came";
      completion.status = IBV_WC_GENERAL_ERR;
      break;
    }
    std::this_thread::yield();
  }
  return completion;
}

bool is_empty(ibv_cq* cq) {
  ibv_wc completion{};
  const auto deadline = Clock::now() + kAWhile;
  while (Clock::now() < deadline) {
    if (ibv_poll_cq(cq, 1, &completion) != 0) return false;
  }
  return true;
}

int post_recv(ibv_qp* qp, std::uint64_t wr_id, ibv_sge element) {
  ibv_recv_wr wr{.wr_id = wr_id, .next = nullptr, .sg_list = &element, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

int post_send(ibv_qp* qp, std::uint64_t wr_id, ibv_wr_opcode opcode, ibv_sge element,
              std::uint64_t remote_addr, std::uint32_t rkey) {
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &element;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {.remote_addr = remote_addr, .rkey = rkey};
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &wr, &bad);
}

pid_t fork_while_others_sleep() {
  const auto deadline = Clock::now() + kPatience;
  while (!all_others_sleep() && Clock::now() < deadline) {
    std::this_thread::yield();
  }
  const pid_t child = fork();
  if (child == 0) alarm(kChildSeconds);
  return child;
}

}  // namespace rockhopper::test
