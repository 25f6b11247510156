// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/ami/ami_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/context.h"
#include "dc/endpoint.h"
#include "tests/sim/rng.h"

namespace rockhopper::sim {
namespace {

using ami::EndpointId;
using ami::Injected;
using ami::Level;
using ami::Status;

constexpr std::size_t kRunPlaces = 32;  ///< of a lane at a peer, each for one instruction
constexpr std::uint32_t kPlaceBytes = 6000;
constexpr std::uint16_t kRunHandler = 3;
constexpr std::uint16_t kNoHandler = 7;
constexpr std::uint64_t kTimeLimitNs = 120'000'000'000;
/// Nothing is on its way any more, nor waits to be sent again.
constexpr std::uint64_t kRestNs = 1'000'000'000;
constexpr std::uint32_t kMaxSteps = 3'000'000;
/// Rises with everything that happens: says what was before what, whoever did it.
using Stamp = std::uint64_t;

/// What a lane lets its peers reach.
struct Exposed {
  std::array<std::array<std::byte, kPlaceBytes>, kRunPlaces> written{};  ///< by puts
  std::array<std::uint64_t, kRunPlaces> notified{};
  std::array<std::byte, kPlaceBytes> given{};  ///< for gets
  std::uint64_t count = 0;                     ///< of additions
};

enum class Kind : std::uint8_t { put, notify, get, add, send, unknown_handler };

struct Instruction {
  Kind kind = Kind::put;
  Level level = Level::remote;
  bool callback = false;
  bool ended = false;
  std::uint64_t value = 0;  ///< from which its content follows
  std::uint32_t length = 0;
  std::uint32_t place = 0;
  EndpointId peer = 0;
};

struct Application {
  unsigned node = 0;
  EndpointId self = 0;
  ami::Lane* lane = nullptr;
  std::unique_ptr<ami::Context> context;
  std::unique_ptr<Exposed> exposed;
  roce::MemoryKey exposed_key{};
  /// Where its instructions' bytes are, a place each.
  std::unique_ptr<std::array<std::array<std::byte, kPlaceBytes>, kRunPlaces>> local;
  roce::MemoryKey local_key{};
  std::vector<std::uint32_t> free_places;
  std::vector<Instruction> instructions;
  std::vector<Stamp> handled;             ///< of each of its messages, when the peer ran it; 0: not
  std::vector<std::uint64_t> next_eager;  ///< by source: messages run in order
  std::uint32_t left = 0;
  std::uint64_t additions = 0;
  std::uint64_t sleeps_until_ns = 0;
};

void fill(std::span<std::byte> bytes, std::uint64_t value) {
  Rng rng(value);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(rng.next());
  }
}

bool holds(std::span<const std::byte> bytes, std::uint64_t value) {
  Rng rng(value);
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](std::byte byte) { return byte == static_cast<std::byte>(rng.next()); });
}

/// What a message says of itself.
struct Label {
  std::uint64_t serial;
  std::uint64_t value;
};

class AmiRun {
 public:
  AmiRun(std::uint64_t seed, const AmiProfile& profile, PoolSet& pools)
      : rng_(seed), profile_(profile), network_(draw_network(seed, pools)) {}
  std::string run(AmiTotals& totals);

 private:
  NetworkConfig draw_network(std::uint64_t seed, PoolSet& pools);
  void set_up();
  void connect(Application& a, Application& b);
  void drive(Application& application);
  void inject(Application& application);
  void on_end(Application& application, std::uint64_t serial, Status status);
  void on_message(Application& application, const ami::Message& message);
  [[nodiscard]] bool finished() const;
  void check_end(AmiTotals& totals);
  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }

  Rng rng_;
  const AmiProfile& profile_;
  SimNetwork network_;
  std::array<std::unique_ptr<dc::Endpoint>, 2> endpoints_;
  std::array<std::unique_ptr<ami::Adapter>, 2> adapters_;
  std::vector<std::unique_ptr<Application>> applications_;   ///< by endpoint id
  std::vector<std::pair<AmiRun*, Application*>> callbacks_;  ///< their contexts, likewise
  Stamp clock_ = 0;
  bool cut_ = false;
  std::uint64_t cut_at_ns_ = UINT64_MAX;
  AmiTotals counted_;
  std::string error_;
};

