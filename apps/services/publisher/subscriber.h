// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/services/publisher/counters.h"
#include "apps/services/publisher/message.h"
#include "apps/services/publisher/reader.h"
#include "apps/services/publisher/store_info.h"
#include "dc/endpoint.h"
#include "dc/target_address.h"
#include "roce/engine.h"
#include "roce/receive_buffers.h"

namespace rockhopper::publisher {

struct SubscriberConfig {
  std::uint16_t max_subscriptions = 16;  ///< 1 to 64
  /// The largest buffer for what is READ of one store, bytes; stores that need more are refused.
  std::uint64_t max_buffer_bytes = std::uint64_t{256} << 20;
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;  ///< of dynamic connections
  std::uint8_t timeout = 14;   ///< local ACK timeout code of dynamic connections
  std::uint8_t retry_cnt = 7;  ///< likewise
  /// Datagrams of a publisher's multicast group that can wait, up to 32768. If this or held_copies
  /// is 0, no group is joined, and all messages are READ.
  std::uint32_t multicast_buffers = 1024;
  std::uint16_t multicast_pkey_index = 0;
  /// Copies of a store's messages that can wait for what is missing before them (PB-17).
  std::uint32_t held_copies = 1024;
};

/// A subscription; never used again.
enum class SubscriptionId : std::uint32_t {};

/// What a subscriber tells. Called from progress(); must not call the subscriber.
class SubscriberListener {
 public:
  SubscriberListener() = default;
  SubscriberListener(const SubscriberListener&) = delete;
  SubscriberListener& operator=(const SubscriberListener&) = delete;
  virtual ~SubscriberListener() = default;
  /// All stores that the publisher shows us.
  virtual void on_directory(std::span<const StoreInfo> /*stores*/) {}
  virtual void on_granted(SubscriptionId /*id*/, const StoreInfo& /*store*/) {}
  /// The subscription has ended; error.message says why.
  virtual void on_refused(SubscriptionId /*id*/, const Error& /*error*/) {}
  /// The subscription has ended, as the publisher has taken it back (PB-25).
  virtual void on_revoked(SubscriptionId /*id*/) {}
  /// Copies of its messages are received from this group from now on.
  virtual void on_multicast(SubscriptionId /*id*/, const MulticastGroup& /*group*/) {}
  /// They cannot be, for this reason; all messages are READ.
  virtual void on_no_multicast(SubscriptionId /*id*/, const Error& /*error*/) {}
  /// The connection has ended, and nothing comes any more. Subscriptions stay, and go on with the
  /// next connect().
  virtual void on_disconnected() {}
};

class MulticastReceiver;
class SubscriberRoute;

/// One subscriber of one publisher: asks for stores, and reads those that it is granted, each at
/// its own pace (PB-11), into the subscription's Listener. Belongs to the engine's thread.
class Subscriber {
 public:
  /// `endpoint` null: no dynamic connections. All must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<Subscriber>> create(roce::Engine& engine,
                                                                    dc::Endpoint* endpoint,
                                                                    SubscriberListener& listener,
                                                                    const SubscriberConfig& config);
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;
  /// The queue pair that it has been given is to be destroyed before.
  ~Subscriber();

  /// For a queue pair to the publisher: to be made by the engine, given to connect() in INIT or
  /// later, and connected without any access rights and with max_rd_atomic of kReads at best.
  [[nodiscard]] roce::QpInit qp_init() const;
  static constexpr std::uint8_t kReads = 16;
  /// The way to the publisher, (again) after on_disconnected(); what has been subscribed is asked
  /// for anew and goes on where it was. The queue pair stays the caller's; it may be destroyed
  /// after on_disconnected().
  [[nodiscard]] Expected<void> connect(roce::QueuePair& qp);
  /// By dynamic connections, to the target that the publisher has for us.
  [[nodiscard]] Expected<void> connect(const dc::TargetAddress& address);
  /// By which the publisher reaches us; null without an endpoint.
  [[nodiscard]] const dc::Dct* target() const { return target_; }
  [[nodiscard]] bool connected() const;

  /// on_directory() will tell.
  [[nodiscard]] Expected<void> request_directory();

