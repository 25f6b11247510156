// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/services/publisher/counters.h"
#include "apps/services/publisher/message.h"
#include "apps/services/publisher/multicast_sender.h"
#include "apps/services/publisher/policy.h"
#include "apps/services/publisher/store.h"
#include "apps/services/publisher/store_info.h"
#include "dc/dci_pool.h"
#include "dc/endpoint.h"
#include "dc/target_address.h"
#include "roce/engine.h"
#include "roce/receive_buffers.h"

namespace rockhopper::publisher {

struct PublisherConfig {
  std::uint64_t heartbeat_ns = 10'000'000;  ///< the interval, 1 us or more (PB-19)
  /// How often each subscriber is sent a message, in whole heart-beats: of one that only READs it
  /// is not noticed otherwise that it has vanished. 0: never, the application will know.
  std::uint64_t probe_ns = 0;
  std::uint16_t max_subscribers = 256;               ///< 1 to 4096
  std::uint16_t max_grants = 64;                     ///< of one subscriber
  std::uint16_t receive_buffers = 256;               ///< for requests of all subscribers together
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;  ///< of dynamic connections
  std::uint8_t timeout = 14;   ///< local ACK timeout code of dynamic connections
  std::uint8_t retry_cnt = 7;  ///< likewise
  /// Messages of log stores are sent to this group besides (PB-13), which the publisher tells its
  /// subscribers. Any station can be a member: what may be read there is not decided by the policy.
  std::optional<MulticastConfig> multicast{};
};

/// A subscriber as the publisher knows it; never used again.
enum class SubscriberId : std::uint32_t {};

/// What a publisher tells. Called from progress(); must not call the publisher.
class PublisherListener {
 public:
  PublisherListener() = default;
  PublisherListener(const PublisherListener&) = delete;
  PublisherListener& operator=(const PublisherListener&) = delete;
  virtual ~PublisherListener() = default;
  virtual void on_granted(SubscriberId /*id*/, const StoreInfo& /*store*/) {}
  /// `store` is the name that was asked for, which need not be one.
  virtual void on_refused(SubscriberId /*id*/, std::string_view /*store*/, Refusal /*why*/) {}
  /// It has given the store back.
  virtual void on_left(SubscriberId /*id*/, const StoreInfo& /*store*/) {}
  /// Its connection has ended: it has no grants any more, and waits for remove_subscriber(). This
  /// is noticed when there is something to be sent to it: to one that watches with each heart-beat,
  /// to others with PublisherConfig::probe_ns.
  virtual void on_gone(SubscriberId /*id*/) {}
};

/// Gives subscribers access to stores: for each subscriber and store a key of its own, that serves
/// nobody else and nothing else (PB-9, PB-26). With a queue pair it is a memory window of type 2,
/// bound by that queue pair; with dynamic connections a registration in a protection domain that
/// only the subscriber's own target has. Takes no part in what is published or read.
///
/// Belongs to the engine's thread. The stores' writers may be others.
class Publisher {
 public:
  /// `endpoint` null: no dynamic connections. All must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<Publisher>> create(roce::Engine& engine,
                                                                   dc::Endpoint* endpoint,
                                                                   Policy& policy,
                                                                   PublisherListener& listener,
                                                                   const PublisherConfig& config);
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;
  /// All grants end. Queue pairs that subscribers have come by are to be destroyed before.
  ~Publisher();

  /// Registers the store's memory and offers it under that name. The store must outlive it here.
  [[nodiscard]] Expected<void> add_store(std::string_view name, AnyStore& store);
  /// Ends its grants and its registration: from the return on nobody reads it (PB-1).
  [[nodiscard]] Expected<void> remove_store(std::uint16_t id);

  /// For a queue pair that shall be a subscriber's: to be made by the engine, given to
  /// add_subscriber() in INIT or later, and connected with access rights to READ.
  [[nodiscard]] roce::QpInit qp_init() const;
  /// `name` is the subscriber's, as the policy knows it. The queue pair stays the caller's; it must
  /// outlive the subscriber here.
  [[nodiscard]] Expected<SubscriberId> add_subscriber(std::string_view name, roce::QueuePair& qp);
  /// One that is reached, and comes, by dynamic connections. target() is for it alone.
  [[nodiscard]] Expected<SubscriberId> add_subscriber(std::string_view name,
                                                      const dc::TargetAddress& address);
  /// Returns null if there is no such subscriber, or if it has a queue pair.
  [[nodiscard]] const dc::Dct* target(SubscriberId id) const;
  /// Its grants end; then its queue pair may be destroyed. Harmless if there is no such one.
  void remove_subscriber(SubscriberId id);