NetworkConfig AmiRun::draw_network(std::uint64_t seed, PoolSet& pools) {
  NetworkConfig config{.seed = seed, .pools = &pools, .faults = profile_.faults};
  config.ipv6 = rng_.chance(40);
  config.delay_ns = rng_.pick<std::uint64_t>({300, 2'000, 20'000});
  config.capture_prefix = wanted_captures(seed);
  return config;
}

void AmiRun::set_up() {
  for (unsigned node = 0; node < 2; ++node) {
    roce::Engine& engine = network_.node(node).engine();
    if (profile_.dynamic_connections) {
      dc::EndpointConfig config;
      config.sessions.contexts = 64;
      endpoints_[node] = must(dc::Endpoint::create(engine, config));
    }
    ami::AdapterConfig config;
    config.transfers = profile_.transfers;
    config.dcis = static_cast<std::uint16_t>(rng_.between(1, 4));
    config.timeout = 9;  // 2 ms
    config.probe_ns = 5'000'000;
    adapters_[node] = must(ami::Adapter::create(engine, endpoints_[node].get(), config));
  }
  for (unsigned i = 0; i < 2 * profile_.lanes; ++i) {
    auto application = std::make_unique<Application>();
    application->node = i % 2;
    application->self = static_cast<EndpointId>(i);
    ami::Adapter& adapter = *adapters_[application->node];
    roce::Engine& engine = network_.node(application->node).engine();
    ami::LaneConfig config;
    config.self = application->self;
    config.max_endpoints = static_cast<std::uint16_t>(2 * profile_.lanes + 1);
    config.fifo.completion = profile_.completion;
    config.fifo.slots = profile_.slots;
    config.receive_buffers = profile_.receive_buffers;
    config.eager_bytes = 1024;
    config.rendezvous_buffers = static_cast<std::uint16_t>(rng_.between(1, 4));
    config.max_message_bytes = kPlaceBytes;
    application->lane = must(adapter.add_lane(config));
    application->context = std::make_unique<ami::Context>(*application->lane, profile_.queue);
    application->exposed = std::make_unique<Exposed>();
    fill(application->exposed->given, i);
    application->exposed_key = must(engine.register_memory(adapter.pd(), application->exposed.get(),
                                                           sizeof(Exposed), roce::kAccessAll))
                                   .key;
    application->local =
        std::make_unique<std::array<std::array<std::byte, kPlaceBytes>, kRunPlaces>>();
    application->local_key =
        must(engine.register_memory(adapter.pd(), application->local.get(),
                                    sizeof *application->local, roce::kAccessAll))
            .key;
    for (std::uint32_t place = 0; place < kRunPlaces; ++place) {
      application->free_places.push_back(place);
    }
    application->left = profile_.instructions;
    application->instructions.resize(profile_.instructions);
    application->handled.resize(profile_.instructions);
    application->next_eager.resize(2 * profile_.lanes);
    Application* self = application.get();
    application->context->set_handler(
        kRunHandler, [this, self](const ami::Message& message) { on_message(*self, message); });
    callbacks_.emplace_back(this, self);
    applications_.push_back(std::move(application));
  }
  for (const auto& a : applications_) {
    for (const auto& b : applications_) {
      if (a->node == 0 && b->node == 1) connect(*a, *b);
    }
  }
  for (const auto& application : applications_) {
    must(adapters_[application->node]->open(*application->lane));
  }
  if (profile_.cut) cut_at_ns_ = network_.now_ns() + rng_.between(0, 3'000'000);
}

