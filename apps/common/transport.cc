// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/transport.h"

#include <array>

#include "apps/common/names.h"

namespace rockhopper::apps {
namespace {

constexpr std::array kTransports = {Names{"rc", "RC"}, Names{"dc", "DC"}};

}  // namespace

std::string_view to_string(Transport transport) { return names_of(kTransports, transport).name; }

std::string_view title(Transport transport) { return names_of(kTransports, transport).title; }

std::optional<Transport> parse_transport(std::string_view name) {
  return parse_name<Transport>(kTransports, name);
}

}  // namespace rockhopper::apps
