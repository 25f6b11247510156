// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/rh_publish/rates.h"
#include "apps/rh_subscribe/connection.h"
#include "apps/rh_subscribe/sink.h"
#include "apps/rh_subscribe/subscription.h"

namespace rockhopper::apps::subscribe {

/// A run of rh-subscribe: from stores into the sink, until the publisher has ended and all is read,
/// until there are as many messages as are wanted, or until a signal.
class Client final : public publisher::SubscriberListener {
 public:
  /// `options` must outlive it.
  explicit Client(const Options& options);
  ~Client() override;

  [[nodiscard]] Expected<void> run(const EndpointConfig& config, const stack::Arguments& arguments);
  [[nodiscard]] nlohmann::json report() const;
  void print_statistics(std::FILE* out) const;

  void on_directory(std::span<const publisher::StoreInfo> stores) override;
  void on_granted(publisher::SubscriptionId id, const publisher::StoreInfo& store) override;
  void on_refused(publisher::SubscriptionId id, const Error& error) override;
  void on_revoked(publisher::SubscriptionId id) override;
  void on_no_multicast(publisher::SubscriptionId id, const Error& error) override;
  void on_disconnected() override { disconnected_ = true; }

 private:
  /// How often it is looked at what the publisher says by TCP.
  static constexpr std::uint64_t kLookNs = 1'000'000;

  [[nodiscard]] Expected<void> read_directory();
  [[nodiscard]] Expected<void> subscribe(const std::string& store);
  [[nodiscard]] Expected<void> receive();
  [[nodiscard]] Expected<void> write_out();
  [[nodiscard]] Expected<void> look(std::uint64_t now_ns);
  [[nodiscard]] Expected<void> reconnect();
  [[nodiscard]] Expected<void> connect_again();
  void set_watch(bool watch);
  /// That have been read, of all stores.
  [[nodiscard]] std::uint64_t rounds() const;
  [[nodiscard]] Expected<void> drain();
  /// Nothing more comes of what there is.
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool is_read(const Subscription& subscription) const;
  [[nodiscard]] Expected<void> verdict() const;
  void note_end();
  void end(publisher::SubscriptionId id, const std::string& why);
  void print_rates(std::uint64_t now_ns);
  void print_directory() const;
  [[nodiscard]] Subscription* find(publisher::SubscriptionId id);

  const Options& options_;
  std::unique_ptr<Connection> connection_;
  Sink sink_;
  Quota quota_;
  std::vector<std::unique_ptr<Subscription>> subscriptions_;
  std::vector<publisher::StoreInfo> directory_;
  publish::Rates rates_;
  bool directory_read_ = false;
  bool disconnected_ = false;
  bool gone_ = false;   ///< the publisher's end of the TCP connection
  bool ended_ = false;  ///< nothing more is published
  bool paused_ = false;
  std::uint64_t rounds_before_ = 0;  ///< when the connection before ended
  std::uint64_t progress_ns_ = 0;    ///< when one ended by which something had been read
  unsigned fruitless_ = 0;           ///< connections in a row without any
  std::optional<Error> failure_;     ///< of a callback
  std::uint64_t next_look_ns_ = 0;
};

}  // namespace rockhopper::apps::subscribe