void AmiRun::connect(Application& a, Application& b) {
  const std::array<Application*, 2> ends{&a, &b};
  if (profile_.dynamic_connections) {
    for (unsigned i = 0; i < 2; ++i) {
      const dc::Dct& target = adapters_[1 - i]->target(*ends[1 - i]->lane);
      must(adapters_[i]->add_peer(*ends[i]->lane, ends[1 - i]->self,
                                  {.av = {.source = network_.node(i).address(),
                                          .destination = network_.node(1 - i).address()},
                                   .number = target.number(),
                                   .access_key = target.access_key()}));
    }
    return;
  }
  std::array<roce::QueuePair*, 2> qps{};
  for (unsigned i = 0; i < 2; ++i) {
    qps[i] = must(network_.node(i).engine().create_qp(adapters_[i]->qp_init(*ends[i]->lane)));
  }
  roce::QpAttributes attributes;
  attributes.path_mtu = roce::PathMtu::mtu_1024;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
  attributes.min_rnr_timer = 1;
  attributes.timeout = 9;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  network_.connect(
      qps, attributes,
      {wire::Psn{rng_.between32(0, 0xffffff)}, wire::Psn{rng_.between32(0, 0xffffff)}});
  for (unsigned i = 0; i < 2; ++i) {
    must(adapters_[i]->add_peer(*ends[i]->lane, ends[1 - i]->self, *qps[i]));
  }
}

void AmiRun::inject(Application& application) {
  const std::uint64_t serial = profile_.instructions - application.left;
  Instruction& made = application.instructions[serial];
  made = {};
  made.kind = rng_.pick({Kind::put, Kind::notify, Kind::get, Kind::add, Kind::send, Kind::send,
                         Kind::unknown_handler});
  if (application.free_places.empty()) return;
  made.place = application.free_places.back();
  made.value = rng_.next();
  made.length = rng_.pick<std::uint32_t>({0, 8, 200, 900, 3000, kPlaceBytes});
  // A place is free again when the callback says so; who is not told uses it once.
  made.callback = application.free_places.size() < 4 || rng_.chance(60);
  made.level = rng_.pick({Level::local, Level::remote, Level::handled});
  if (made.kind == Kind::unknown_handler) made.level = Level::handled;
  auto& bytes = (*application.local)[made.place];
  Application& peer =
      *applications_[rng_.between(0, profile_.lanes - 1) * 2 + 1 - application.node];
  const ami::Completion completion{
      .level = made.level,
      .callback = {.function = made.callback
                                   ? [](void* context, std::uint64_t cookie, Status status) {
                                       auto& [run, self] =
                                           *static_cast<std::pair<AmiRun*, Application*>*>(context);
                                       run->on_end(*self, cookie, status);
                                     }
                                   : static_cast<ami::Callback::Function>(nullptr),
                   .context = &callbacks_.at(application.self),
                   .cookie = serial}};
  const ami::Local local{.addr = reinterpret_cast<std::uintptr_t>(bytes.data()),
                         .length = made.length,
                         .lkey = application.local_key};
  const auto remote = [&](const auto& object) {
    return ami::Remote{.endpoint = peer.self,
                       .addr = reinterpret_cast<std::uintptr_t>(&object),
                       .rkey = peer.exposed_key};
  };
  // A place at the peer is shared by nobody: each lane has its own part of each place.
  const std::uint32_t part = kPlaceBytes / 4;
  Injected injected = Injected::again;
  ami::Context& context = *application.context;
  switch (made.kind) {
    case Kind::put:
    case Kind::notify: {
      made.length = std::min(made.length, part);
      fill({bytes.data(), made.length}, made.value);
      auto& place = peer.exposed->written[made.place];
      const ami::Local from{local.addr, made.length, local.lkey};
      if (made.kind == Kind::put || applications_.size() > 2) {
        made.kind = Kind::put;
        injected = context.put(from, remote(place[application.self / 2 * part]), completion);
      } else {
        injected = context.put_notify(
            from, remote(place[application.self / 2 * part]),
            reinterpret_cast<std::uintptr_t>(&peer.exposed->notified[made.place]), made.value,
            completion);
      }
      break;
    }
    case Kind::get:
      injected = context.get(local, remote(peer.exposed->given), completion);
      break;
    case Kind::add:
      injected = context.fetch_add({local.addr, 8, local.lkey}, remote(peer.exposed->count), 1,
                                   completion);
      break;
    case Kind::send:
    case Kind::unknown_handler: {
      fill({bytes.data(), made.length}, made.value);
      const Label label{.serial = serial, .value = made.value};
      injected = context.send(peer.self, made.kind == Kind::send ? kRunHandler : kNoHandler,
                              std::as_bytes(std::span(&label, 1)), local, completion);
      break;
    }
  }
  if (injected == Injected::again) {
    ++counted_.again;
    return;
  }
  made.peer = peer.self;
  application.free_places.pop_back();
  --application.left;
  ++counted_.instructions;
  if (made.kind == Kind::add) ++peer.additions;
  if (made.kind == Kind::send || made.kind == Kind::put || made.kind == Kind::notify) {
    // What is copied may be changed at once (AM-31).
    if (made.length + sizeof(Label) <= application.lane->config.fifo.immediate_bytes) {
      fill({bytes.data(), made.length}, ~made.value);
    }
  }
}