  /// Takes a grant back: from the return on no READ with its key is answered, and the subscriber is
  /// told (PB-25). False: it had none. A READ that comes all the same ends its connection.
  bool revoke(SubscriberId id, std::uint16_t store_id);
  /// Asks the policy again about all grants, and takes back those that are not right any more.
  void apply_policy();

  /// One turn. True if there was something to do.
  bool progress(std::uint64_t now_ns);
  /// When progress() has something to do if nothing else happens. A message that is published in a
  /// store that is watched is something.
  [[nodiscard]] std::uint64_t next_deadline_ns() const { return next_heartbeat_ns_; }

  [[nodiscard]] std::size_t subscriber_count() const { return subscribers_.size(); }
  [[nodiscard]] std::size_t grant_count() const;
  /// Subscribers that wait for something new, in all stores (PB-29).
  [[nodiscard]] std::size_t watch_count() const;
  [[nodiscard]] const PublisherCounters& counters() const { return counters_; }
  /// Returns null if there is no multicast.
  [[nodiscard]] const MulticastSender* multicast() const { return multicast_.get(); }
  /// Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  /// A window whose binding is on its way.
  struct Binding {
    SubscriberId subscriber{};
    bool ended = false;  ///< the grant has ended meanwhile
  };
  struct OfferedStore;
  struct Grant;
  struct Subscriber;

  Publisher(roce::Engine& engine, dc::Endpoint* endpoint, Policy& policy,
            PublisherListener& listener, const PublisherConfig& config);
  [[nodiscard]] Expected<void> set_up();
  [[nodiscard]] StoreInfo info_of(const OfferedStore& offered) const;
  [[nodiscard]] OfferedStore* find_store(std::string_view name);
  [[nodiscard]] Subscriber* find(SubscriberId id) const;
  [[nodiscard]] Expected<Subscriber*> make_subscriber(std::string_view name);

  [[nodiscard]] bool poll_receives();
  [[nodiscard]] bool poll_sends();
  void accept(Subscriber& subscriber, const roce::Completion& completion,
              std::span<const std::byte> bytes);
  void on_request(Subscriber& subscriber, const DirectoryRequest& request);
  void on_request(Subscriber& subscriber, const SubscribeRequest& request);
  void on_request(Subscriber& subscriber, const Leave& request);
  void on_request(Subscriber& subscriber, const Watch& request);
  /// Returns nothing if it is granted.
  [[nodiscard]] std::optional<Refusal> grant(Subscriber& subscriber,
                                             const SubscribeRequest& request);
  [[nodiscard]] bool give_key(Subscriber& subscriber, const OfferedStore& store, Grant& grant);
  void take_key(const Subscriber& subscriber, const Grant& grant);
  void end_grant(Subscriber& subscriber, std::size_t index);
  void end_grants(Subscriber& subscriber);
  void end_watch(Subscriber& subscriber, Grant& grant);
  void answer_watchers(OfferedStore& store);
  void answer_all_watchers();
  [[nodiscard]] bool look_at_watched();
  /// As many as there is room for. True if there was any.
  [[nodiscard]] bool send_messages(Subscriber& subscriber);
  [[nodiscard]] bool send_answers(Subscriber& subscriber);
  /// Returns false if there is no room now.
  [[nodiscard]] bool post(Subscriber& subscriber, const ControlMessage& message);
  [[nodiscard]] SubscriberId end_binding(std::uint32_t rkey);
  void on_failed(Subscriber& subscriber);
  void beat(std::uint64_t now_ns);
  void probe();

  roce::Engine& engine_;
  dc::Endpoint* endpoint_;
  Policy& policy_;
  PublisherListener& listener_;
  PublisherConfig config_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<roce::ReceiveBuffers> receives_;  ///< of those with queue pairs
  std::unique_ptr<dc::DciPool> pool_;
  std::unique_ptr<MulticastSender> multicast_;
  std::map<std::uint16_t, std::unique_ptr<OfferedStore>> stores_;
  std::vector<OfferedStore*> watched_;  ///< those that have watchers
  std::map<SubscriberId, std::unique_ptr<Subscriber>> subscribers_;
  std::unordered_map<std::uint32_t, Subscriber*> by_number_;  ///< of queue pairs
  std::unordered_map<std::uint32_t, Binding> binding_;        ///< by key
  std::uint32_t next_id_ = 1;
  std::uint64_t next_heartbeat_ns_ = 0;
  std::uint64_t next_probe_ns_ = 0;
  PublisherCounters counters_;
};

}  // namespace rockhopper::publisher
