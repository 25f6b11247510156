// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "apps/common/dc_endpoint.h"
#include "apps/common/initiator_options.h"
#include "apps/rh_perf/endpoint_backend.h"

namespace rockhopper::apps::perf {

/// Dynamic connections: one initiator, and a target, with an SRQ of its own, for each of what the
/// agreement calls queue pairs. A stream takes the requests to every so manieth target.
class DcBackend final : public EndpointBackend {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<DcBackend>> open(std::unique_ptr<Endpoint> endpoint,
                                                                 const LocalOptions& options,
                                                                 const InitiatorOptions& initiator);
  ~DcBackend() override;

  [[nodiscard]] std::uint32_t path_mtu_max() const override { return (*dc_)->max_path_mtu(); }
  [[nodiscard]] Expected<void> connect(const Agreement& agreement, const Side& remote) override;
  [[nodiscard]] std::size_t post_sends(std::uint16_t qp,
                                       std::span<const SendRequest> requests) override;
  [[nodiscard]] std::size_t post_receives(std::uint16_t qp,
                                          std::span<const ReceiveRequest> requests) override;
  void print_statistics() override;

 private:
  struct Target {
    roce::SharedReceiveQueue* srq = nullptr;
    dc::Dct* dct = nullptr;
  };

  DcBackend(std::unique_ptr<Endpoint> endpoint, const LocalOptions& options,
            const InitiatorOptions& initiator)
      : EndpointBackend(std::move(endpoint), options), initiator_(initiator) {}

  [[nodiscard]] Expected<void> create_queues(const Agreement& agreement) override;
  /// A session that ends in the middle of a message gives the receive back; the peer, who learns
  /// that it was not executed, sends the message in its next session.
  [[nodiscard]] bool comes_again(const roce::Completion& failed) const override {
    return failed.status == roce::WcStatus::wr_flush_err && failed.opcode == roce::WcOpcode::recv;
  }
  [[nodiscard]] Expected<void> create_endpoint(const dc::EndpointConfig& config);
  /// Needs what both ends have agreed on, unlike a target.
  [[nodiscard]] Expected<void> create_initiator(const Agreement& agreement);
  [[nodiscard]] Expected<void> create_target(const Agreement& agreement);

  InitiatorOptions initiator_;
  std::optional<DcEndpoint> dc_;  ///< always there after open()
  dc::Dci* dci_ = nullptr;
  LockMode lock_mode_ = LockMode::none;
  std::vector<Target> targets_;
  roce::AddressHandle* peer_ = nullptr;
  std::vector<QpAddress> remote_;  ///< the peer's targets
};

}  // namespace rockhopper::apps::perf
