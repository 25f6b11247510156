// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/client.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/common/version.h"
#include "apps/rh_publish/names.h"

namespace rockhopper::apps::subscribe {
namespace {

/// For the directory.
constexpr std::uint64_t kAnswerNs = 10 * kNsPerSecond;
/// Of a store, that have begun after the publisher's end: the first may have begun before.
constexpr std::uint64_t kRoundsAfterTheEnd = 2;

/// Connections in a row by which nothing could be read.
constexpr unsigned kFruitlessMax = 5;
/// Before a connection is tried again: at first, and how far that is doubled.
constexpr std::uint64_t kPauseNs = 10 * kNsPerMs;
constexpr std::uint64_t kPauseMaxNs = kNsPerSecond;

std::string_view kind_name(publisher::StoreKind kind) {
  return kind == publisher::StoreKind::log ? "log" : "conflated";
}

nlohmann::json to_json(const publisher::CopyCounters& counters) {
  nlohmann::json json = nlohmann::json::object();
#define X(name, text) json[#name] = counters.name.value();
  ROCKHOPPER_PUBLISHER_COPY_COUNTERS(X)
#undef X
  return json;
}

}  // namespace

Client::Client(const Options& options)
    : options_(options),
      sink_(options.format, options.output),
      quota_{.wanted = options.count},
      rates_(options.endpoint.stats_s) {}

// The connection calls the listeners, so it ends first.
Client::~Client() { connection_.reset(); }

Expected<void> Client::run(const EndpointConfig& config, const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(connection_, Connection::create(options_, config, arguments, *this));
  ROCKHOPPER_TRY(connection_->connect());
  if (options_.list || options_.stores.empty()) ROCKHOPPER_TRY(read_directory());
  if (options_.list) {
    print_directory();
    return {};
  }
  std::vector<std::string> stores = options_.stores;
  if (stores.empty()) {
    for (const publisher::StoreInfo& store : directory_) {
      stores.push_back(store.name);
    }
  }
  if (stores.empty()) return fail(ErrorCode::not_found, "the publisher shows no store");
  for (const std::string& store : stores) {
    ROCKHOPPER_TRY(subscribe(store));
  }
  auto result = receive();
  // What has been received is written, whatever has ended it.
  auto drained = drain();
  ROCKHOPPER_TRY(result);
  ROCKHOPPER_TRY(drained);
  return verdict();
}

Expected<void> Client::read_directory() {
  ROCKHOPPER_TRY(connection_->subscriber().request_directory());
  ROCKHOPPER_TRY(
      connection_->turn_until([this] { return directory_read_ || disconnected_; }, kAnswerNs));
  if (directory_read_) return {};
  return fail(ErrorCode::timeout, "the publisher does not answer");
}

Expected<void> Client::subscribe(const std::string& store) {
  // Names that the publisher shows are as little to be trusted as anything else.
  ROCKHOPPER_TRY(publish::check_name(store));
  auto subscription = std::make_unique<Subscription>(store, sink_, quota_);
  ROCKHOPPER_TRY(subscription->id, connection_->subscriber().subscribe(
                                       store, {.reader = options_.reader}, *subscription));
  subscriptions_.push_back(std::move(subscription));
  return {};
}

Expected<void> Client::receive() {
  while (!is_over()) {
    if (stop_requested()) {
      if (options_.count == 0) return {};
      return tl::make_unexpected(interrupted());
    }
    (void)connection_->turn();
    if (failure_) return tl::make_unexpected(*failure_);
    ROCKHOPPER_TRY(write_out());
    const std::uint64_t now_ns = connection_->now_ns();
    if (disconnected_) {
      ROCKHOPPER_TRY(reconnect());
    } else if (now_ns >= next_look_ns_) {
      next_look_ns_ = now_ns + kLookNs;
      ROCKHOPPER_TRY(look(now_ns));
    }
  }
  return {};
}

Expected<void> Client::write_out() {
  if (sink_.is_empty() && !paused_) return {};
  ROCKHOPPER_TRY(sink_.flush());
  if (sink_.is_full() == paused_) return {};
  paused_ = !paused_;
  for (const auto& subscription : subscriptions_) {
    connection_->subscriber().pause(subscription->id, paused_);
  }
  return {};
}

Expected<void> Client::look(std::uint64_t now_ns) {
  print_rates(now_ns);
  if (!connection_->link_alive()) {
    return fail(ErrorCode::io, "the link is down: the other end has gone");
  }
  if (gone_) return {};
  auto end = connection_->poll_end();
  if (!end && end.error().code == ErrorCode::invalid_state) return tl::make_unexpected(end.error());
  if (!end) {
    // Queue pairs and initiators would notice when the next READ is not answered.
    gone_ = true;
    set_watch(false);
    connection_->give_up();
  } else if (*end) {
    note_end();
  }
  return {};
}

void Client::note_end() {
  ended_ = true;
  for (const auto& subscription : subscriptions_) {
    const auto* reader = connection_->subscriber().reader(subscription->id);
    subscription->rounds_at_the_end = reader == nullptr ? 0 : reader->counters().rounds.value();
  }
  // Nothing is left to be waited for: what is there is looked for.
  set_watch(false);
}

void Client::set_watch(bool watch) {
  for (const auto& subscription : subscriptions_) {
    connection_->subscriber().set_watch(subscription->id, watch);
  }
}

std::uint64_t Client::rounds() const {
  std::uint64_t rounds = 0;
  for (const auto& subscription : subscriptions_) {
    const auto* reader = connection_->subscriber().reader(subscription->id);
    if (reader != nullptr) rounds += reader->counters().rounds.value();
  }
  return rounds;
}

Expected<void> Client::reconnect() {
  const std::uint64_t rounds = this->rounds();
  const std::uint64_t now_ns = steady_now_ns();
  if (rounds != rounds_before_) {
    fruitless_ = 0;
    progress_ns_ = now_ns;
  } else {
    ++fruitless_;
  }
  rounds_before_ = rounds;
  // A publisher that is started again and again may end before anything could be read.
  if (fruitless_ >= kFruitlessMax && now_ns - progress_ns_ >= connection_->timeout_ns()) {
    return fail(
        ErrorCode::io,
        "the publisher answers by TCP, but not by RDMA; see --ip, --gateway and --link-mtu");
  }
  fmt::print(stderr, "the connection has ended; connecting again\n");
  if (fruitless_ > 0) {
    ROCKHOPPER_TRY(
        connection_->turn_for(std::min(kPauseNs << std::min(fruitless_, 8u), kPauseMaxNs)));
  }
  disconnected_ = gone_ = ended_ = false;
  set_watch(options_.reader.watch);
  auto connected = connect_again();
  if (connected || connected.error().code == ErrorCode::invalid_state) return connected;
  return fail(connected.error().code, "the publisher has gone: {}", connected.error().message);
}

/// A publisher may end while it greets us, and be started again.
Expected<void> Client::connect_again() {
  const std::uint64_t deadline_ns = steady_now_ns() + connection_->timeout_ns();
  for (std::uint64_t pause_ns = kPauseNs;; pause_ns = std::min(2 * pause_ns, kPauseMaxNs)) {
    auto connected = connection_->connect();
    const bool gone = !connected && (connected.error().code == ErrorCode::io ||
                                     connected.error().code == ErrorCode::timeout);
    if (!gone || steady_now_ns() >= deadline_ns) return connected;
    ROCKHOPPER_TRY(connection_->turn_for(pause_ns));
  }
}

Expected<void> Client::drain() {
  while (!sink_.is_empty()) {
    ROCKHOPPER_TRY(sink_.flush());
    if (stop_requested() && !sink_.is_empty()) {
      // A reader that does not read would keep us for ever.
      return fail(ErrorCode::invalid_state, "{}, before all was written", interrupted().message);
    }
    (void)connection_->turn();
  }
  return {};
}

bool Client::is_over() const {
  if (quota_.reached()) return true;
  return std::all_of(subscriptions_.begin(), subscriptions_.end(), [&](const auto& subscription) {
    return subscription->ended.has_value() || (ended_ && is_read(*subscription));
  });
}

bool Client::is_read(const Subscription& subscription) const {
  const auto* reader = connection_->subscriber().reader(subscription.id);
  return reader != nullptr && reader->state() == publisher::ReaderState::live &&
         reader->counters().rounds.value() >= subscription.rounds_at_the_end + kRoundsAfterTheEnd;
}

Expected<void> Client::verdict() const {
  std::size_t without_access = 0;
  std::uint64_t lost = 0;
  for (const auto& subscription : subscriptions_) {
    lost += subscription->lost();
    if (!subscription->ended) continue;
    ++without_access;
    if (!options_.stores.empty()) {
      return fail(ErrorCode::io, "{}: {}", subscription->store(), *subscription->ended);
    }
  }
  if (without_access == subscriptions_.size()) {
    return fail(ErrorCode::io, "{}: {}", subscriptions_.front()->store(),
                *subscriptions_.front()->ended);
  }
  if (options_.count > 0 && !quota_.reached()) {
    return fail(ErrorCode::io, "the publisher ended after {} of {} messages", quota_.taken,
                options_.count);
  }
  if (options_.strict && lost > 0) return fail(ErrorCode::io, "{} messages were lost", lost);
  return {};
}

Subscription* Client::find(publisher::SubscriptionId id) {
  const auto found = std::find_if(subscriptions_.begin(), subscriptions_.end(),
                                  [&](const auto& item) { return item->id == id; });
  return found == subscriptions_.end() ? nullptr : found->get();
}

void Client::on_directory(std::span<const publisher::StoreInfo> stores) {
  directory_.assign(stores.begin(), stores.end());
  directory_read_ = true;
}

void Client::on_granted(publisher::SubscriptionId id, const publisher::StoreInfo&) {
  Subscription* subscription = find(id);
  if (subscription == nullptr || subscription->sink_ready) return;
  subscription->sink_ready = true;
  if (auto added = sink_.add_store(subscription->store()); !added) failure_ = added.error();
}

void Client::on_refused(publisher::SubscriptionId id, const Error& error) {
  end(id, error.message);
}

void Client::on_revoked(publisher::SubscriptionId id) {
  end(id, "the publisher has taken the access back");
}

void Client::on_no_multicast(publisher::SubscriptionId id, const Error& error) {
  const Subscription* subscription = find(id);
  if (subscription == nullptr) return;
  fmt::print(stderr, "{}: no copies by multicast: {}; all is read\n", subscription->store(),
             error.message);
}

void Client::end(publisher::SubscriptionId id, const std::string& why) {
  Subscription* subscription = find(id);
  if (subscription == nullptr || subscription->ended) return;
  subscription->ended = why;
  fmt::print(stderr, "{}: {}\n", subscription->store(), why);
}

void Client::print_rates(std::uint64_t now_ns) {
  if (!rates_.due(now_ns)) return;
  for (const auto& subscription : subscriptions_) {
    const std::string line =
        rates_.line(subscription->store(), subscription->messages(), subscription->bytes());
    if (!line.empty()) fmt::print(stderr, "{}, {} lost\n", line, subscription->lost());
  }
}

void Client::print_directory() const {
  if (options_.json) return;
  fmt::print("{:<24} {:<9} {:>14} {:>14}\n", "store", "kind", "bytes", "longest");
  for (const publisher::StoreInfo& store : directory_) {
    // A name of anybody's choice, on a terminal.
    const std::string name =
        publish::check_name(store.name) ? store.name : fmt::format("{:?}", store.name);
    fmt::print("{:<24} {:<9} {:>14} {:>14}\n", name, kind_name(store.kind()), store.ring_bytes,
               store.message_max);
  }
}

nlohmann::json Client::report() const {
  nlohmann::json stores = nlohmann::json::object();
  if (options_.list) {
    for (const publisher::StoreInfo& store : directory_) {
      if (!publish::check_name(store.name)) continue;
      stores[store.name] = {{"kind", kind_name(store.kind())},
                            {"epoch", store.epoch},
                            {"bytes", store.ring_bytes},
                            {"message_max", store.message_max}};
    }
  }
  for (const auto& subscription : subscriptions_) {
    nlohmann::json& report = stores[subscription->store()] = subscription->report();
    const auto* copies = connection_->subscriber().copy_counters(subscription->id);
    if (copies != nullptr) report["copies"] = to_json(*copies);
  }
  return {{"program", "rh-subscribe"},
          {"version", kVersion},
          {"transport", name_of(connection_->transport())},
          {"stores", std::move(stores)},
          {"counters", connection_->counters()}};
}

void Client::print_statistics(std::FILE* out) const {
  if (connection_ != nullptr) connection_->print_statistics(out);
}

}  // namespace rockhopper::apps::subscribe
