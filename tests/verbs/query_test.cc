// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What the device and its objects tell of themselves.
#include <cerrno>
#include <cstring>

#include <endian.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/verbs/rig.h"

namespace rockhopper::test {
namespace {

TEST(Queries, Device) {
  const End end;
  ibv_device_attr attributes{};
  ASSERT_EQ(table().query_device(end.context, &attributes), 0);
  EXPECT_EQ(be64toh(attributes.node_guid), 0x0200'00ff'fe00'0001u);
  EXPECT_NE(attributes.vendor_id, 0u);
  EXPECT_EQ(attributes.max_qp, 16'384);
  EXPECT_EQ(attributes.max_sge, 32);
  EXPECT_EQ(attributes.max_qp_rd_atom, 128);
  EXPECT_EQ(attributes.phys_port_cnt, 1);
  EXPECT_EQ(attributes.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_NE(attributes.device_cap_flags & IBV_DEVICE_XRC, 0u);

  // A program of another header has a shorter structure, or a longer one.
  struct {
    ibv_device_attr_ex known;
    std::uint8_t more[64];
  } longer;
  std::memset(&longer, 0xff, sizeof longer);
  ASSERT_EQ(
      extended(end.context).query_device_ex(end.context, nullptr, &longer.known, sizeof longer), 0);
  EXPECT_EQ(longer.more[63], 0);
  EXPECT_EQ(longer.known.pci_atomic_caps.fetch_add, IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP);
  EXPECT_EQ(longer.known.odp_caps.general_caps,
            static_cast<std::uint64_t>(IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT));
  std::memset(&longer, 0xff, sizeof longer);
  ASSERT_EQ(extended(end.context)
                .query_device_ex(end.context, nullptr, &longer.known, sizeof(ibv_device_attr)),
            0);
  EXPECT_EQ(longer.known.comp_mask, UINT32_MAX);
}

TEST(Queries, ADescriptorForCommandsCanBeDuplicated) {
  const End end;
  const int copy = dup(end.context->cmd_fd);
  EXPECT_GE(copy, 0);
  close(copy);
}

TEST(Queries, Port) {
  const End end;
  ibv_port_attr attributes{};
  ASSERT_EQ(extended(end.context).query_port(end.context, 1, &attributes, sizeof attributes), 0);
  EXPECT_EQ(attributes.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(attributes.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(attributes.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(attributes.gid_tbl_len, 64);
  EXPECT_EQ(extended(end.context).query_port(end.context, 2, &attributes, sizeof attributes),
            EINVAL);
  attributes.port_cap_flags2 = 0x7777;
  ASSERT_EQ(
      table().query_port(end.context, 1, reinterpret_cast<_compat_ibv_port_attr*>(&attributes)), 0);
  EXPECT_EQ(attributes.port_cap_flags2, 0x7777);  // behind what that form knows
}

TEST(Queries, Gids) {
  const End end;
  ibv_gid_entry entry{};
  ASSERT_EQ(table().query_gid_ex(end.context, 1, 0, &entry, 0, sizeof entry), 0);
  EXPECT_EQ(entry.gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_ROCE_V2));
  const std::uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1};
  EXPECT_EQ(std::memcmp(entry.gid.raw, mapped, sizeof mapped), 0);
  EXPECT_EQ(table().query_gid_ex(end.context, 1, 63, &entry, 0, sizeof entry), ENODATA);
  EXPECT_EQ(table().query_gid_ex(end.context, 1, 64, &entry, 0, sizeof entry), EINVAL);
  ibv_gid_entry entries[64];
  EXPECT_EQ(table().query_gid_table(end.context, entries, 64, 0, sizeof entries[0]), 3);
  EXPECT_EQ(entries[1].gid_index, 1u);
  EXPECT_EQ(table().query_gid_table(end.context, entries, 1, 0, sizeof entries[0]), -EINVAL);
  ibv_gid gid{};
  EXPECT_EQ(table().query_gid(end.context, 1, 64, &gid), -1);
  __be16 pkey = 0;
  ASSERT_EQ(table().query_pkey(end.context, 1, 0, &pkey), 0);
  EXPECT_EQ(be16toh(pkey), 0xffff);
  EXPECT_EQ(table().get_pkey_index(end.context, 1, pkey), 0);
  EXPECT_EQ(table().get_pkey_index(end.context, 1, htobe16(0x1234)), -1);
}

TEST(Queries, QueuePair) {
  End end;
  ibv_qp* qp = end.create_qp(IBV_QPT_RC);
  bring_up(qp, 0x123456);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(table().query_qp(qp, &attributes, 0, &init), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attributes.dest_qp_num, 0x123456u);
  EXPECT_EQ(attributes.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attributes.timeout, 14);
  EXPECT_EQ(attributes.sq_psn, 100u);
  EXPECT_EQ(attributes.ah_attr.is_global, 1);
  EXPECT_EQ(attributes.ah_attr.grh.hop_limit, 64);
  EXPECT_GE(attributes.cap.max_send_wr, 32u);
  EXPECT_GE(init.cap.max_inline_data, 128u);
  EXPECT_EQ(init.send_cq, end.cq);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  ibv_ece ece{};
  EXPECT_EQ(table().query_ece(qp, &ece), EOPNOTSUPP);
  EXPECT_EQ(table().set_ece(qp, &ece), EOPNOTSUPP);
}

TEST(Queries, PollingOneCompletionAfterTheOther) {
  End end;
  ibv_cq_init_attr_ex init{};
  init.cqe = 16;
  init.wc_flags =
      IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* cq = extended(end.context).create_cq_ex(end.context, &init);
  ASSERT_NE(cq, nullptr);
  ibv_poll_cq_attr poll{};
  EXPECT_EQ(ibv_start_poll(cq, &poll), ENOENT);
  ibv_qp_init_attr qp_init{};
  qp_init.send_cq = qp_init.recv_cq = ibv_cq_ex_to_cq(cq);
  qp_init.cap = {.max_send_wr = 4,
                 .max_recv_wr = 4,
                 .max_send_sge = 1,
                 .max_recv_sge = 1,
                 .max_inline_data = 0};
  qp_init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = table().create_qp(end.pd, &qp_init);
  // As much as there is for the element: programs rely on that.
  EXPECT_GE(qp_init.cap.max_inline_data, sizeof(ibv_sge));
  bring_up(qp, qp->qp_num);  // to itself
  ASSERT_EQ(post_recv(qp, 5, end.element(0, 64)), 0);
  ASSERT_EQ(post_send(qp, 6, IBV_WR_SEND, end.element(64, 33)), 0);
  int result = ENOENT;
  for (int i = 0; i < 1'000'000 && result == ENOENT; ++i) {
    result = ibv_start_poll(cq, &poll);
  }
  ASSERT_EQ(result, 0);
  EXPECT_EQ(cq->wr_id, 5u);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(cq), 33u);
  EXPECT_EQ(ibv_wc_read_qp_num(cq), qp->qp_num);
  EXPECT_NE(ibv_wc_read_completion_ts(cq), 0u);
  ibv_end_poll(cq);
  EXPECT_EQ(next(ibv_cq_ex_to_cq(cq)).wr_id, 6u);
  init.wc_flags = IBV_WC_EX_WITH_TM_INFO;
  EXPECT_EQ(extended(end.context).create_cq_ex(end.context, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(table().destroy_qp(qp), 0);
  EXPECT_EQ(table().destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

}  // namespace
}  // namespace rockhopper::test
