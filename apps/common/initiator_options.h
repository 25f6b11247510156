// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "apps/common/option_set.h"

namespace rockhopper::dc {
struct DciInit;
}  // namespace rockhopper::dc

namespace rockhopper::apps {

/// How a program's DC initiator connects: the options that every program with one has, as given.
struct InitiatorOptions {
  std::uint8_t streams = 1;
  std::string handshake = "auto";  ///< auto, data, half or full

  /// Neither was given: a transport without initiators can have them.
  [[nodiscard]] bool are_default() const { return streams == 1 && handshake == "auto"; }
  void apply(dc::DciInit& init) const;
};

/// Adds --streams and --handshake.
void add_initiator_options(const OptionSet& app, InitiatorOptions& options);

}  // namespace rockhopper::apps
