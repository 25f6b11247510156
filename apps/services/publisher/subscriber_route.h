// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>

#include "dc/dci.h"
#include "dc/target_address.h"
#include "roce/engine.h"
#include "roce/queue_pair.h"
#include "roce/work_request.h"

namespace rockhopper::publisher {

/// A subscriber's way to its publisher: in order, and reliable.
class SubscriberRoute {
 public:
  SubscriberRoute() = default;
  SubscriberRoute(const SubscriberRoute&) = delete;
  SubscriberRoute& operator=(const SubscriberRoute&) = delete;
  virtual ~SubscriberRoute() = default;

  [[nodiscard]] virtual roce::PostResult post(const roce::SendWr& wr) = 0;
  /// Requests that are not complete.
  [[nodiscard]] virtual std::size_t depth() const = 0;
  [[nodiscard]] virtual bool failed() const = 0;
  /// After an error that was about one request: whether others can follow.
  [[nodiscard]] virtual bool revive() = 0;
};

/// A route by a queue pair, which its maker has connected.
class QueuePairRoute final : public SubscriberRoute {
 public:
  explicit QueuePairRoute(roce::QueuePair& qp) : qp_(qp) {}
  [[nodiscard]] roce::PostResult post(const roce::SendWr& wr) override { return qp_.post_send(wr); }
  [[nodiscard]] std::size_t depth() const override { return qp_.send_queue_depth(); }
  [[nodiscard]] bool failed() const override { return qp_.state() == roce::QpState::err; }
  [[nodiscard]] bool revive() override { return false; }

 private:
  roce::QueuePair& qp_;
};

/// A route by dynamic connections. Has the address handle.
class DcRoute final : public SubscriberRoute {
 public:
  DcRoute(roce::Engine& engine, dc::Dci& initiator, roce::AddressHandle& ah,
          const dc::TargetAddress& address)
      : engine_(engine), initiator_(initiator), ah_(ah), address_(address) {}
  ~DcRoute() override { engine_.destroy_ah(&ah_); }

  [[nodiscard]] roce::PostResult post(const roce::SendWr& wr) override {
    roce::SendWr addressed = wr;
    addressed.ah = &ah_;
    addressed.remote_qpn = address_.number;
    addressed.dc_access_key = address_.access_key;
    return initiator_.post_send(addressed);
  }
  [[nodiscard]] std::size_t depth() const override { return initiator_.send_queue_depth(); }
  [[nodiscard]] bool failed() const override { return initiator_.state() == roce::QpState::err; }
  [[nodiscard]] bool revive() override { return !failed() || initiator_.reset().has_value(); }

 private:
  roce::Engine& engine_;
  dc::Dci& initiator_;
  roce::AddressHandle& ah_;
  dc::TargetAddress address_;
};

}  // namespace rockhopper::publisher
