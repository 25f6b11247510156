// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <infiniband/verbs.h>

#include "roce/address_vector.h"
#include "roce/async_event.h"
#include "roce/completion_queue.h"
#include "roce/engine.h"
#include "roce/qp_attributes.h"
#include "roce/work_request.h"
#include "stack/error.h"
#include "stack/ip_address.h"

namespace rockhopper::verbs {

// Names of later versions of the header.
inline constexpr unsigned kAccessFlush = roce::kAccessFlushGlobal | roce::kAccessFlushPersistent;
inline constexpr unsigned kWrAtomicWrite = 15;
inline constexpr unsigned kWcFlush = 8;
inline constexpr unsigned kWcAtomicWrite = 9;
inline constexpr std::uint64_t kQpExWithFlush = 1u << 11;
inline constexpr std::uint64_t kQpExWithAtomicWrite = 1u << 12;

[[nodiscard]] inline stack::IpAddress address_of(const ibv_gid& gid) {
  return stack::IpAddress::from_bytes(gid.raw);
}
[[nodiscard]] ibv_gid gid_of(const stack::IpAddress& address);

/// Access rights of verbs as the engine has them: hints are left out. Nothing: unknown ones.
[[nodiscard]] std::optional<std::uint32_t> access_of(unsigned verbs);

/// The engine reads lists of elements where the program has put them.
[[nodiscard]] inline std::span<const roce::Sge> elements(const ibv_sge* list, std::size_t count) {
  static_assert(sizeof(ibv_sge) == sizeof(roce::Sge) &&
                offsetof(ibv_sge, addr) == offsetof(roce::Sge, addr) &&
                offsetof(ibv_sge, length) == offsetof(roce::Sge, length) &&
                offsetof(ibv_sge, lkey) == offsetof(roce::Sge, lkey));
  return {reinterpret_cast<const roce::Sge*>(list), count};
}

/// Reads an enumerator that the program gave as a number: C allows any value, and a field that a
/// mask leaves out may never have been written.
template <typename Enumeration>
[[nodiscard]] unsigned number_of(const Enumeration& given) {
  return std::bit_cast<unsigned>(given);
}

/// Nothing: the engine has no such request.
[[nodiscard]] std::optional<roce::WrOpcode> opcode_of(unsigned verbs);
/// All but `sg_list` and what names other objects (address handle, window's region).
void convert(const ibv_send_wr& from, roce::WrOpcode opcode, roce::SendWr& to);
void convert(const roce::Completion& from, ibv_wc& to);
[[nodiscard]] ibv_wc_opcode opcode_of(roce::WcOpcode opcode);
[[nodiscard]] unsigned flags_of(const roce::Completion& completion);
/// The `sl` of a work completion.
[[nodiscard]] std::uint8_t service_level_of(const roce::Completion& completion);
[[nodiscard]] ibv_wc_status status_of(roce::WcStatus status);

/// Nothing: the engine has no queue pairs of that type for programs.
[[nodiscard]] std::optional<roce::QpType> type_of(unsigned type);
[[nodiscard]] ibv_mtu mtu_of(roce::PathMtu mtu);
/// 0 bytes: no such code.
[[nodiscard]] roce::PathMtu mtu_of(unsigned code);

/// The LID of the port: see lid_of() of an address. 0 without an IPv4 address.
[[nodiscard]] std::uint16_t lid_of(const roce::Engine& engine);
/// An address without GRH leads to that LID's host. Fails for one with neither, and for an entry of
/// the GID table that is empty.
[[nodiscard]] Expected<roce::AddressVector> vector_of(const roce::Engine& engine,
                                                      const ibv_ah_attr& attributes);
[[nodiscard]] ibv_ah_attr attributes_of(const roce::Engine& engine,
                                        const roce::AddressVector& vector);
/// Returns the place of an address in the GID table, if it is there.
[[nodiscard]] std::optional<std::uint8_t> gid_index(const roce::Engine& engine,
                                                    const stack::IpAddress& address);

[[nodiscard]] Expected<roce::QpAttributes> attributes_of(const roce::Engine& engine,
                                                         const ibv_qp_attr& from, unsigned mask);
/// All but `cap`.
void convert(const roce::Engine& engine, const roce::QpAttributes& from, ibv_qp_attr& to);

/// Nothing: an event of ours, which verbs do not have.
[[nodiscard]] std::optional<ibv_event_type> type_of(roce::AsyncEventType type);

}  // namespace rockhopper::verbs
