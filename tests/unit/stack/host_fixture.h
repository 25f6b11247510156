// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "stack/host.h"
#include "stack/mbuf_pool.h"
#include "tests/unit/stack/frames.h"

namespace rockhopper::stack {

namespace frames = test::frames;
using frames::Bytes;

/// A received datagram, kept by value.
struct ReceivedDatagram {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port;
  std::uint16_t destination_port;
  std::uint16_t l3_offset;
  std::uint8_t traffic_class;
  std::uint8_t hop_limit;
  Bytes payload;

  friend bool operator==(const ReceivedDatagram&, const ReceivedDatagram&) = default;
};

/// Drives a host packet by packet in virtual time: 192.0.2.1/24 and 2001:db8::1/64, MAC kOurMac,
/// listening on UDP port 4791.
class HostFixture : public ::testing::Test, public UdpClient, public DropObserver {
 protected:
  static constexpr std::uint16_t kPort = 4791;
  static constexpr std::uint64_t kSecondNs = 1'000'000'000;

  void SetUp() override;
  void TearDown() override;

  /// Replaces the host by another one; the announcements of its addresses are taken out.
  void create(HostConfig config);
  [[nodiscard]] HostConfig default_config();

  /// Hands a frame over as one segment, or as segments of the given lengths.
  void receive(const Bytes& frame, const std::vector<std::size_t>& lengths = {},
               std::uint64_t offload_flags = 0);
  /// All that the host has to send at `now_ns_`.
  [[nodiscard]] std::vector<Bytes> sent();
  /// Lets time pass to `until_ns`, stopping at each deadline; what the host sent, with the time.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, Bytes>> run_until(std::uint64_t until_ns);
  [[nodiscard]] std::uint64_t counter(const std::string& name) const;
  /// Receives a frame that must be dropped for this reason and no other, without an answer.
  void expect_drop(const Bytes& frame, const std::string& reason);

  [[nodiscard]] static IpAddress address(const std::string& text) {
    return IpAddress::parse(text).value();
  }
  [[nodiscard]] static rte_ether_addr mac(const frames::Mac& bytes) {
    return {{bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]}};
  }
  [[nodiscard]] Flow flow_to(const std::string& destination) const;
  /// A payload sent through the flow, as a frame.
  [[nodiscard]] Bytes encapsulated(const Flow& flow, const Bytes& payload,
                                   std::uint16_t trailer = 0);

  void on_udp(const UdpDatagram& datagram, std::uint64_t now_ns) override;
  void on_drop(const rte_mbuf* packet, const char* reason) override;

  MbufPool pool_;
  std::unique_ptr<Host> host_;
  std::uint64_t now_ns_ = 1'000'000'000'000;
  std::vector<ReceivedDatagram> datagrams_;
  std::vector<std::string> drops_;
};

}  // namespace rockhopper::stack
