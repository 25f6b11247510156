// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pcap/pcap.h>

namespace rockhopper::apps::publish {

struct CapturedPacket {
  std::uint64_t time_ns = 0;
  std::string bytes;
  std::size_t more = 0;  ///< bytes that were not captured
};

/// Writes a capture with time stamps in nanoseconds.
inline void write_capture(const std::string& path, const std::vector<CapturedPacket>& packets) {
  pcap_t* capture =
      pcap_open_dead_with_tstamp_precision(DLT_EN10MB, 1 << 18, PCAP_TSTAMP_PRECISION_NANO);
  ASSERT_NE(capture, nullptr);
  pcap_dumper_t* file = pcap_dump_open(capture, path.c_str());
  ASSERT_NE(file, nullptr);
  for (const CapturedPacket& packet : packets) {
    pcap_pkthdr header{};
    header.ts.tv_sec = static_cast<time_t>(packet.time_ns / 1'000'000'000);
    header.ts.tv_usec = static_cast<suseconds_t>(packet.time_ns % 1'000'000'000);
    header.caplen = static_cast<bpf_u_int32>(packet.bytes.size());
    header.len = static_cast<bpf_u_int32>(packet.bytes.size() + packet.more);
    pcap_dump(reinterpret_cast<u_char*>(file), &header,
              reinterpret_cast<const u_char*>(packet.bytes.data()));
  }
  pcap_dump_close(file);
  pcap_close(capture);
}

}  // namespace rockhopper::apps::publish
