// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>

#include "apps/common/cm_node.h"
#include "apps/rh_cm/options.h"

namespace rockhopper::apps::cm {

/// A node that does what the options say.
class Node final : public CmNode {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Node>> create(Endpoint& endpoint,
                                                              const Options& options);

  [[nodiscard]] const Options& options() const { return options_; }

  /// From here to the server of the options.
  [[nodiscard]] Expected<roce::AddressVector> path_to_server() const;
  [[nodiscard]] std::uint64_t service_id() const;
  /// Listens on the service ID of the options.
  [[nodiscard]] Expected<void> listen(std::uint32_t backlog);
  [[nodiscard]] roce::cm::QpParameters qp_parameters() const;

 private:
  Node(Endpoint& endpoint, const Options& options);

  const Options& options_;
};

}  // namespace rockhopper::apps::cm
