// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/rh_subscribe/sink.h"
#include "apps/services/publisher/subscriber.h"

namespace rockhopper::apps::subscribe {

/// How many messages of all stores are wanted.
struct Quota {
  std::uint64_t wanted = 0;  ///< 0: all
  std::uint64_t taken = 0;
  [[nodiscard]] bool reached() const { return wanted != 0 && taken >= wanted; }
};

/// What comes of one store, on its way into the sink.
class Subscription final : public publisher::Listener {
 public:
  /// References must outlive it.
  Subscription(std::string store, Sink& sink, Quota& quota)
      : store_(std::move(store)), sink_(sink), quota_(quota) {}

  void on_message(const publisher::Message& message) override;
  void on_lost(std::uint64_t first, std::uint64_t last) override;
  void on_restart(std::uint64_t old_epoch, std::uint64_t new_epoch) override;
  void on_state(publisher::ReaderState state) override;

  [[nodiscard]] const std::string& store() const { return store_; }
  [[nodiscard]] std::uint64_t messages() const { return messages_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  [[nodiscard]] nlohmann::json report() const;

  publisher::SubscriptionId id{};
  std::optional<std::string> ended;     ///< why there is no access
  bool sink_ready = false;              ///< it has been granted once
  std::uint64_t rounds_at_the_end = 0;  ///< that were read when the publisher had ended

 private:
  std::string store_;
  Sink& sink_;
  Quota& quota_;
  std::uint64_t epoch_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t restarts_ = 0;
  bool dead_ = false;
  std::optional<std::uint64_t> first_;  ///< message that was delivered
  std::uint64_t last_ = 0;              ///< likewise
};

}  // namespace rockhopper::apps::subscribe
