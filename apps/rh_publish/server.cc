// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/server.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/common/version.h"

namespace rockhopper::apps::publish {
namespace {

/// Messages of an input before packets have their turn again.
constexpr unsigned kBurst = 64;
/// What subscribers have after a signal, at most.
constexpr double kSignalLingerS = 1;
constexpr std::uint64_t kTurnsPerLook = 4;

std::uint64_t wall_now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

Server::Server(Node& node, const Options& options)
    : node_(node), options_(options), rates_(options.endpoint.stats_s) {}

Server::~Server() = default;

Expected<void> Server::open() {
  if (!options_.policy.empty()) {
    std::vector<std::string> names;
    for (const StoreSpec& store : options_.stores) {
      names.push_back(store.name);
    }
    ROCKHOPPER_TRY(auto file, PolicyFile::open(options_.policy, std::move(names)));
    policy_file_.emplace(std::move(file));
    if (options_.multicast) {
      fmt::print(stderr,
                 "--multicast: the policy says who may READ; copies can be received by everybody "
                 "whom {} reaches\n",
                 options_.multicast->to_string());
    }
    if (policy_file_->is_exposed()) {
      fmt::print(stderr, "{}: others than its owner can read the secrets in it\n", options_.policy);
    }
  }
  clients_ = std::make_unique<Clients>(node_, policy_file_ ? &*policy_file_ : nullptr);
  ROCKHOPPER_TRY(node_.open(*clients_, *clients_));
  for (const InputSpec& spec : options_.inputs) {
    ServedStore* store = node_.find_store(spec.store);
    ROCKHOPPER_TRY(auto input, Input::open(spec, options_.input, store->any().message_max()));
    feeds_.push_back({std::move(input), store});
  }
  return clients_->listen(options_.port);
}

Expected<void> Server::run() {
  auto result = open().and_then([this] { return publish(); });
  if (clients_ == nullptr) return result;
  // Whatever there is has been published, and is left to be read.
  auto left = linger();
  return result ? left : result;
}

Expected<void> Server::turn() {
  (void)node_.turn();
  if (turns_++ % kTurnsPerLook != 0) return {};
  now_ns_ = node_.update_time();
  reload_policy();
  print_rates();
  return clients_->turn(now_ns_);
}

Expected<void> Server::publish() {
  while (clients_->with_access() < options_.wait) {
    if (stop_requested()) return tl::make_unexpected(interrupted());
    ROCKHOPPER_TRY(turn());
  }
  Progress progress("publishing");
  while (!all_ended() || options_.stay) {
    if (stop_requested()) break;
    ROCKHOPPER_TRY(turn());
    wall_ns_ = std::max(wall_ns_, wall_now_ns());
    std::uint64_t published = 0;
    for (Feed& item : feeds_) {
      ROCKHOPPER_TRY(feed(item));
      published += item.input->messages();
    }
    progress.update(published, 0);
  }
  // Inputs that have no end have lasted until the signal, as they should.
  const bool done = std::all_of(feeds_.begin(), feeds_.end(), [&](const Feed& feed) {
    const InputKind kind = feed.input->spec().kind;
    const bool endless = options_.input.count == 0 && kind != InputKind::pcap &&
                         (options_.input.follow || kind == InputKind::udp);
    return feed.input->ended() || endless;
  });
  if (done) return {};
  return tl::make_unexpected(interrupted());
}

Expected<void> Server::feed(Feed& feed) {
  for (unsigned i = 0; i < kBurst; ++i) {
    std::span<const std::byte> payload;
    const auto next = feed.input->next(now_ns_, payload);
    if (!next) {
      feed.store->commit();
      return tl::make_unexpected(next.error());
    }
    if (*next != Next::message) break;
    feed.store->publish(payload, wall_ns_);
  }
  feed.store->commit();
  return {};
}

Expected<void> Server::linger() {
  clients_->end();
  const double seconds =
      stop_requested() ? std::min(kSignalLingerS, options_.linger_s) : options_.linger_s;
  const std::uint64_t deadline_ns =
      steady_now_ns() + static_cast<std::uint64_t>(seconds * kNsPerSecond);
  const bool stopping = stop_requested();
  while (!clients_->are_gone() && steady_now_ns() < deadline_ns) {
    if (!stopping && stop_requested()) return tl::make_unexpected(interrupted());
    ROCKHOPPER_TRY(turn());
  }
  return {};
}

void Server::reload_policy() {
  if (!policy_file_) return;
  const bool asked = take_reload_request();
  auto changed = policy_file_->poll(now_ns_, asked);
  if (!changed) {
    fmt::print(stderr, "{}; the policy stays as it was\n", changed.error().message);
    return;
  }
  if (!*changed) return;
  const auto& revocations = node_.publisher().counters().revocations;
  const std::uint64_t before = revocations.value();
  clients_->apply_policy();
  fmt::print(stderr, "{}: read again, {} grants taken back\n", options_.policy,
             revocations.value() - before);
}

void Server::print_rates() {
  if (!rates_.due(now_ns_)) return;
  for (const auto& store : node_.stores()) {
    const auto line = rates_.line(store->spec().name, store->counters().messages.value(),
                                  store->counters().message_bytes.value());
    if (!line.empty()) fmt::print(stderr, "{}\n", line);
  }
}

bool Server::all_ended() const {
  return std::all_of(feeds_.begin(), feeds_.end(),
                     [](const Feed& feed) { return feed.input->ended(); });
}

nlohmann::json Server::report() const {
  nlohmann::json stores = nlohmann::json::object();
  for (const auto& store : node_.stores()) {
    stores[store->spec().name] = store->report();
  }
  nlohmann::json inputs = nlohmann::json::array();
  for (const Feed& feed : feeds_) {
    nlohmann::json input{{"input", to_string(feed.input->spec())},
                         {"messages", feed.input->messages()}};
    feed.input->source().visit_counters(
        [&](const char* name, std::uint64_t value) { input[name] = value; });
    inputs.push_back(std::move(input));
  }
  return {{"program", "rh-publish"},
          {"version", kVersion},
          {"transport", name_of(options_.transport)},
          {"stores", std::move(stores)},
          {"inputs", std::move(inputs)},
          {"subscribers", {{"admitted", clients_->admitted()}, {"refused", clients_->refused()}}},
          {"counters", node_.counters()}};
}

}  // namespace rockhopper::apps::publish
