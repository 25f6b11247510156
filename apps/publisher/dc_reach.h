// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "apps/publisher/dc_address.h"
#include "apps/publisher/receive_buffers.h"
#include "dc/dci_pool.h"
#include "dc/endpoint.h"
#include "roce/engine.h"

namespace rockhopper::publisher {

/// The two ways between a publisher and a subscriber that come and go by dynamic connections: a
/// target for this subscriber alone, in a protection domain of its own, and where it is reached.
class DcReach {
 public:
  /// `initiators` is the protection domain of those that reach it. All must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<DcReach>> create(
      roce::Engine& engine, dc::Endpoint& endpoint, roce::ProtectionDomain initiators,
      const DcAddress& address, std::uint32_t receives, roce::PathMtu path_mtu);
  DcReach(const DcReach&) = delete;
  DcReach& operator=(const DcReach&) = delete;
  /// Its sessions end. All keys of pd() have to be gone.
  ~DcReach();

  [[nodiscard]] roce::ProtectionDomain pd() const { return pd_; }
  [[nodiscard]] const dc::Dct& dct() const { return *dct_; }
  [[nodiscard]] ReceiveBuffers& receives() { return *receives_; }
  [[nodiscard]] dc::PoolTarget& peer() { return *peer_; }

 private:
  DcReach(roce::Engine& engine, dc::Endpoint& endpoint)
      : engine_(engine), endpoint_(endpoint), pd_(engine.allocate_pd()) {}

  roce::Engine& engine_;
  dc::Endpoint& endpoint_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<ReceiveBuffers> receives_;
  dc::Dct* dct_ = nullptr;
  roce::AddressHandle* ah_ = nullptr;
  std::optional<dc::PoolTarget> peer_;
};

}  // namespace rockhopper::publisher
