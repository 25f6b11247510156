// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "apps/services/publisher/message.h"

namespace rockhopper::publisher {

/// Asks a publisher for its directory, which comes in parts, one request each.
class DirectoryFetch {
 public:
  /// It is wanted, (again) from the first part on if none has been asked for.
  void want() { is_wanted_ = true; }
  /// Returns the request to be sent now; nothing if there is none.
  [[nodiscard]] std::optional<DirectoryRequest> next() const {
    if (!is_wanted_ || is_asked_) return std::nullopt;
    return DirectoryRequest{.first = static_cast<std::uint16_t>(stores_.size())};
  }
  /// next() has been sent.
  void on_sent() {
    assert(is_wanted_ && !is_asked_);
    is_asked_ = true;
  }
  /// What was sent is lost, and its answers would be of another time.
  void restart() {
    is_asked_ = false;
    stores_.clear();
  }
  /// A part has come. Returns false if it is none that was asked for.
  [[nodiscard]] bool take(const Directory& part) {
    if (!is_asked_ || part.first != stores_.size()) return false;
    is_asked_ = false;
    stores_.insert(stores_.end(), part.stores.begin(), part.stores.end());
    is_wanted_ = stores_.size() < part.total && !part.stores.empty();
    return true;
  }
  /// Returns all of it, once it is there, which it is when nothing is wanted any more.
  [[nodiscard]] std::optional<std::vector<StoreInfo>> take_all() {
    if (is_wanted_) return std::nullopt;
    return std::exchange(stores_, {});
  }

 private:
  std::vector<StoreInfo> stores_;  ///< the parts that have come
  bool is_wanted_ = false;
  bool is_asked_ = false;  ///< the next part; only if it is wanted
};

}  // namespace rockhopper::publisher
