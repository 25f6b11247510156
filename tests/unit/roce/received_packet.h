// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include "roce/rx_packet.h"
#include "roce/wire/icrc.h"
#include "roce/wire/packet.h"
#include "stack/mbuf_pool.h"

namespace rockhopper::test {

/// A packet as an engine hands it to a queue pair, without an engine: an mbuf that begins with the
/// BTH, without payload. Its ICRC is 0, which nobody looks at any more.
class ReceivedPacket {
 public:
  explicit ReceivedPacket(wire::Headers headers) : mbuf_(rte_pktmbuf_alloc(pool())) {
    const wire::OpcodeInfo& info = wire::info(headers);
    const std::uint32_t length =
        static_cast<std::uint32_t>(wire::Bth::kSize + wire::Icrc::kSize) + info.header_bytes;
    auto* bytes = reinterpret_cast<std::uint8_t*>(
        rte_pktmbuf_append(mbuf_, static_cast<std::uint16_t>(length)));
    std::fill_n(bytes, length, std::uint8_t{0});
    EXPECT_GT(wire::emit_headers(headers, info, {bytes, length}), 0u);
    EXPECT_EQ(wire::parse_headers({bytes, length}, length, headers_), wire::ParseResult::ok);
  }
  ReceivedPacket(const ReceivedPacket&) = delete;
  ReceivedPacket& operator=(const ReceivedPacket&) = delete;
  ~ReceivedPacket() { rte_pktmbuf_free(mbuf_); }

  [[nodiscard]] roce::RxPacket rx() const {
    return {headers_, {mbuf_, headers_.payload_offset, headers_.payload_length}, 0};
  }

 private:
  [[nodiscard]] static rte_mempool* pool() {
    // Ends with the process: what is held may be freed late.
    static auto* const made =
        new stack::MbufPool(stack::MbufPool::create({.size = 255, .cache = 0}).value());
    return made->get();
  }

  rte_mbuf* mbuf_;
  wire::Headers headers_;
};

}  // namespace rockhopper::test
