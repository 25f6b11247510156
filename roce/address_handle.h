// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/address_vector.h"
#include "roce/types.h"
#include "stack/host.h"

namespace rockhopper::roce {

/// A destination of datagrams, as ibv_ah. Owned by the engine that made it; belongs to its thread.
class AddressHandle {
 public:
  /// The engine makes them, and gives each an `id` of its own.
  AddressHandle(ProtectionDomain pd, const AddressVector& av, std::uint64_t id)
      : pd_(pd), av_(av), id_(id) {
    flow_.config = flow_config(av, id);
  }

  [[nodiscard]] ProtectionDomain pd() const { return pd_; }
  [[nodiscard]] const AddressVector& address_vector() const { return av_; }
  /// Never that of another one. What names an address handle for later keeps this, not its address.
  [[nodiscard]] std::uint64_t id() const { return id_; }
  /// For Host::resolve and packets.
  [[nodiscard]] stack::Flow& flow() { return flow_; }

 private:
  ProtectionDomain pd_;
  AddressVector av_;
  std::uint64_t id_;
  stack::Flow flow_;
};

}  // namespace rockhopper::roce