  struct Options {
    ReaderConfig reader{};
    std::vector<std::byte> credentials;  ///< up to kCredentialsMax bytes, for the policy
  };
  /// Asks for the store of that name; the messages go to `listener`, which must outlive the
  /// subscription. May be called before connect().
  [[nodiscard]] Expected<SubscriptionId> subscribe(std::string_view store, const Options& options,
                                                   Listener& listener);
  /// Ends it: its listener is called no more. Harmless if there is no such one.
  void leave(SubscriptionId id);
  /// While true, nothing of it is read; what is overwritten meanwhile will be told as lost.
  void pause(SubscriptionId id, bool paused);
  /// Whether it watches once all is read, in place of ReaderConfig::watch (PB-29).
  void set_watch(SubscriptionId id, bool watch);
  /// Returns null if there is no such subscription, or if it has not been granted yet.
  [[nodiscard]] const StoreReader* reader(SubscriptionId id) const;
  /// Returns null in the same cases, and if the store is conflated and has no copies.
  [[nodiscard]] const CopyCounters* copy_counters(SubscriptionId id) const;

  /// One turn. True if there was something to do.
  bool progress(std::uint64_t now_ns);
  /// When progress() has something to do if nothing else happens.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;

  [[nodiscard]] const SubscriberCounters& counters() const { return counters_; }
  /// Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  struct Subscription;

  Subscriber(roce::Engine& engine, dc::Endpoint* endpoint, SubscriberListener& listener,
             const SubscriberConfig& config);
  [[nodiscard]] Expected<void> set_up();
  [[nodiscard]] Subscription* find(SubscriptionId id) const;
  [[nodiscard]] bool poll_receives(std::uint64_t now_ns);
  [[nodiscard]] bool poll_sends(std::uint64_t now_ns);
  void on_completion(const roce::Completion& completion, std::uint64_t now_ns);
  void on_failed(Subscription* subscription, roce::WcStatus status);
  void accept(const ControlMessage& message, std::uint64_t now_ns);
  void on_grant(const GrantMessage& grant, std::uint64_t now_ns);
  void on_refused(const RefusedMessage& refused);
  void on_revoke(const Revoke& revoke);
  void on_directory(const Directory& directory);
  void on_changed(const Changed& changed, std::uint64_t now_ns);
  void on_multicast(const MulticastMessage& message);
  [[nodiscard]] Expected<MulticastReceiver*> join(const MulticastGroup& group);
  [[nodiscard]] bool poll_multicast(std::uint64_t now_ns);
  void on_copy(const MulticastReceiver& receiver, std::uint16_t store_id,
               std::span<const std::byte> bytes, std::uint64_t now_ns);
  [[nodiscard]] Expected<void> prepare(Subscription& subscription, const StoreInfo& info);
  void give_back(Subscription& subscription);
  /// Returns false if there is no room now.
  [[nodiscard]] bool send(const ControlMessage& message);
  [[nodiscard]] bool send_requests();
  [[nodiscard]] bool is_held(std::string_view store) const;
  [[nodiscard]] bool read(Subscription& subscription, std::uint64_t now_ns);
  [[nodiscard]] bool watch(Subscription& subscription);
  void start_connection(std::unique_ptr<SubscriberRoute> route);
  void disconnect();
  void sweep();

  roce::Engine& engine_;
  dc::Endpoint* endpoint_;
  SubscriberListener& listener_;
  SubscriberConfig config_;
  roce::ProtectionDomain pd_;
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<roce::ReceiveBuffers> receives_;
  dc::Dct* target_ = nullptr;
  dc::Dci* initiator_ = nullptr;
  std::unique_ptr<SubscriberRoute> route_;  ///< null: not connected
  std::vector<std::unique_ptr<Subscription>> subscriptions_;
  std::vector<std::unique_ptr<MulticastReceiver>> multicast_;  ///< a group each
  std::vector<StoreInfo> directory_;
  bool directory_wanted_ = false;
  bool directory_asked_ = false;
  std::uint32_t next_id_ = 1;
  std::uint32_t connection_ = 0;  ///< how many there have been
  SubscriberCounters counters_;
};

}  // namespace rockhopper::publisher
