// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/device_limits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include <linux/if_packet.h>
#include <net/if.h>
#include <rte_ether.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stack/port.h"
#include "stack/unix_socket.h"

namespace rockhopper::stack {
namespace {

struct Traits {
  std::string_view driver;
  const char* queues_key;  ///< the devargs key for the number of queue pairs, if it needs one
  bool understates_frame;  ///< max_rx_pktlen is less than it carries
  bool sends_chains;       ///< whatever it offers
};

constexpr std::array kTraits = {
    Traits{"net_memif", nullptr, true, true},         Traits{"net_af_packet", "qpairs", true, true},
    Traits{"net_tap", nullptr, false, true},          Traits{"net_vhost", "queues", false, true},
    Traits{"net_virtio_user", "queues", false, true}, Traits{"net_ring", nullptr, false, true},
    Traits{"net_null", nullptr, false, true},
};

/// `driver` is exact, or has a device number behind it; "eth_" is the old form of "net_".
const Traits* find_traits(std::string_view driver) {
  if (driver.starts_with("eth_")) driver.remove_prefix(4);
  if (driver.starts_with("net_")) driver.remove_prefix(4);
  while (!driver.empty() && driver.back() >= '0' && driver.back() <= '9') {
    driver.remove_suffix(1);
  }
  for (const Traits& traits : kTraits) {
    if (traits.driver.substr(4) == driver) return &traits;
  }
  return nullptr;
}

constexpr std::uint32_t round_up(std::uint32_t value, std::uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Bytes of a ring frame before the packet: the kernel's tpacket_rcv() puts the link header so that
// the network header is aligned.
constexpr std::uint32_t kPacketRingOverhead =
    TPACKET_ALIGN(TPACKET2_HDRLEN + 16) + RTE_ETHER_HDR_LEN;

std::optional<std::uint32_t> number_of(const std::string& devargs, const std::string& key) {
  const std::string text = devargs_value(devargs, key);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// One frame, one buffer: memif of DPDK 22.11 overwrites unread packets when a frame of several
/// buffers meets a nearly full ring, and loses its place when mbufs run out amid such a frame. The
/// client's size holds for both ends, so the default fits every MTU up to 4300 that the server may
/// have, and larger ones that both have. No more than that: what both ends walk through then fits
/// the second-level TLB.
Expected<std::string> complete_memif(const std::string& devargs, std::uint32_t frame_bytes) {
  constexpr std::uint32_t kUsualMtu = 4300;
  const std::uint32_t least = round_up(std::max(frame_bytes, kUsualMtu + kFrameOverhead), 64);
  const std::string given = devargs_value(devargs, "bsize");
  if (given.empty()) return fmt::format("{},bsize={}", devargs, least);
  const auto size = number_of(devargs, "bsize");
  if (!size || *size < frame_bytes) {
    return fail(ErrorCode::invalid_argument,
                "bsize={} does not hold a frame of {} bytes: give bsize={} or leave it out", given,
                frame_bytes, least);
  }
  return devargs;
}

/// A frame of the ring must hold the packet, and frames must fill blocks of whole pages.
Expected<std::string> complete_af_packet(const std::string& devargs, std::uint32_t frame_bytes) {
  constexpr std::uint32_t kFrames = 512;
  const std::uint32_t needed = round_up(frame_bytes + kPacketRingOverhead, 2048);
  const std::string given = devargs_value(devargs, "framesz");
  if (given.empty()) {
    return fmt::format("{},blocksz={},framesz={},framecnt={}", devargs, needed * 2, needed,
                       kFrames);
  }
  const auto size = number_of(devargs, "framesz");
  if (!size || *size < frame_bytes + kPacketRingOverhead) {
    return fail(ErrorCode::invalid_argument,
                "framesz={} does not hold a frame of {} bytes: give framesz={},blocksz={} or leave "
                "them out",
                given, frame_bytes, needed, needed * 2);
  }
  return devargs;
}

/// The driver never chains: it wants room for a whole frame of its ring.
std::uint32_t packet_ring_frame(const std::string& devargs) {
  return number_of(devargs, "framesz").value_or(2048);
}

Expected<void> check_kernel_mtu(unsigned if_index, std::uint16_t mtu) {
  ifreq interface = {};
  if (if_indextoname(if_index, interface.ifr_name) == nullptr) return {};
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  const bool known = ioctl(fd, SIOCGIFMTU, &interface) == 0;
  close(fd);
  if (!known || interface.ifr_mtu >= mtu) return {};
  return fail(ErrorCode::invalid_argument,
              "interface {} has an MTU of {}: run \"ip link set {} mtu {}\" or ask for less",
              interface.ifr_name, interface.ifr_mtu, interface.ifr_name, mtu);
}

}  // namespace

std::string devargs_value(const std::string& devargs, const std::string& key) {
  const std::string pattern = "," + key + "=";
  const std::size_t at = devargs.find(pattern);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + pattern.size();
  return devargs.substr(begin, devargs.find(',', begin) - begin);
}

Expected<std::string> complete_devargs(const std::string& devargs, std::uint32_t frame_bytes,
                                       std::uint16_t queues) {
  const Traits* traits = find_traits(devargs.substr(0, devargs.find(',')));
  if (traits == nullptr) return devargs;
  std::string completed = devargs;
  if (queues > 1 && traits->queues_key != nullptr &&
      devargs_value(devargs, traits->queues_key).empty()) {
    completed += fmt::format(",{}={}", traits->queues_key, queues);
  }
  if (traits->driver == "net_memif") return complete_memif(completed, frame_bytes);
  if (traits->driver == "net_af_packet") return complete_af_packet(completed, frame_bytes);
  return completed;
}

bool shares_buffers(const std::string& devargs) {
  const Traits* traits = find_traits(devargs.substr(0, devargs.find(',')));
  if (traits == nullptr || traits->driver == "net_virtio_user") return true;
  return devargs_value(devargs, "zero-copy") == "yes";  // of memif
}

void clear_dead_sockets(const std::string& devargs) {
  const Traits* traits = find_traits(devargs.substr(0, devargs.find(',')));
  if (traits == nullptr) return;
  if (traits->driver == "net_memif" && devargs_value(devargs, "socket-abstract") == "no" &&
      devargs_value(devargs, "role") == "server") {
    remove_dead_socket(devargs_value(devargs, "socket"), SOCK_SEQPACKET);
  }
  if (traits->driver == "net_vhost" && devargs_value(devargs, "client") != "1") {
    remove_dead_socket(devargs_value(devargs, "iface"), SOCK_STREAM);
  }
}

std::uint32_t shared_data_room(const std::string& devargs, std::uint16_t mtu) {
  const std::uint32_t frame = mtu + kFrameOverhead;
  if (!devargs.starts_with("net_af_packet")) return frame;
  const auto completed = complete_af_packet(devargs, frame);
  return completed ? std::max(frame, packet_ring_frame(*completed)) : frame;
}

Expected<FramePlan> plan_frames(const rte_eth_dev_info& info, const std::string& devargs,
                                std::uint16_t mtu) {
  const Traits* traits = find_traits(info.driver_name);
  const std::uint32_t frame = mtu + static_cast<std::uint32_t>(RTE_ETHER_HDR_LEN);
  const std::uint32_t ethdev_frame = frame + RTE_ETHER_CRC_LEN;  // as ethdev counts without max_mtu
  const bool by_mtu = info.max_mtu != 0 && info.max_mtu != UINT16_MAX;
  const bool offered = by_mtu ? mtu <= info.max_mtu : ethdev_frame <= info.max_rx_pktlen;

  FramePlan plan;
  if (offered) {
    plan.configured_mtu = mtu;
  } else if (traits == nullptr || !traits->understates_frame) {
    const std::uint32_t most =
        by_mtu ? info.max_mtu : info.max_rx_pktlen - (RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN);
    return fail(ErrorCode::unsupported, "{} carries an MTU of {} at most, not {}", info.driver_name,
                most, mtu);
  }
  plan.data_room_min = info.min_rx_bufsize;
  if (traits != nullptr && traits->driver == "net_memif") {
    plan.data_room_min = mtu + kFrameOverhead;  // as no chain must be, see complete_memif()
  }
  if (traits != nullptr && traits->driver == "net_af_packet") {
    plan.data_room_min = packet_ring_frame(devargs);
  }
  if (info.if_index > 0) ROCKHOPPER_TRY(check_kernel_mtu(info.if_index, mtu));
  return plan;
}

bool shares_mac_with_kernel(const rte_eth_dev_info& info) {
  const Traits* traits = find_traits(info.driver_name);
  return traits != nullptr && traits->driver == "net_tap";
}

bool is_virtual(std::string_view driver) { return find_traits(driver) != nullptr; }

bool sends_chains_unasked(const rte_eth_dev_info& info) {
  const Traits* traits = find_traits(info.driver_name);
  return traits != nullptr && traits->sends_chains;
}

}  // namespace rockhopper::stack
