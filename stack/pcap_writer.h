// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stack/counter.h"
#include "stack/error.h"
#include "stack/link.h"

namespace rockhopper::stack {

struct PcapConfig {
  std::string path{};
  int file = -1;  ///< an open file to write into, not owned; `path` is then what people call it
  std::string interface_name = "rockhopper";
  std::uint32_t snap_length = 65535;  ///< bytes kept of a frame
  std::uint64_t time_offset_ns = 0;   ///< added to now_ns: TscClock::wall_offset_ns() for real time
  std::uint64_t flush_interval_ns = 100'000'000;  ///< packets reach the file after this at latest
};

struct PcapCounters {
  Counter packets;  ///< captured, in both directions
  Counter lost;     ///< not written, since the file failed
};

/// Captures what passes a link into a pcapng file: both directions, nanoseconds, and for received
/// packets that were dropped above a comment "drop: REASON". Packets of a burst wait until the next
/// rx_burst for that. A failing file (disk full) ends the capture with one message and never
/// disturbs the traffic; the file stays readable, as only whole blocks are written to it. Outgoing
/// packets show the IPv4 checksum that the device will fill in. Comments need this to be the
/// outermost link: another that copies packets above it hides which packet a drop concerns.
class PcapWriter final : public Link, public DropObserver {
 public:
  /// `inner` is not owned. Creates or truncates the file; ErrorCode::busy if another PcapWriter, of
  /// this process or another, writes it.
  [[nodiscard]] static Expected<std::unique_ptr<PcapWriter>> open(Link& inner,
                                                                  const PcapConfig& config);
  ~PcapWriter() override;

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override {
    return inner_.next_deadline_ns();
  }
  [[nodiscard]] rte_ether_addr mac() const override { return inner_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return inner_.mtu(); }

  void on_drop(const rte_mbuf* packet, const char* reason) override;

  /// Writes out all packets seen. False if the file has failed, now or before.
  bool flush();
  [[nodiscard]] const PcapCounters& counters() const { return counters_; }

 private:
  enum class Direction : std::uint32_t { inbound = 1, outbound = 2 };  // as in epb_flags

  /// A captured packet that may still get a comment.
  struct Record {
    const rte_mbuf* packet;  ///< for on_drop only, never read; nullptr when outbound
    const char* comment;
    std::uint64_t time_ns;
    std::uint32_t offset;  ///< of its bytes in staged_
    std::uint32_t captured;
    std::uint32_t length;
    Direction direction;
  };

  PcapWriter(Link& inner, const PcapConfig& config, int file);
  void stage(const rte_mbuf* packet, Direction direction, std::uint64_t now_ns);
  void encode_staged();
  void encode(const Record& record);
  void write_out();
  void give_up(std::size_t written, int error);
  void write_headers();

  Link& inner_;
  PcapConfig config_;
  int file_;
  bool failed_ = false;
  std::uint64_t last_write_ns_ = 0;
  std::vector<Record> records_;
  std::vector<std::uint8_t> staged_;  ///< bytes of records_
  std::vector<std::uint8_t> blocks_;  ///< finished blocks, not yet in the file
  PcapCounters counters_;
};

}  // namespace rockhopper::stack
