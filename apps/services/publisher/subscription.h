// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/services/publisher/message.h"
#include "apps/services/publisher/reader.h"
#include "apps/services/publisher/subscriber.h"
#include "roce/owned.h"

namespace rockhopper::publisher {

class MulticastReceiver;

/// A subscription of a store, from being asked for to its end.
///
///     wanted --asked--> asked --granted--> granted
///       ^                 |                   |
///       +---- the connection is lost ---------+
///
///     leave(): asked, granted --> leaving --given back--> ended;   wanted --> ended
///     refused, revoked: ended
class Subscription {
 public:
  enum class State : std::uint8_t {
    wanted,   ///< to be asked for
    asked,    ///< an answer is awaited
    granted,  ///< read
    leaving,  ///< to be given back when the last round has ended
    ended,
  };

  /// `listener` must outlive it, or leave().
  Subscription(SubscriptionId id, std::string_view store, const Subscriber::Options& options,
               Listener& listener)
      : id_(id), name_(store), options_(options), listener_(&listener) {}

  [[nodiscard]] SubscriptionId id() const { return id_; }
  [[nodiscard]] std::uint32_t number() const { return static_cast<std::uint32_t>(id_); }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool is(State state) const { return state_ == state; }
  /// Somebody listens: it is neither left nor refused.
  [[nodiscard]] bool has_listener() const { return listener_ != nullptr; }
  /// It is granted, and the store has that number.
  [[nodiscard]] bool reads(std::uint16_t store_id) const {
    return is(State::granted) && info_.id == store_id;
  }
  [[nodiscard]] const StoreInfo& info() const { return info_; }
  [[nodiscard]] const std::vector<std::byte>& credentials() const { return options_.credentials; }
  /// The publisher's key, until the connection is lost.
  [[nodiscard]] roce::MemoryKey rkey() const { return rkey_; }
  [[nodiscard]] bool has_key() const { return has_key_; }
  /// Returns null if it has not been granted yet.
  [[nodiscard]] StoreReader* reader() const { return reader_.get(); }
  /// Returns null if it has not been granted yet, or if the store is no log.
  [[nodiscard]] Reader* log() const { return log_; }
  [[nodiscard]] roce::MemoryKey buffer_key() const { return region_.key(); }
  /// Where copies come from; null: nowhere.
  [[nodiscard]] const MulticastReceiver* multicast() const { return multicast_; }
  /// A round is on its way.
  [[nodiscard]] bool is_reading() const { return is_reading_; }
  /// It has ended, and nothing writes into its buffer any more.
  [[nodiscard]] bool is_over() const { return is(State::ended) && !is_reading_; }
  /// The publisher may have granted it, of which nobody knows yet.
  [[nodiscard]] bool awaits_answer() const {
    return is(State::asked) || (is(State::leaving) && !has_key_);
  }

  void set_paused(bool paused);
  void set_watch(bool watch);
  void set_reading(bool reading) { is_reading_ = reading; }
  void on_asked() { state_ = State::asked; }
  /// Ends it, at once or when it has been given back to a publisher that is `connected`: the answer
  /// to what has been asked is still to come.
  void leave(bool connected);
  /// It has been given back, or refused, or taken back.
  void end();
  /// The publisher has granted it, or granted it while it was being left.
  void take_grant(const GrantMessage& grant);
  /// Reads the store from now on, with a buffer of at most `max_buffer_bytes`. If that fails it is
  /// given back, and not listened to any more.
  [[nodiscard]] Expected<void> open(roce::Engine& engine, roce::ProtectionDomain pd,
                                    std::uint64_t max_buffer_bytes, std::uint64_t now_ns);
  /// Copies come from there, up to so many bytes; so many can be held.
  void expect_copies(const MulticastReceiver& receiver, std::uint32_t count, std::uint32_t bytes);
  /// The connection is lost; what was on its way will not come.
  void on_disconnected();
  /// All that was on its way has failed, and is asked for anew; the connection is not lost.
  void on_flushed();
  /// The key is not good any more: the publisher is asked again, and says why not.
  void on_key_refused();

 private:
  [[nodiscard]] Expected<void> prepare(roce::Engine& engine, roce::ProtectionDomain pd,
                                       std::uint64_t max_buffer_bytes);
  void make_reader();
  void forget_key();

  const SubscriptionId id_;
  const std::string name_;
  Subscriber::Options options_;
  Listener* listener_;
  State state_ = State::wanted;
  StoreInfo info_;
  roce::MemoryKey rkey_{};
  bool has_key_ = false;
  bool is_reading_ = false;
  bool is_paused_ = false;
  std::vector<std::byte> buffer_;
  roce::OwnedRegion region_;  ///< of the buffer
  std::unique_ptr<StoreReader> reader_;
  Reader* log_ = nullptr;  ///< the reader, if it is one of a log
  const MulticastReceiver* multicast_ = nullptr;
};

}  // namespace rockhopper::publisher
