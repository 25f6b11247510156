// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "dc/dci_pool.h"
#include "dc/endpoint.h"
#include "dc/target_address.h"
#include "roce/engine.h"
#include "roce/receive_buffers.h"

namespace rockhopper::dc {

struct PrivateTargetInit {
  roce::ProtectionDomain initiators{};  ///< of those that reach the peer
  std::uint32_t receives = 1;           ///< messages of the peer that can wait
  std::uint32_t receive_bytes = 1;      ///< of the longest one
  std::uint32_t access_flags = 0;       ///< of the peer to memory of pd()
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;
};

/// The two ways between a server and one of its peers that come and go by dynamic connections: a
/// target for this peer alone, in a protection domain of its own, and where the peer is reached.
/// Only a peer that has the target's access key reaches what is registered in that domain.
class PrivateTarget {
 public:
  /// `engine` and `endpoint` must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<PrivateTarget>> create(
      roce::Engine& engine, Endpoint& endpoint, const TargetAddress& peer,
      const PrivateTargetInit& init);
  PrivateTarget(const PrivateTarget&) = delete;
  PrivateTarget& operator=(const PrivateTarget&) = delete;
  /// Its sessions end. All keys of pd() have to be gone.
  ~PrivateTarget();

  /// Ends the sessions at once: from the return on nothing of the peer is executed.
  void withdraw();

  [[nodiscard]] roce::ProtectionDomain pd() const { return pd_; }
  /// Not after withdraw().
  [[nodiscard]] const Dct& dct() const { return *dct_; }
  [[nodiscard]] roce::ReceiveBuffers& receives() { return *receives_; }
  [[nodiscard]] PoolTarget& peer() { return *peer_; }

 private:
  PrivateTarget(roce::Engine& engine, Endpoint& endpoint)
      : engine_(engine), endpoint_(endpoint), pd_(engine.allocate_pd()) {}

  roce::Engine& engine_;
  Endpoint& endpoint_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<roce::ReceiveBuffers> receives_;
  Dct* dct_ = nullptr;
  roce::AddressHandle* ah_ = nullptr;
  std::optional<PoolTarget> peer_;
};

}  // namespace rockhopper::dc
