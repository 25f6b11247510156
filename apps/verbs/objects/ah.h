// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

#include "apps/verbs/objects/domain.h"
#include "apps/verbs/objects/object.h"
#include "roce/address_handle.h"

namespace rockhopper::verbs {

/// An address handle.
class Ah final : public ibv_ah, public Object {
 public:
  static constexpr Kind kKind = Kind::address_handle;

  /// In a Section. `address` is the engine's.
  Ah(Pd& owner, roce::AddressHandle& address);
  [[nodiscard]] static Ah* from(ibv_ah* verbs) { return static_cast<Ah*>(verbs); }

  [[nodiscard]] const roce::AddressHandle& address() const { return address_; }

 private:
  void release() override;

  roce::AddressHandle& address_;
  PdUser user_;
};

// Verbs.
[[nodiscard]] ibv_ah* create_ah(ibv_pd* verbs, ibv_ah_attr* attributes);
[[nodiscard]] int init_ah_from_wc(ibv_context* verbs, std::uint8_t port, ibv_wc* completion,
                                  ibv_grh* grh, ibv_ah_attr* attributes);
[[nodiscard]] ibv_ah* create_ah_from_wc(ibv_pd* verbs, ibv_wc* completion, ibv_grh* grh,
                                        std::uint8_t port);
[[nodiscard]] int destroy_ah(ibv_ah* verbs);
/// All that can be told is the address of the device, which is that of all processes of the host.
[[nodiscard]] int resolve_eth_l2_from_gid(ibv_context* verbs, ibv_ah_attr* attributes,
                                          std::uint8_t mac[ETHERNET_LL_SIZE], std::uint16_t* vid);

}  // namespace rockhopper::verbs
