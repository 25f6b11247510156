// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "apps/common/cm_channel.h"
#include "apps/common/cm_node.h"
#include "apps/rh_perf/agreement.h"
#include "apps/rh_perf/options.h"
#include "apps/rh_perf/perftest_carrier.h"
#include "apps/rh_perf/rc_backend.h"

namespace rockhopper::apps::perf {

/// perftest's -R at this end. The connection manager makes two connections, both asked for by the
/// client on one port: that of the exchange, whose messages are SENDs, and that of the measured
/// queue pair, which the programs make after a first handshake.
class PerftestRdmaCm final : public PerftestCarrier {
 public:
  /// References must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<PerftestRdmaCm>> create(RcBackend& backend,
                                                                        const Options& options);
  ~PerftestRdmaCm() override;

  /// What goes on while this waits; it must move the endpoint's packets. Not owned.
  void serve_with(Background& background) { node_->serve_with(background); }

  /// Makes the connection of the exchange. A client tries for the configured time, as the server
  /// may still be starting; a server waits without limit.
  [[nodiscard]] Expected<void> meet();
  /// Connects the backend's queue pair, which is in INIT, and brings it to RTS. A client asks for
  /// the path MTU that has been agreed on.
  [[nodiscard]] Expected<void> connect_queue_pair(const Agreement& agreement);
  /// Ends both connections: a client by itself, a server when the client has done so. A peer that
  /// does not answer is given up after a while.
  void leave();
  /// The same at once, after a failure.
  void abandon();

  /// Why a connection has ended, as far as it is known already. Does not look for news.
  [[nodiscard]] std::optional<Error> why_ended();

  /// Of both connections. Requires meet().
  [[nodiscard]] const roce::AddressVector& path() const { return exchange_.connection->path(); }
  /// Requires connect_queue_pair().
  [[nodiscard]] roce::PathMtu path_mtu() const { return measured_.connection->path_mtu(); }

  [[nodiscard]] Expected<void> send(std::string_view message) override;
  [[nodiscard]] Expected<std::string> receive(std::size_t bytes) override;
  /// The end of the connections says it.
  [[nodiscard]] Expected<void> say_done() override { return {}; }
  [[nodiscard]] bool peer_closed() override;
  [[nodiscard]] PerftestForm form() const override { return PerftestForm::binary; }

  void print_statistics(std::FILE* out) const { node_->print_statistics(out); }

 private:
  struct CmConnection {
    roce::cm::Connection* connection = nullptr;
    bool established = false;
    std::optional<roce::cm::Event> end;  ///< what has ended it
  };

  PerftestRdmaCm(RcBackend& backend, const Options& options);

  [[nodiscard]] bool is_client() const { return options_.role() == Role::client; }
  [[nodiscard]] Expected<void> wait(const std::function<bool()>& done, std::string_view what,
                                    bool forever = false);
  void take_events();
  void take_request(const roce::cm::Event& request);
  [[nodiscard]] bool is_welcome(const roce::cm::Event& request) const;
  [[nodiscard]] Expected<void> establish(CmConnection& to, roce::QueuePair& qp,
                                         std::uint32_t path_mtu,
                                         const roce::cm::QpParameters& parameters);
  [[nodiscard]] Expected<void> connect(CmConnection& to, roce::QueuePair& qp,
                                       std::uint32_t path_mtu,
                                       const roce::cm::QpParameters& parameters);
  [[nodiscard]] Expected<void> accept(CmConnection& to, roce::QueuePair& qp,
                                      const roce::cm::QpParameters& parameters);
  [[nodiscard]] Expected<roce::AddressVector> path_to_server() const;
  [[nodiscard]] Expected<void> open_channel();
  [[nodiscard]] Error why_exchange_ended(roce::WcStatus status);
  /// Disconnects what is connected.
  void disconnect();
  /// Nothing of them can arrive any more.
  [[nodiscard]] bool is_over() const;

  RcBackend& backend_;
  const Options& options_;
  const std::uint64_t service_id_;
  std::unique_ptr<CmNode> node_;
  std::unique_ptr<CmChannel> channel_;      ///< of the exchange
  CmConnection exchange_;                   ///< released with the channel
  CmConnection measured_;                   ///< of the backend's queue pair
  std::optional<roce::cm::Event> request_;  ///< of a client, to be accepted
  std::uint64_t sent_ = 0;                  ///< messages
  std::uint64_t acknowledged_ = 0;
};

}  // namespace rockhopper::apps::perf
