// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/unordered_set.hpp>

#include "roce/random.h"
#include "roce/wire/psn.h"
#include "roce/wire/qpn.h"
#include "stack/ip_address.h"

namespace rockhopper::dc {

/// The peer that has a session: a stream of an initiator.
struct Peer {
  stack::IpAddress address;
  wire::Qpn initiator;
  std::uint8_t stream = 0;
  friend bool operator==(const Peer&, const Peer&) = default;
};

/// What a target knows of one peer: its session, or what remains of the last one (a tombstone), by
/// which late packets are told from new ones (DC-26 to DC-29).
struct Session : boost::intrusive::list_base_hook<>, boost::intrusive::unordered_set_base_hook<> {
  Peer peer;
  std::uint64_t incarnation = 0;           ///< of the peer's process
  std::uint64_t previous_incarnation = 0;  ///< the one before; whatever still comes of it is late
  std::uint32_t nonce = 0;                 ///< of the connect: the highest so far
  bool open = false;
  std::uint64_t id = 0;
  wire::Qpn target{};            ///< number of the DCT
  wire::Psn final_psn{};         ///< of a tombstone: what would have been expected next
  std::uint64_t touched_ns = 0;  ///< last activity; of a tombstone: when it was closed
  /// Since when the peer has had a context, reconnects included; 0: it has been made to leave.
  std::uint64_t held_since_ns = 0;
};

/// The sessions of a target's shard. Contexts are a pool: each open session has one, whose number
/// the session id names together with a generation, so that a stale id never finds another session.
/// Memory is allocated once; a session is found in constant time by id and by peer.
class SessionTable {
 public:
  struct Config {
    std::uint32_t contexts = 1024;    ///< 1 to 2^24: sessions open at once
    std::uint32_t tombstones = 4096;  ///< peers without a session that are remembered
    std::uint32_t per_host = 0;       ///< sessions of one address, 0: as many as there are
    /// How long late packets may still come, twice the longest life of a packet.
    std::uint64_t tombstone_ns = 1'000'000'000;
    /// For so long a peer may have a context while others wait for one.
    std::uint64_t hold_ns = 10'000'000;
    std::uint8_t shard = 0;
  };

  /// `random` gives generations and the hash's seed; it is not kept.
  SessionTable(const Config& config, roce::Random& random);
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;
  ~SessionTable();

  /// What is known of the peer; null: nothing.
  [[nodiscard]] Session* find(const Peer& peer);
  [[nodiscard]] const Session* find(const Peer& peer) const;
  /// The open session with that id; null: it is none.
  [[nodiscard]] Session* find(std::uint64_t id) const;

  /// The address of `peer` has as many sessions as it may.
  [[nodiscard]] bool is_over_quota(const Peer& peer) const;
  /// There is a free context, and a place for what is to be remembered of `peer`.
  [[nodiscard]] bool has_room(const Peer& peer) const;
  /// Requires that the peer is not over its quota, that there is room, and that it has no open
  /// session.
  [[nodiscard]] Session& open(const Peer& peer, std::uint64_t incarnation, std::uint32_t nonce,
                              wire::Qpn target, std::uint64_t now_ns);
  /// The session's context is free; the rest is a tombstone.
  void close(Session& session, wire::Psn final_psn, std::uint64_t now_ns);
  void touch(Session& session, std::uint64_t now_ns);

  /// The open session that has been idle longest; null: there is none.
  [[nodiscard]] Session* oldest() { return open_.empty() ? nullptr : &open_.front(); }
  /// Looks at a few open sessions, each time at others, for one that is held for too long and is
  /// `fit(Session&)`; null: none of them.
  template <typename Fit>
  [[nodiscard]] Session* find_next_held_too_long(std::uint64_t now_ns, Fit fit) {
    for (std::size_t i = std::min(contexts_.size(), kLookAt); i > 0; --i) {
      hand_ = (hand_ + 1) % contexts_.size();
      Session* session = contexts_[hand_].session;
      if (session != nullptr && session->held_since_ns + config_.hold_ns <= now_ns &&
          fit(*session)) {
        return session;
      }
    }
    return nullptr;
  }
  [[nodiscard]] std::uint32_t hold_us() const {
    return static_cast<std::uint32_t>(config_.hold_ns / 1000);
  }
  /// Forgets tombstones whose time is over.
  void forget(std::uint64_t now_ns);

  [[nodiscard]] std::size_t open_count() const { return contexts_.size() - free_contexts_.size(); }
  [[nodiscard]] std::size_t tombstone_count() const { return tombstones_.size(); }
  /// Calls `visit(Session&)` for each open session; it may close it.
  template <typename Visit>
  void for_each_open(Visit visit) {
    for (auto next = open_.begin(); next != open_.end();) {
      visit(*next++);
    }
  }

 private:
  static constexpr std::size_t kLookAt = 16;

  struct Context {
    std::uint32_t generation;
    Session* session = nullptr;
  };
  /// How many sessions an address has.
  struct Host : boost::intrusive::unordered_set_base_hook<> {
    stack::IpAddress address;
    std::uint32_t sessions = 0;
  };
  struct Hash {
    std::uint64_t seed;
    std::size_t operator()(const Peer& peer) const;
    std::size_t operator()(const stack::IpAddress& address) const;
    std::size_t operator()(const Session& session) const { return (*this)(session.peer); }
    std::size_t operator()(const Host& host) const { return (*this)(host.address); }
  };
  struct Equal {
    bool operator()(const Session& a, const Session& b) const { return a.peer == b.peer; }
    bool operator()(const Peer& a, const Session& b) const { return a == b.peer; }
    bool operator()(const Host& a, const Host& b) const { return a.address == b.address; }
    bool operator()(const stack::IpAddress& a, const Host& b) const { return a == b.address; }
  };
  template <typename Item>
  using Set = boost::intrusive::unordered_set<Item, boost::intrusive::hash<Hash>,
                                              boost::intrusive::equal<Equal>,
                                              boost::intrusive::power_2_buckets<true>>;
  template <typename Item>
  using Buckets = std::vector<typename Set<Item>::bucket_type>;
  using List = boost::intrusive::list<Session>;

  void count_host(const stack::IpAddress& address, bool opened);

  Config config_;
  Hash hash_;
  std::vector<Session> sessions_;
  std::vector<Session*> free_sessions_;
  std::vector<Context> contexts_;
  std::vector<std::uint32_t> free_contexts_;
  std::size_t hand_ = 0;  ///< the context that was looked at last
  std::vector<Host> hosts_;
  std::vector<Host*> free_hosts_;
  Buckets<Session> peer_buckets_;
  Buckets<Host> host_buckets_;
  Set<Session> peers_;
  Set<Host> host_set_;
  List open_;        ///< least recently active first
  List tombstones_;  ///< oldest first
};

}  // namespace rockhopper::dc
