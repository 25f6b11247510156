// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "apps/common/control_channel.h"
#include "apps/common/service_node.h"
#include "apps/common/transport.h"
#include "apps/rh_publish/greeting.h"
#include "apps/rh_subscribe/options.h"
#include "apps/services/publisher/subscriber.h"

namespace rockhopper::apps::subscribe {

/// The way to a publisher: the endpoint, the subscriber of the library, what connects it, and the
/// turns of all.
class Connection final : public ServiceNode {
 public:
  /// `options` and `listener` must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<Connection>> create(
      const Options& options, const EndpointConfig& config, const stack::Arguments& arguments,
      publisher::SubscriberListener& listener);
  ~Connection() override;

  /// Connects, again after the connection has been lost. Fails if nobody answers for as long as
  /// the options say, or if the publisher does not want us.
  [[nodiscard]] Expected<void> connect();
  /// What the publisher has said besides, if anything: true, it has ended. An error with
  /// ErrorCode::invalid_state is the publisher's, others say that it has gone.
  [[nodiscard]] Expected<bool> poll_end();
  /// The publisher has gone: has the subscriber notice it.
  void give_up();

  /// After connect().
  [[nodiscard]] publisher::Subscriber& subscriber() { return *subscriber_; }
  [[nodiscard]] Transport transport() const { return transport_; }

  [[nodiscard]] nlohmann::json counters() const;

 private:
  Connection(const Options& options, publisher::SubscriberListener& listener,
             std::unique_ptr<Endpoint> endpoint)
      : ServiceNode(std::move(endpoint), options.endpoint),
        options_(options),
        listener_(listener) {}
  [[nodiscard]] bool progress(std::uint64_t now_ns) override;
  [[nodiscard]] Expected<void> make_subscriber(const publish::Challenge& challenge);
  [[nodiscard]] Expected<std::uint16_t> choose_path_mtu(const publish::Challenge& challenge);
  [[nodiscard]] Expected<QueueAddress> make_side();
  [[nodiscard]] Expected<publish::Welcome> greet(const QueueAddress& side,
                                                 const nlohmann::json& challenge);
  [[nodiscard]] Expected<void> join(const QueueAddress& own, const QueueAddress& remote);
  void drop_queue_pair();

  const Options& options_;
  publisher::SubscriberListener& listener_;
  std::unique_ptr<publisher::Subscriber> subscriber_;
  std::optional<ControlChannel> channel_;
  roce::QueuePair* qp_ = nullptr;
  Transport transport_ = Transport::rc;
  std::uint16_t path_mtu_ = 0;
};

}  // namespace rockhopper::apps::subscribe
