// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include <infiniband/verbs.h>

namespace rockhopper::verbs {

/// Entries of a completion queue that a program may ask for.
inline constexpr int kMaxCqe = 1 << 20;

// Verbs that ask for the device, its port and tables.
[[nodiscard]] int query_device(ibv_context* verbs, ibv_device_attr* attributes);
[[nodiscard]] int query_device_ex(ibv_context* verbs, const ibv_query_device_ex_input* input,
                                  ibv_device_attr_ex* attributes, std::size_t size);
[[nodiscard]] int query_port(ibv_context* verbs, std::uint8_t port, ibv_port_attr* attributes,
                             std::size_t size);
/// The exported form, which knows nothing behind `link_layer`.
[[nodiscard]] int query_port_exported(ibv_context* verbs, std::uint8_t port,
                                      _compat_ibv_port_attr* attributes);
[[nodiscard]] int query_gid(ibv_context* verbs, std::uint8_t port, int index, ibv_gid* gid);
[[nodiscard]] int query_gid_ex(ibv_context* verbs, std::uint32_t port, std::uint32_t index,
                               ibv_gid_entry* entry, std::uint32_t flags, std::size_t size);
[[nodiscard]] ssize_t query_gid_table(ibv_context* verbs, ibv_gid_entry* entries, std::size_t count,
                                      std::uint32_t flags, std::size_t size);
[[nodiscard]] int query_pkey(ibv_context* verbs, std::uint8_t port, int index, __be16* pkey);
[[nodiscard]] int get_pkey_index(ibv_context* verbs, std::uint8_t port, __be16 pkey);
[[nodiscard]] int query_rt_values(ibv_context* verbs, ibv_values_ex* values);

}  // namespace rockhopper::verbs
