// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/support/capture.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <regex>
#include <stdexcept>
#include <utility>

#include <pcap/pcap.h>

namespace rockhopper::test {
namespace {

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

std::size_t be16(std::span<const std::uint8_t> bytes, std::size_t offset) {
  return static_cast<std::size_t>(bytes[offset] << 8 | bytes[offset + 1]);
}

}  // namespace

std::filesystem::path captures_directory() {
  return std::filesystem::path(ROCKHOPPER_TEST_DATA) / "captures";
}

std::vector<std::filesystem::path> pcap_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".pcap") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::map<std::string, std::size_t> packets_by_index() {
  std::ifstream index(captures_directory() / "INDEX.md");
  require(index.good(), "no INDEX.md in " + captures_directory().string());
  const std::regex row(R"(\| (\S+\.pcap) \| (\d+) \|.*)");
  std::map<std::string, std::size_t> packets;
  for (std::string line; std::getline(index, line);) {
    std::smatch match;
    if (std::regex_match(line, match, row)) packets[match[1]] = std::stoul(match[2]);
  }
  return packets;
}

std::vector<Bytes> read_frames(const std::filesystem::path& file) {
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> pcap(
      pcap_open_offline(file.c_str(), error.data()), &pcap_close);
  require(pcap != nullptr, file.string() + ": " + error.data());
  require(pcap_datalink(pcap.get()) == DLT_EN10MB, file.string() + ": not Ethernet");

  std::vector<Bytes> frames;
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  int result = 0;
  while ((result = pcap_next_ex(pcap.get(), &header, &data)) == 1) {
    require(header->caplen == header->len, file.string() + ": a frame was cut by the capture");
    frames.emplace_back(data, data + header->caplen);
  }
  require(result == PCAP_ERROR_BREAK, file.string() + ": " + pcap_geterr(pcap.get()));
  return frames;
}

std::optional<RocePacket> roce_packet(std::span<const std::uint8_t> frame) {
  constexpr std::size_t kEthernet = 14;
  constexpr std::size_t kUdp = 8;
  constexpr std::size_t kIpv4Header = 20;
  if (frame.size() < kEthernet + kIpv4Header + kUdp) return std::nullopt;
  const std::size_t ether_type = be16(frame, 12);
  const auto ip = frame.subspan(kEthernet);
  const bool is_ipv4 = ether_type == 0x0800;
  if (!is_ipv4 && ether_type != 0x86dd) return std::nullopt;

  const std::size_t ip_header = is_ipv4 ? static_cast<std::size_t>(ip[0] & 0xf) * 4 : 40;
  const std::size_t ip_length = is_ipv4 ? be16(ip, 2) : 40 + be16(ip, 4);
  constexpr std::uint8_t kUdpProtocol = 17;
  const std::uint8_t protocol = is_ipv4 ? ip[9] : ip[6];
  if (protocol != kUdpProtocol || ip_header + kUdp > ip.size() || be16(ip, ip_header + 2) != 4791) {
    return std::nullopt;
  }
  require(ip_length <= ip.size(), "IP length beyond the frame");
  require(ip_header + kUdp + 16 <= ip_length, "no room for BTH and ICRC");
  require(ip_header + be16(ip, ip_header + 4) == ip_length, "UDP and IP lengths disagree");

  const auto packet = ip.first(ip_length);
  return RocePacket{.bytes = Bytes(packet.begin(), packet.end()), .bth = ip_header + kUdp};
}

std::vector<RocePacket> read_roce_packets(const std::filesystem::path& file) {
  std::vector<RocePacket> packets;
  for (const Bytes& frame : read_frames(file)) {
    if (auto packet = roce_packet(frame)) packets.push_back(std::move(*packet));
  }
  return packets;
}

}  // namespace rockhopper::test
