// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>

#include "dc/dci_pool.h"
#include "roce/queue_pair.h"
#include "roce/work_request.h"

namespace rockhopper::ami {

/// What became of a request that was to be posted.
enum class Posted : std::uint8_t {
  yes,
  full,     ///< not now: try again when something has completed
  waits,    ///< not now: the pool of initiators will call
  broken,   ///< not any more
  invalid,  ///< not such a request
};

/// The way to a peer: in order, and reliable.
class Route {
 public:
  Route() = default;
  Route(const Route&) = delete;
  Route& operator=(const Route&) = delete;
  virtual ~Route() = default;

  [[nodiscard]] virtual Posted post(const roce::SendWr& wr) = 0;
  /// What post() would now say of a good request. Not `invalid`.
  [[nodiscard]] virtual Posted ready() = 0;
  /// Whether messages that complete there come from the peer. With dynamic connections nobody
  /// can say more than that they have the access key.
  [[nodiscard]] virtual bool brings(wire::Qpn receiver) const = 0;
};

/// A route by an initiator of a pool.
class DcRoute final : public Route {
 public:
  /// `target` names the peer in `pool`; both outlive the route.
  DcRoute(dc::DciPool& pool, dc::PoolTarget& target) : pool_(pool), target_(target) {}
  [[nodiscard]] Posted post(const roce::SendWr& wr) override;
  [[nodiscard]] Posted ready() override;
  [[nodiscard]] bool brings(wire::Qpn) const override { return true; }

 private:
  dc::DciPool& pool_;
  dc::PoolTarget& target_;
};

/// A route by a queue pair of RC, which its maker has connected.
class RcRoute final : public Route {
 public:
  explicit RcRoute(roce::QueuePair& qp) : qp_(qp) {}
  [[nodiscard]] Posted post(const roce::SendWr& wr) override;
  [[nodiscard]] Posted ready() override;
  [[nodiscard]] bool brings(wire::Qpn receiver) const override { return receiver == qp_.number(); }

 private:
  roce::QueuePair& qp_;
};

}  // namespace rockhopper::ami
