// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rockhopper::test {

using Bytes = std::vector<std::uint8_t>;

/// tests/data/captures: classic pcap files of Ethernet frames; its INDEX.md says what is in them.
[[nodiscard]] std::filesystem::path captures_directory();

/// The pcap files of a directory, sorted by name.
[[nodiscard]] std::vector<std::filesystem::path> pcap_files(const std::filesystem::path& directory);

/// File name to number of RoCEv2 packets, read from the table in the INDEX.md of the captures.
[[nodiscard]] std::map<std::string, std::size_t> packets_by_index();

/// All frames of a capture; throws std::runtime_error when it cannot be read to its end.
[[nodiscard]] std::vector<Bytes> read_frames(const std::filesystem::path& file);

/// A RoCEv2 packet without its Ethernet header and padding. Test code of its own: it shares nothing
/// with the stack under test.
struct RocePacket {
  Bytes bytes;          ///< from the IP header through the ICRC
  std::size_t bth = 0;  ///< offset of the BTH

  /// IP header, UDP header and BTH.
  [[nodiscard]] std::span<const std::uint8_t> l3() const {
    return std::span(bytes).first(bth + 12);
  }
  /// From the BTH through the ICRC.
  [[nodiscard]] std::span<const std::uint8_t> transport() const {
    return std::span(bytes).subspan(bth);
  }
};

/// The packet in an Ethernet frame; nothing when the frame is no UDP to port 4791 (neighbour
/// discovery, for one). Throws std::runtime_error when it is, but its lengths disagree.
[[nodiscard]] std::optional<RocePacket> roce_packet(std::span<const std::uint8_t> frame);

/// The RoCEv2 packets of a capture.
[[nodiscard]] std::vector<RocePacket> read_roce_packets(const std::filesystem::path& file);

}  // namespace rockhopper::test
