// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "bench/feed/publisher_side.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>
#include <rte_cycles.h>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "bench/support.h"

namespace rockhopper::bench {
namespace {

/// A look at the clock takes longer than a turn without work.
constexpr std::uint64_t kTurnsPerClock = 16;
constexpr std::uint64_t kLookNs = 1'000'000;
constexpr std::uint64_t kWarmUpNs = 50'000'000;
constexpr std::uint16_t kSubscribersMax = 1024;

}  // namespace

PublisherSide::PublisherSide(const PublisherSideConfig& config,
                             std::unique_ptr<apps::Endpoint> endpoint)
    : config_(config),
      endpoint_(std::move(endpoint)),
      memory_(must(apps::PageMemory::allocate(publisher::store_bytes(config.ring_bytes)))),
      store_(must(publisher::Store::create(
          memory_.bytes(),
          {.id = 1, .epoch = endpoint_->random().next() | 1, .message_max = config.writer.bytes}))),
      publisher_(must(publisher::Publisher::create(
          endpoint_->engine(), nullptr, *this, listener_,
          {.max_subscribers = kSubscribersMax, .receive_buffers = kSubscribersMax}))) {
  must(publisher_->add_store(kFeedStore, *store_));
  // Pages that nobody has written yet would cost the writer a fault each.
  const auto ring = memory_.bytes().subspan(sizeof(publisher::ControlBlock));
  std::fill(ring.begin(), ring.end(), std::byte{0});
  writer_ = std::make_unique<Writer>(*store_, config_.writer);
}

PublisherSide::~PublisherSide() {
  writer_.reset();
  dismiss();
}

bool PublisherSide::may_read(std::string_view, const publisher::StoreInfo&,
                             std::span<const std::byte>) {
  return true;
}

bool PublisherSide::turn() {
  writer_->turn();
  const std::uint64_t start = rte_rdtsc();
  if (turns_++ % kTurnsPerClock == 0) now_ns_ = endpoint_->now_ns();
  bool worked = endpoint_->turn();
  worked = publisher_->progress(now_ns_) || worked;
  if (worked) busy_cycles_ += rte_rdtsc() - start;
  return worked;
}

void PublisherSide::turn_for(std::uint64_t duration_ns) {
  const std::uint64_t end_ns = apps::steady_now_ns() + duration_ns;
  while (apps::steady_now_ns() < end_ns) {
    if (apps::stop_requested()) throw std::runtime_error(apps::interrupted().message);
    for (std::uint64_t i = 0; i < kTurnsPerClock; ++i) {
      (void)turn();
    }
  }
}

void PublisherSide::measure() {
  writer_->set_mode(Writer::Mode::warm_up);
  turn_for(kWarmUpNs);
  writer_->set_mode(Writer::Mode::measured);
  const Writer::Work before = writer_->work();
  const std::uint64_t busy = busy_cycles_;
  const std::uint64_t start_ns = apps::steady_now_ns();
  turn_for(static_cast<std::uint64_t>(config_.seconds * kNsPerSecond));
  const Writer::Work after = writer_->work();
  const double seconds = static_cast<double>(apps::steady_now_ns() - start_ns) / 1e9;
  const double engine_s =
      static_cast<double>(busy_cycles_ - busy) / static_cast<double>(rte_get_tsc_hz());
  const nlohmann::json report{{"subscribers", clients_.size()},
                              {"seconds", seconds},
                              {"messages", after.messages - before.messages},
                              {"writer_seconds", after.seconds - before.seconds},
                              {"engine_seconds", engine_s}};
  fmt::print("{}\n", report.dump());
  (void)std::fflush(stdout);
}

void PublisherSide::admit(apps::ControlChannel& channel) {
  const FeedEnd theirs = feed_end_from_json(must(channel.receive("join")));
  const auto own = endpoint_->addresses().front().address;
  FeedEnd ours{.gid = own.to_string(), .path_mtu = theirs.path_mtu, .connections = {}};
  for (const FeedEnd::Connection& connection : theirs.connections) {
    const FeedQueuePair queue_pair = make_queue_pair(endpoint_->engine(), publisher_->qp_init());
    bring_up(queue_pair, own, theirs, connection, theirs.path_mtu);
    ours.connections.push_back(queue_pair.described());
    clients_.push_back(
        {.id = must(publisher_->add_subscriber(fmt::format("{}", clients_.size()), *queue_pair.qp)),
         .queue_pair = queue_pair});
  }
  must(channel.send("joined", to_json(ours)));
  (void)must(channel.receive("ready"));
}

void PublisherSide::dismiss() {
  for (const Client& client : clients_) {
    publisher_->remove_subscriber(client.id);
    endpoint_->engine().destroy_qp(client.queue_pair.qp);
  }
  clients_.clear();
}

void PublisherSide::round(apps::TcpListener& listener) {
  if (config_.alone) {
    measure();
    writer_->set_mode(Writer::Mode::idle);
  }
  apps::ControlChannel channel(must(listener.accept(*this)), *this);
  admit(channel);
  measure();
  // The subscribers' window has begun later than ours.
  while (channel.check()) {
    turn_for(kLookNs);
  }
  writer_->set_mode(Writer::Mode::idle);
  dismiss();
}

void PublisherSide::run() {
  auto listener = must(apps::TcpListener::open(config_.port));
  for (std::uint32_t i = 0; i < config_.rounds; ++i) {
    round(listener);
  }
}

}  // namespace rockhopper::bench
