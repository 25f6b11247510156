// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "bench/feed/subscriber_side.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "bench/support.h"

namespace rockhopper::bench {
namespace {

/// A look at the clock takes longer than a turn without work.
constexpr std::uint64_t kReadsPerClock = 4;
constexpr std::uint64_t kPatienceNs = 30 * kNsPerSecond;

}  // namespace

/// A subscriber with its queue pair, and what it reads.
class SubscriberSide::Feed final : public publisher::Listener,
                                   public publisher::SubscriberListener {
 public:
  Feed(roce::Engine& engine, Arrivals& arrivals, std::size_t index)
      : engine_(engine),
        arrivals_(arrivals),
        index_(index),
        subscriber_(
            must(publisher::Subscriber::create(engine, nullptr, *this, {.max_subscriptions = 1}))),
        queue_pair_(make_queue_pair(engine, subscriber_->qp_init())) {}
  ~Feed() override {
    engine_.destroy_qp(queue_pair_.qp);
    subscriber_.reset();
  }

  void subscribe(const publisher::ReaderConfig& reader) {
    must(subscriber_->connect(*queue_pair_.qp));
    id_ = must(subscriber_->subscribe(kFeedStore, {.reader = reader, .credentials = {}}, *this));
  }
  [[nodiscard]] const FeedQueuePair& queue_pair() const { return queue_pair_; }
  [[nodiscard]] bool reads() const {
    const auto* reader = subscriber_->reader(id_);
    return reader != nullptr && reader->counters().rounds.value() > 0;
  }
  bool progress(std::uint64_t now_ns) { return subscriber_->progress(now_ns); }

  void on_message(const publisher::Message& message) override {
    arrivals_.take(index_, message.payload);
  }
  /// Arrivals sees it by the numbers.
  void on_lost(std::uint64_t, std::uint64_t) override {}
  void on_refused(publisher::SubscriptionId, const Error& error) override {
    throw std::runtime_error(error.message);
  }
  void on_disconnected() override { throw std::runtime_error("the connection has ended"); }

 private:
  roce::Engine& engine_;
  Arrivals& arrivals_;
  std::size_t index_;
  std::unique_ptr<publisher::Subscriber> subscriber_;
  FeedQueuePair queue_pair_;
  publisher::SubscriptionId id_{};
};

SubscriberSide::SubscriberSide(const SubscriberSideConfig& config,
                               std::unique_ptr<apps::Endpoint> endpoint)
    : config_(config),
      endpoint_(std::move(endpoint)),
      arrivals_(config.subscribers, static_cast<std::uint64_t>(config.seconds * kNsPerSecond),
                config.latency) {
  for (std::uint32_t i = 0; i < config_.subscribers; ++i) {
    feeds_.push_back(std::make_unique<Feed>(endpoint_->engine(), arrivals_, i));
  }
}

SubscriberSide::~SubscriberSide() = default;

bool SubscriberSide::turn() {
  bool worked = endpoint_->turn();
  if (turns_++ % kReadsPerClock == 0) now_ns_ = endpoint_->now_ns();
  for (const auto& feed : feeds_) {
    worked = feed->progress(now_ns_) || worked;
  }
  return worked;
}

template <typename Condition>
void SubscriberSide::await(const char* what, const Condition& condition) {
  const std::uint64_t deadline_ns = apps::steady_now_ns() + kPatienceNs;
  while (!condition()) {
    if (apps::stop_requested()) throw std::runtime_error(apps::interrupted().message);
    if (apps::steady_now_ns() >= deadline_ns) {
      throw std::runtime_error(fmt::format("{} within {} s", what, kPatienceNs / 1'000'000'000));
    }
    for (std::uint64_t i = 0; i < kReadsPerClock; ++i) {
      (void)turn();
    }
  }
}

void SubscriberSide::join(apps::ControlChannel& channel) {
  const auto own = endpoint_->addresses().front().address;
  FeedEnd ours{.gid = own.to_string(), .path_mtu = config_.path_mtu, .connections = {}};
  for (const auto& feed : feeds_) {
    ours.connections.push_back(feed->queue_pair().described());
  }
  must(channel.send("join", to_json(ours)));
  const FeedEnd theirs = feed_end_from_json(must(channel.receive("joined")));
  if (theirs.connections.size() != feeds_.size()) {
    throw std::runtime_error("the publisher has another number of connections");
  }
  for (std::size_t i = 0; i < feeds_.size(); ++i) {
    bring_up(feeds_[i]->queue_pair(), own, theirs, theirs.connections[i], config_.path_mtu);
    feeds_[i]->subscribe(config_.reader);
  }
  await("not all stores were granted", [this] {
    return std::all_of(feeds_.begin(), feeds_.end(),
                       [](const auto& feed) { return feed->reads(); });
  });
  must(channel.send("ready", nlohmann::json::object()));
}

void SubscriberSide::run() {
  must(endpoint_->wait_for_link());
  apps::ControlChannel channel(
      must(apps::TcpConnection::connect(config_.host, config_.port,
                                        endpoint_->config().connect_timeout_ms, *this)),
      *this);
  join(channel);
  if (config_.stop) (void)std::raise(SIGSTOP);
  await("nothing of the feed came", [this] {
    arrivals_.tick(apps::steady_now_ns());
    return arrivals_.begun();
  });
  const std::uint64_t patience_ns =
      kPatienceNs + static_cast<std::uint64_t>(config_.seconds * kNsPerSecond);
  const std::uint64_t deadline_ns = apps::steady_now_ns() + patience_ns;
  while (!arrivals_.over()) {
    if (apps::stop_requested()) throw std::runtime_error(apps::interrupted().message);
    for (std::uint64_t i = 0; i < kReadsPerClock; ++i) {
      (void)turn();
    }
    const std::uint64_t now_ns = apps::steady_now_ns();
    arrivals_.tick(now_ns);
    if (now_ns >= deadline_ns) throw std::runtime_error("the window did not end");
  }
}

}  // namespace rockhopper::bench
