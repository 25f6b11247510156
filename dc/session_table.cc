// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "dc/session_table.h"

#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dc/message.h"

namespace rockhopper::dc {

std::size_t SessionTable::Hash::operator()(const Peer& peer) const {
  std::array<std::uint8_t, 24> bytes{};
  std::memcpy(bytes.data(), peer.address.bytes.data(), peer.address.bytes.size());
  const std::uint32_t place = peer.initiator.value << 8 | peer.stream;
  std::memcpy(&bytes[16], &place, sizeof place);
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::size_t SessionTable::Hash::operator()(const stack::IpAddress& address) const {
  return XXH3_64bits_withSeed(address.bytes.data(), address.bytes.size(), seed);
}

SessionTable::SessionTable(const Config& config, roce::Random& random)
    : config_(config),
      hash_{random.next()},
      sessions_(std::size_t{config.contexts} + config.tombstones),
      contexts_(config.contexts),
      hosts_(config.contexts),
      peer_buckets_(std::bit_ceil(sessions_.size())),
      host_buckets_(std::bit_ceil(hosts_.size())),
      peers_({peer_buckets_.data(), peer_buckets_.size()}, hash_),
      host_set_({host_buckets_.data(), host_buckets_.size()}, hash_) {
  assert(config.contexts > 0 && config.contexts <= 1u << 24);
  for (Session& session : sessions_) {
    free_sessions_.push_back(&session);
  }
  for (Host& host : hosts_) {
    free_hosts_.push_back(&host);
  }
  // A stale id should not even be a likely one.
  for (std::uint32_t index = config.contexts; index > 0; --index) {
    contexts_[index - 1].generation = static_cast<std::uint32_t>(random.next());
    free_contexts_.push_back(index - 1);
  }
}

SessionTable::~SessionTable() {
  open_.clear();
  tombstones_.clear();
  peers_.clear();
  host_set_.clear();
}

Session* SessionTable::find(const Peer& peer) {
  const auto found = peers_.find(peer, hash_, Equal{});
  return found == peers_.end() ? nullptr : &*found;
}

const Session* SessionTable::find(const Peer& peer) const {
  const auto found = peers_.find(peer, hash_, Equal{});
  return found == peers_.end() ? nullptr : &*found;
}

Session* SessionTable::find(std::uint64_t id) const {
  const std::uint32_t index = context_index(id);
  Session* session = index < contexts_.size() ? contexts_[index].session : nullptr;
  return session != nullptr && session->id == id ? session : nullptr;
}

bool SessionTable::is_over_quota(const Peer& peer) const {
  if (config_.per_host == 0) return false;
  const auto host = host_set_.find(peer.address, hash_, Equal{});
  return host != host_set_.end() && host->sessions >= config_.per_host;
}

bool SessionTable::has_room(const Peer& peer) const {
  return !free_contexts_.empty() && (find(peer) != nullptr || !free_sessions_.empty());
}

Session& SessionTable::open(const Peer& peer, std::uint64_t incarnation, std::uint32_t nonce,
                            wire::Qpn target, std::uint64_t now_ns) {
  assert(!is_over_quota(peer) && has_room(peer));
  Session* session = find(peer);
  if (session == nullptr) {
    session = free_sessions_.back();
    free_sessions_.pop_back();
    session->peer = peer;
    session->incarnation = session->previous_incarnation = incarnation;
    session->held_since_ns = now_ns;
    peers_.insert(*session);
  } else {
    assert(!session->open);
    if (session->held_since_ns == 0 || session->touched_ns + config_.hold_ns <= now_ns) {
      session->held_since_ns = now_ns;  // it has been away
    }
    tombstones_.erase(tombstones_.iterator_to(*session));
    if (session->incarnation != incarnation) {
      session->previous_incarnation = session->incarnation;
      session->incarnation = incarnation;
    }
  }
  const std::uint32_t index = free_contexts_.back();
  free_contexts_.pop_back();
  Context& context = contexts_[index];
  context.session = session;
  if (++context.generation == 0) {
    ++context.generation;  // no id is 0
  }
  session->id = session_id(config_.shard, index, context.generation);
  session->nonce = nonce;
  session->target = target;
  session->open = true;
  session->touched_ns = now_ns;
  open_.push_back(*session);
  count_host(peer.address, true);
  return *session;
}

void SessionTable::close(Session& session, wire::Psn final_psn, std::uint64_t now_ns) {
  assert(session.open);
  const std::uint32_t index = context_index(session.id);
  contexts_[index].session = nullptr;
  free_contexts_.push_back(index);
  open_.erase(open_.iterator_to(session));
  session.open = false;
  session.final_psn = final_psn;
  session.touched_ns = now_ns;
  tombstones_.push_back(session);
  count_host(session.peer.address, false);
}

void SessionTable::touch(Session& session, std::uint64_t now_ns) {
  session.touched_ns = now_ns;
  open_.splice(open_.end(), open_, open_.iterator_to(session));
}

void SessionTable::forget(std::uint64_t now_ns) {
  while (!tombstones_.empty() && tombstones_.front().touched_ns + config_.tombstone_ns <= now_ns) {
    Session& session = tombstones_.front();
    tombstones_.pop_front();
    peers_.erase(peers_.iterator_to(session));
    free_sessions_.push_back(&session);
  }
}

void SessionTable::count_host(const stack::IpAddress& address, bool opened) {
  const auto found = host_set_.find(address, hash_, Equal{});
  if (opened && found == host_set_.end()) {
    Host& host = *free_hosts_.back();
    free_hosts_.pop_back();
    host.address = address;
    host.sessions = 1;
    host_set_.insert(host);
    return;
  }
  found->sessions += opened ? 1u : -1u;
  if (found->sessions == 0) {
    Host& host = *found;
    host_set_.erase(found);
    free_hosts_.push_back(&host);
  }
}

}  // namespace rockhopper::dc
