// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstdint>
#include <map>
#include <utility>

#include "roce/cm/capabilities.h"

namespace rockhopper::roce::cm {

/// The services that an application serves, and how many requests for each wait for its answer.
class Listeners {
 public:
  /// Whether a request counts against its listener's backlog; part of the request, and changed here
  /// alone.
  enum class Place : bool { none, taken };

  [[nodiscard]] bool has(std::uint64_t service_id) const { return all_.contains(service_id); }
  /// As many requests wait as may. Requires has().
  [[nodiscard]] bool is_crowded(std::uint64_t service_id) const {
    const Listener& listener = all_.at(service_id);
    return listener.waiting >= listener.backlog;
  }
  /// Returns what the listener offers to use. Requires has().
  [[nodiscard]] Capabilities offer(std::uint64_t service_id) const {
    return all_.at(service_id).offer;
  }

  /// Returns false if there is one. `backlog` is above 0.
  [[nodiscard]] bool add(std::uint64_t service_id, std::uint32_t backlog, Capabilities offer) {
    assert(backlog > 0);
    return all_.try_emplace(service_id, Listener{.backlog = backlog, .offer = offer}).second;
  }
  /// Requests that wait have to leave their places, by drop().
  void remove(std::uint64_t service_id) { all_.erase(service_id); }
  /// A request begins to wait. Requires has().
  void take(Place& place, std::uint64_t service_id) {
    assert(place == Place::none);
    place = Place::taken;
    ++all_.at(service_id).waiting;
  }
  /// The application has answered, or need not. Harmless if it does not wait.
  void leave(Place& place, std::uint64_t service_id) {
    if (std::exchange(place, Place::none) == Place::none) return;
    assert(all_.at(service_id).waiting > 0);
    --all_.at(service_id).waiting;
  }
  /// Its listener is gone, and the next one's backlog is another.
  static void drop(Place& place) { place = Place::none; }

 private:
  struct Listener {
    std::uint32_t backlog = 0;
    Capabilities offer = kNoCapabilities;
    std::uint32_t waiting = 0;  ///< requests that the application has not answered
  };
  std::map<std::uint64_t, Listener> all_;  ///< by service ID
};

}  // namespace rockhopper::roce::cm
