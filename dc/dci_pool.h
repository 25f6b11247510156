// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "dc/dci.h"

namespace rockhopper::dc {

/// Which initiator of a pool serves a target (DC-35).
enum class PoolPolicy : std::uint8_t {
  /// One of its own while it has requests outstanding, the last one that got free. Who finds none
  /// waits; a target that always has requests never gives its one up.
  dcs,
  /// The same, but while others wait it gives its one up after so many requests.
  dcs_quota,
  /// One for ever, by a hash of the target; others may have the same one.
  hash,
  /// One for ever, by chance.
  random,
};

struct DciPoolConfig {
  PoolPolicy policy = PoolPolicy::dcs_quota;
  std::uint16_t dcis = 32;   ///< 1 to 1024; each with the streams of its DciInit
  std::uint32_t quota = 32;  ///< of dcs_quota: requests in a row, 1 or more
};

class Endpoint;
struct PoolChannel;

/// Base of what can stand in a pool's line; leaves it when destroyed.
using PoolLineHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// A target as the user of a pool addresses it: the user's own object, for as long as there are
/// requests to post. Belongs to the pool's thread.
class PoolTarget : public PoolLineHook {
 public:
  /// `ah` must outlive it.
  PoolTarget(const roce::AddressHandle& ah, wire::Qpn number, std::uint64_t access_key)
      : ah_(&ah), number_(number), access_key_(access_key) {}
  PoolTarget(const PoolTarget&) = delete;
  PoolTarget& operator=(const PoolTarget&) = delete;
  /// What is outstanding goes on. It is not called any more.
  ~PoolTarget();

  [[nodiscard]] wire::Qpn number() const { return number_; }
  /// The pool will call when there is an initiator for it.
  [[nodiscard]] bool waits() const { return is_linked(); }
  [[nodiscard]] const roce::AddressHandle& ah() const { return *ah_; }
  [[nodiscard]] std::uint64_t access_key() const { return access_key_; }

  // For the pool.
  /// What serves it.
  struct Service {
    PoolChannel* channel = nullptr;
    std::uint32_t used = 0;  ///< requests since it has the channel
  };
  [[nodiscard]] Service& service() { return service_; }
  [[nodiscard]] const Service& service() const { return service_; }

 private:
  const roce::AddressHandle* ah_;
  wire::Qpn number_;
  std::uint64_t access_key_;
  Service service_;
};

/// A stream of an initiator, and who has it to himself.
struct PoolChannel {
  Dci* dci;
  std::uint8_t stream;
  PoolTarget* holder = nullptr;
};

/// Initiators that many targets share, so that as many are connected at a time as there are streams
/// in the pool (DC-17, DC-35). Belongs to its endpoint's thread; the endpoint must outlive it, and
/// it its targets.
class DciPool {
 public:
  /// Called from progress(), and may post.
  using OnTurn = std::function<void(PoolTarget& target)>;

  [[nodiscard]] static Expected<std::unique_ptr<DciPool>> create(Endpoint& endpoint,
                                                                 const DciInit& init,
                                                                 const DciPoolConfig& config,
                                                                 OnTurn on_turn);
  DciPool(const DciPool&) = delete;
  DciPool& operator=(const DciPool&) = delete;
  ~DciPool();

  /// As Dci::post_send; where the request goes is the target's affair. Nothing: there is no
  /// initiator for it now. It waits, and gets its turn after those that wait already.
  /// Requests of a target are executed in order. One that fails takes with it what is behind it in
  /// its stream: requests of the same target, and with hash and random of others too.
  [[nodiscard]] std::optional<roce::PostResult> post_send(PoolTarget& target,
                                                          const roce::SendWr& wr);
  /// Does with the target what post_send() does, without a request. Returns what it would say of a
  /// good one.
  [[nodiscard]] std::optional<roce::PostResult> prepare(PoolTarget& target);
  /// Gives free initiators to those that wait. After completions have been polled.
  void progress();

  /// Streams that no target holds; 0 with hash and random.
  [[nodiscard]] std::size_t free_count() const { return free_.size(); }

 private:
  using Channel = PoolChannel;

  DciPool(Endpoint& endpoint, const DciPoolConfig& config, OnTurn on_turn);

  [[nodiscard]] bool exclusive() const {
    return config_.policy == PoolPolicy::dcs || config_.policy == PoolPolicy::dcs_quota;
  }
  /// Gives the target a stream, if it has none, and brings it into a state to take requests. Null:
  /// there is none for it now, and it waits.
  [[nodiscard]] const Channel* take_channel(PoolTarget& target);
  [[nodiscard]] Channel& choose(const PoolTarget& target);
  void hold(PoolTarget& target);
  static void revive(const Channel& channel);
  [[nodiscard]] bool must_give_way(const PoolTarget& target) const;

  Endpoint& endpoint_;
  DciPoolConfig config_;
  OnTurn on_turn_;
  std::vector<Dci*> dcis_;
  std::vector<Channel> channels_;
  std::vector<Channel*> free_;  ///< the last one that got free at the end
  std::vector<Channel*> held_;
  boost::intrusive::list<PoolTarget, boost::intrusive::base_hook<PoolLineHook>,
                         boost::intrusive::constant_time_size<false>>
      waiting_;
};

}  // namespace rockhopper::dc
