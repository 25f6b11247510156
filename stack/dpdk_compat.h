// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
/// What the versions of DPDK from 22.11 to 25.11 name differently. Not installed: only source files
/// of the library and of the tests may include it.
#pragma once
#include <cstdint>

#include <rte_icmp.h>
#include <rte_telemetry.h>
#include <rte_version.h>

namespace rockhopper::stack {

static_assert(RTE_VERSION >= RTE_VERSION_NUM(22, 11, 0, 0), "DPDK 22.11 is the oldest that serves");

// The old names are deprecated from 24.11 on.
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
inline constexpr std::uint8_t kIcmpEchoReply = RTE_ICMP_TYPE_ECHO_REPLY;
inline constexpr std::uint8_t kIcmpEchoRequest = RTE_ICMP_TYPE_ECHO_REQUEST;
#else
inline constexpr std::uint8_t kIcmpEchoReply = RTE_IP_ICMP_ECHO_REPLY;
inline constexpr std::uint8_t kIcmpEchoRequest = RTE_IP_ICMP_ECHO_REQUEST;
#endif

/// rte_tel_data_add_dict_uint, which came with 23.03; 25.11 no longer has the older name.
inline int add_dict_uint(rte_tel_data* data, const char* name, std::uint64_t value) {
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
  return rte_tel_data_add_dict_uint(data, name, value);
#else
  return rte_tel_data_add_dict_u64(data, name, value);
#endif
}

// The addresses in rte_ipv6_hdr are arrays up to 24.07 and structures from 24.11 on. Code that
// takes the address of the member, &ip.src_addr, and copies 16 bytes there serves both.

}  // namespace rockhopper::stack
