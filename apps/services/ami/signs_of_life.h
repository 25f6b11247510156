// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "apps/services/ami/adapter_parts.h"

namespace rockhopper::ami {

/// Asks peers that are silent for a sign of life, as long as somebody waits for them: those that
/// owe a reply, and those that applications watch (Watches).
class SignsOfLife {
 public:
  /// `parts` must outlive it.
  explicit SignsOfLife(AdapterParts& parts) : parts_(parts) {}
  ~SignsOfLife() { watched_.clear(); }
  SignsOfLife(const SignsOfLife&) = delete;
  SignsOfLife& operator=(const SignsOfLife&) = delete;

  /// Returns when ask() has something to do; UINT64_MAX: never.
  [[nodiscard]] std::uint64_t next_ns() const { return is_needed() ? next_ns_ : UINT64_MAX; }

  /// The peer owes a reply. Harmless if it is known.
  void watch(Peer& peer);
  /// The peer owes none.
  void forget(Peer& peer) { watched_.erase(watched_.iterator_to(peer)); }
  /// It has sent something, or its transport has answered.
  void on_heard(Peer& peer) const { peer.heard_ns = parts_.now_ns; }
  /// What it was asked is complete, or has failed.
  static void on_asked(Peer& peer) { peer.probed = false; }
  /// If it is time, asks all that are silent. Calls `fail(peer)` for those that cannot be asked any
  /// more, which may call forget().
  template <typename Fail>
  void ask(const Fail& fail);

 private:
  [[nodiscard]] bool is_needed() const;
  /// Returns false if the peer cannot be asked any more.
  [[nodiscard]] bool ask(Peer& peer);
  template <typename Fail>
  void ask_watched(LanePort& port, const Fail& fail);

  AdapterParts& parts_;
  PeerList<&Peer::watched_hook> watched_;  ///< those that owe a reply
  std::uint64_t next_ns_ = 0;
};

template <typename Fail>
void SignsOfLife::ask(const Fail& fail) {
  if (parts_.now_ns < next_ns_ || !is_needed()) return;
  // A peer that fails leaves the list.
  for (auto next = watched_.begin(); next != watched_.end();) {
    Peer& peer = *next++;
    if (!ask(peer)) fail(peer);
  }
  for (const auto& port : parts_.ports) {
    if (port->lane.watches.any()) ask_watched(*port, fail);
  }
  next_ns_ = parts_.now_ns + parts_.config.probe_ns / 4;
}

template <typename Fail>
void SignsOfLife::ask_watched(LanePort& port, const Fail& fail) {
  for (std::size_t i = 0; i < port.peers.size(); ++i) {
    const auto id = static_cast<EndpointId>(i);
    if (!port.lane.watches.contains(id)) continue;
    Peer* peer = port.find(id);
    if (peer == nullptr) {
      port.tell_failed(id);
    } else if (!peer->failed) {
      if (peer->heard_ns == 0) on_heard(*peer);  // nobody has asked so far
      if (!ask(*peer)) fail(*peer);
    }
  }
}

}  // namespace rockhopper::ami
