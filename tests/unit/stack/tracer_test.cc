// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/tracer.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "stack/mbuf_pool.h"
#include "tests/support/packets.h"
#include "tests/unit/stack/frames.h"

namespace rockhopper::test {
namespace {

using frames::Bytes;

class Summary : public ::testing::Test {
 protected:
  std::string of(const Bytes& frame) {
    rte_mbuf* packet = make_packet(pool_->get(), frame);
    std::string text = stack::summarize(packet);
    rte_pktmbuf_free(packet);
    return text;
  }

  Expected<stack::MbufPool> pool_ = stack::MbufPool::create({.size = 31, .cache = 0});
};

TEST_F(Summary, TellsOpcodeQpnAndPsnOfRoce) {
  EXPECT_EQ(of(roce_frame(0x0a, 0x010203, {})),
            "02:00:00:00:00:01 > 02:00:00:00:00:02 10.0.0.1.49152 > 10.0.0.2.4791 UDP 24 "
            "RoCE opcode 0x0a qpn 0x000011 psn 66051");
}

TEST_F(Summary, TellsNothingOfABthThatIsCutShort) {
  Bytes frame = roce_frame(0x0a, 0x010203, {});
  frame.resize(14 + 20 + 8 + 11);
  EXPECT_EQ(of(frame),
            "02:00:00:00:00:01 > 02:00:00:00:00:02 10.0.0.1.49152 > 10.0.0.2.4791 UDP 24");
}

TEST_F(Summary, TellsPortsOfOtherDatagrams) {
  const Bytes datagram = frames::udp(53, 4790, Bytes(12, 0xff));
  const Bytes packet = frames::ip_packet("fd00::1", "fd00::2", 17, datagram);
  EXPECT_EQ(of(frames::ethernet_tagged(frames::kPeerMac, frames::kOurMac, 5, 0x86dd, packet)),
            "02:11:22:33:44:55 > 02:aa:bb:cc:dd:ee vlan 5 fd00::1.53 > fd00::2.4790 UDP 20");
}

}  // namespace
}  // namespace rockhopper::test
