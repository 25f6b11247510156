// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include <rte_ethdev.h>

#include "stack/error.h"

namespace rockhopper::stack {

/// Completes the devargs of a virtual device, whose buffers and queues are fixed when it is
/// plugged, for frames of `frame_bytes` and `queues` queue pairs. What the user has given stays;
/// sizes that cannot carry such frames are refused. Other devices' devargs are returned as they
/// are.
[[nodiscard]] Expected<std::string> complete_devargs(const std::string& devargs,
                                                     std::uint32_t frame_bytes,
                                                     std::uint16_t queues);

/// The value of one key of devargs; empty when it is not there.
[[nodiscard]] std::string devargs_value(const std::string& devargs, const std::string& key);

/// The device hands the memory of its mbufs to another process, or may: what is not known does.
/// Then that memory has to be the EAL's.
[[nodiscard]] bool shares_buffers(const std::string& devargs);

/// The data room of a pool that the device, once it is plugged with these devargs, shares with
/// others, for IP packets of up to `mtu` bytes. No less than a frame takes.
[[nodiscard]] std::uint32_t shared_data_room(const std::string& devargs, std::uint16_t mtu);

/// Makes way for a device that is to listen on a Unix socket (memif server, vhost): removes the
/// socket of a process that is no more.
void clear_dead_sockets(const std::string& devargs);

/// What to ask of a device for an MTU.
struct FramePlan {
  std::uint32_t configured_mtu = 0;  ///< for rte_eth_rxmode::mtu; 0: the driver's default
  std::uint32_t data_room_min = 0;   ///< smallest mbuf data room that the driver receives into
};

/// Checks that the device carries IP packets of `mtu` bytes: by the driver's word, or by ours where
/// the driver understates it (memif, af_packet and tap say 1514 and carry what their buffers hold).
/// A kernel interface below must have that MTU itself; a tap, which is the device's own, is given
/// it.
[[nodiscard]] Expected<FramePlan> plan_frames(const rte_eth_dev_info& info,
                                              const std::string& devargs, std::uint16_t mtu);

/// The device reports the kernel's own MAC address, which its peer, the kernel, has already.
[[nodiscard]] bool shares_mac_with_kernel(const rte_eth_dev_info& info);

/// There is no hardware behind the driver, so that what it says of the link means nothing.
[[nodiscard]] bool is_virtual(std::string_view driver);
/// The driver sends chains though it does not offer RTE_ETH_TX_OFFLOAD_MULTI_SEGS.
[[nodiscard]] bool sends_chains_unasked(const rte_eth_dev_info& info);

}  // namespace rockhopper::stack