void AmiRun::on_end(Application& application, std::uint64_t serial, Status status) {
  ++clock_;
  ++counted_.callbacks;
  Instruction& made = application.instructions[serial];
  if (made.ended || !made.callback) fail(fmt::format("callback {} was called again", serial));
  made.ended = true;
  application.free_places.push_back(made.place);
  if (status != Status::ok) {
    ++counted_.failed;
    const bool expected = made.kind == Kind::unknown_handler && status == Status::unknown_handler;
    if (expected) ++counted_.unknown_handlers;
    if (!expected && !cut_ && status != Status::outcome_unknown) {
      fail(fmt::format("instruction {} of kind {} failed: {}", serial, static_cast<int>(made.kind),
                       to_string(status)));
    }
    return;
  }
  const Application& peer = *applications_[made.peer];
  const auto& bytes = (*application.local)[made.place];
  const std::uint32_t part = kPlaceBytes / 4;
  const auto there = std::span(peer.exposed->written[made.place])
                         .subspan(application.self / 2 * part, std::min(made.length, part));
  switch (made.kind) {
    case Kind::put:
    case Kind::notify:
      if (made.level == Level::local) break;
      if (!holds(there, made.value)) fail(fmt::format("put {}: the data are not there", serial));
      if (made.kind == Kind::notify && peer.exposed->notified[made.place] != made.value) {
        fail(fmt::format("put {}: the value is not there", serial));
      }
      break;
    case Kind::get:
      if (!std::equal(bytes.begin(), bytes.begin() + made.length, peer.exposed->given.begin())) {
        fail(fmt::format("get {}: the data are not here", serial));
      }
      break;
    case Kind::send:
      if (made.level == Level::handled && application.handled[serial] == 0) {
        fail(fmt::format("message {} completed before it was handled", serial));
      }
      break;
    case Kind::unknown_handler:
      fail("a message without a handler was handled");
      break;
    case Kind::add:
      break;
  }
}

void AmiRun::on_message(Application& application, const ami::Message& message) {
  ++clock_;
  ++counted_.handled;
  Label label{};
  if (message.header.size() != sizeof label) return fail("another header");
  std::memcpy(&label, message.header.data(), sizeof label);
  Application& source = *applications_.at(message.source);
  const Instruction& made = source.instructions.at(label.serial);
  if (made.peer != application.self || made.kind != Kind::send) fail("a message went astray");
  if (message.payload.size() != made.length || !holds(message.payload, label.value)) {
    fail(fmt::format("message {} has another payload", label.serial));
  }
  if (source.handled[label.serial] != 0) fail(fmt::format("message {} came twice", label.serial));
  source.handled[label.serial] = clock_;
  if (message.payload.size() + sizeof label > application.lane->config.eager_bytes) {
    ++counted_.rendezvous;
    return;
  }
  std::uint64_t& next = application.next_eager[message.source];
  if (label.serial < next) fail(fmt::format("message {} came late", label.serial));
  next = label.serial + 1;
}

