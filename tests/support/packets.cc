// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/support/packets.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>
#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

namespace rockhopper::test {

rte_mbuf* make_packet(rte_mempool* pool, const Bytes& bytes, std::size_t segment) {
  rte_mbuf* head = nullptr;
  std::size_t done = 0;
  do {
    rte_mbuf* part = rte_pktmbuf_alloc(pool);
    if (part == nullptr) {
      ADD_FAILURE() << "no mbuf left";
      rte_pktmbuf_free(head);
      return nullptr;
    }
    std::size_t room = rte_pktmbuf_tailroom(part);
    if (segment != 0) room = std::min(room, segment);
    const auto take = static_cast<std::uint16_t>(std::min(room, bytes.size() - done));
    char* to = rte_pktmbuf_append(part, take);
    if (take > 0) std::memcpy(to, bytes.data() + done, take);
    done += take;
    if (head == nullptr) {
      head = part;
    } else {
      EXPECT_EQ(rte_pktmbuf_chain(head, part), 0);
    }
  } while (done < bytes.size());
  return head;
}

Bytes bytes_of(const rte_mbuf* packet) {
  Bytes bytes;
  const std::uint32_t length = packet->pkt_len;
  for (; packet != nullptr; packet = packet->next) {
    const auto* data = rte_pktmbuf_mtod(packet, const std::uint8_t*);
    bytes.insert(bytes.end(), data, data + packet->data_len);
  }
  EXPECT_EQ(bytes.size(), length);
  return bytes;
}

Bytes random_bytes(stack::Random& random, std::size_t size) {
  Bytes bytes(size);
  for (auto& byte : bytes) {
    byte = static_cast<std::uint8_t>(random.next());
  }
  return bytes;
}

Bytes roce_frame(std::uint8_t opcode, std::uint32_t psn, const Bytes& payload) {
  constexpr std::size_t kBth = 12;
  constexpr std::size_t kIcrc = 4;
  const std::size_t udp_length = sizeof(rte_udp_hdr) + kBth + payload.size() + kIcrc;

  rte_ether_hdr ether{};
  ether.dst_addr = {{2, 0, 0, 0, 0, 2}};
  ether.src_addr = {{2, 0, 0, 0, 0, 1}};
  ether.ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
  rte_ipv4_hdr ip{};
  ip.version_ihl = RTE_IPV4_VHL_DEF;
  ip.total_length = rte_cpu_to_be_16(static_cast<std::uint16_t>(sizeof(ip) + udp_length));
  ip.fragment_offset = rte_cpu_to_be_16(RTE_IPV4_HDR_DF_FLAG);
  ip.time_to_live = 64;
  ip.next_proto_id = IPPROTO_UDP;
  ip.src_addr = rte_cpu_to_be_32(RTE_IPV4(10, 0, 0, 1));
  ip.dst_addr = rte_cpu_to_be_32(RTE_IPV4(10, 0, 0, 2));
  ip.hdr_checksum = rte_ipv4_cksum(&ip);
  rte_udp_hdr udp{};
  udp.src_port = rte_cpu_to_be_16(0xC000);
  udp.dst_port = rte_cpu_to_be_16(4791);
  udp.dgram_len = rte_cpu_to_be_16(static_cast<std::uint16_t>(udp_length));
  const Bytes bth = {opcode,
                     0x40,
                     0xff,
                     0xff,
                     0,
                     0,
                     0,
                     0x11,
                     0,
                     static_cast<std::uint8_t>(psn >> 16),
                     static_cast<std::uint8_t>(psn >> 8),
                     static_cast<std::uint8_t>(psn)};

  Bytes frame;
  const auto append = [&frame](const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    frame.insert(frame.end(), bytes, bytes + size);
  };
  append(&ether, sizeof(ether));
  append(&ip, sizeof(ip));
  append(&udp, sizeof(udp));
  append(bth.data(), bth.size());
  append(payload.data(), payload.size());
  frame.resize(frame.size() + kIcrc);
  return frame;
}

}  // namespace rockhopper::test
