// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "apps/services/publisher/store_info.h"

namespace rockhopper::publisher {

/// Decides which subscriber may read what; the application's (PB-9, PB-30).
class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  /// `subscriber` is the name that Publisher::add_subscriber() was given, so that of a subscriber
  /// that the application knows by then. `credentials` is what came with the request, up to
  /// kCredentialsMax bytes of anything, and the same again when Publisher::apply_policy() asks.
  [[nodiscard]] virtual bool may_read(std::string_view subscriber, const StoreInfo& store,
                                      std::span<const std::byte> credentials) = 0;
  /// Whether the store is in the directory that this subscriber gets.
  [[nodiscard]] virtual bool may_see(std::string_view /*subscriber*/, const StoreInfo& /*store*/) {
    return true;
  }
};

}  // namespace rockhopper::publisher