void AmiRun::drive(Application& application) {
  if (network_.now_ns() < application.sleeps_until_ns) return;
  if (profile_.slow_applications && rng_.chance(2)) {
    application.sleeps_until_ns = network_.now_ns() + rng_.between(1'000, 3'000'000);
    return;
  }
  for (std::uint64_t burst = rng_.between(0, 4); burst > 0 && application.left > 0; --burst) {
    inject(application);
  }
  if (application.context->queued() > 0) ++counted_.queued;
  (void)application.context->advance();
}

bool AmiRun::finished() const {
  return std::all_of(applications_.begin(), applications_.end(),
                     [](const auto& application) {
                       return application->left == 0 && application->context->queued() == 0 &&
                              application->context->pending() == 0;
                     }) &&
         adapters_[0]->idle() && adapters_[1]->idle();
}

std::string AmiRun::run(AmiTotals& totals) {
  set_up();
  std::uint32_t steps = 0;
  const std::uint64_t began_ns = network_.now_ns();
  std::uint64_t rest_since_ns = 0;
  while (error_.empty()) {
    if (++steps > kMaxSteps || network_.now_ns() > began_ns + kTimeLimitNs) {
      fail(fmt::format("not finished after {} ms, {} steps", network_.now_ns() / 1'000'000, steps));
      break;
    }
    if (!cut_ && network_.now_ns() >= cut_at_ns_) {
      network_.cut(true);
      cut_ = true;
    }
    for (const auto& application : applications_) {
      drive(*application);
    }
    bool moved = network_.poll();
    for (const auto& adapter : adapters_) {
      moved = adapter->progress(network_.now_ns()) || moved;
    }
    if (moved) {
      rest_since_ns = network_.now_ns();
      continue;
    }
    const bool at_rest = finished();
    if (at_rest && network_.now_ns() > rest_since_ns + kRestNs) break;
    std::uint64_t limit_ns = network_.now_ns() + (at_rest ? kRestNs / 4 : 100'000);
    for (const auto& adapter : adapters_) {
      limit_ns = std::min(limit_ns, adapter->next_deadline_ns());
    }
    limit_ns = std::max(limit_ns, network_.now_ns() + 1'000);
    if (!network_.advance(limit_ns)) network_.advance_to(limit_ns);
  }
  if (error_.empty()) check_end(counted_);
  totals.runs += 1;
  totals.instructions += counted_.instructions;
  totals.callbacks += counted_.callbacks;
  totals.failed += counted_.failed;
  totals.handled += counted_.handled;
  totals.rendezvous += counted_.rendezvous;
  totals.unknown_handlers += counted_.unknown_handlers;
  totals.again += counted_.again;
  totals.queued += counted_.queued;
  for (const auto& adapter : adapters_) {
    totals.waited += adapter->counters().transfers_waited.value();
  }
  for (unsigned i = 0; i < 2; ++i) {
    totals.lost += network_.node(i).faults().tx_counters().lost.value();
  }
  return error_;
}

void AmiRun::check_end(AmiTotals&) {
  for (const auto& application : applications_) {
    for (std::size_t serial = 0; serial < application->instructions.size(); ++serial) {
      const Instruction& made = application->instructions[serial];
      if (made.callback && !made.ended) fail(fmt::format("callback {} was not called", serial));
      if (cut_) continue;
      if (made.kind == Kind::send && application->handled[serial] == 0) {
        fail(fmt::format("message {} was not handled", serial));
      }
    }
    if (!cut_ && application->exposed->count != application->additions) {
      fail(fmt::format("{} additions, of {}", application->exposed->count, application->additions));
    }
  }
}

}  // namespace

std::string run_ami(std::uint64_t seed, const AmiProfile& profile, PoolSet& pools,
                    AmiTotals& totals) {
  return AmiRun(seed, profile, pools).run(totals);
}

}  // namespace rockhopper::sim
