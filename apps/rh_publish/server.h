// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/rh_publish/clients.h"
#include "apps/rh_publish/input.h"
#include "apps/rh_publish/node.h"
#include "apps/rh_publish/rates.h"

namespace rockhopper::apps::publish {

/// A run of rh-publish: from inputs into stores, until all have ended or a signal comes; then
/// subscribers have some time to read what is left.
class Server {
 public:
  /// Both must outlive it.
  Server(Node& node, const Options& options);
  ~Server();

  [[nodiscard]] Expected<void> run();
  [[nodiscard]] nlohmann::json report() const;

 private:
  struct Feed {
    std::unique_ptr<Input> input;
    ServedStore* store = nullptr;
  };

  [[nodiscard]] Expected<void> open();
  [[nodiscard]] Expected<void> publish();
  [[nodiscard]] Expected<void> linger();
  /// One turn of everything but the inputs.
  [[nodiscard]] Expected<void> turn();
  [[nodiscard]] Expected<void> feed(Feed& feed);
  void reload_policy();
  void print_rates();
  [[nodiscard]] bool all_ended() const;

  Node& node_;
  const Options& options_;
  std::optional<PolicyFile> policy_file_;
  std::unique_ptr<Clients> clients_;
  std::vector<Feed> feeds_;
  Rates rates_;
  std::uint64_t turns_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t wall_ns_ = 0;  ///< of the messages; never goes back
};

}  // namespace rockhopper::apps::publish
