// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/subscriber.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "apps/services/publisher/directory_fetch.h"
#include "apps/services/publisher/multicast_receivers.h"
#include "apps/services/publisher/subscriber_route.h"
#include "apps/services/publisher/subscription.h"
#include "stack/link.h"

namespace rockhopper::publisher {
namespace {

constexpr std::uint16_t kSubscriptionsMax = 64;
/// Requests of a subscription that can be outstanding: a round's READs, and a message.
constexpr std::uint32_t kRequests = StoreReader::kReadsMax + 1;
constexpr std::uint32_t kReceives = 64;

/// Which connection and subscription a request belongs to; of messages the latter is 0.
std::uint64_t wr_id_of(std::uint32_t connection, std::uint32_t subscription) {
  return std::uint64_t{connection} << 32 | subscription;
}

std::uint32_t send_room(const SubscriberConfig& config) {
  return kRequests * config.max_subscriptions + 1;
}

/// A subscription that has been left, of the same store, is to be given back first.
bool is_held(const std::vector<std::unique_ptr<Subscription>>& all, std::string_view store) {
  return std::any_of(all.begin(), all.end(), [store](const auto& other) {
    return other->name() == store && other->is(Subscription::State::leaving);
  });
}

}  // namespace

Subscriber::Subscriber(roce::Engine& engine, dc::Endpoint* endpoint, SubscriberListener& listener,
                       const SubscriberConfig& config)
    : engine_(engine),
      endpoint_(endpoint),
      listener_(listener),
      config_(config),
      pd_(engine),
      multicast_(std::make_unique<MulticastReceivers>(
          engine, pd_.get(),
          MulticastReceiver::Config{.buffers = config.multicast_buffers,
                                    .pkey_index = config.multicast_pkey_index},
          counters_)),
      directory_(std::make_unique<DirectoryFetch>()) {}

Expected<std::unique_ptr<Subscriber>> Subscriber::create(roce::Engine& engine,
                                                         dc::Endpoint* endpoint,
                                                         SubscriberListener& listener,
                                                         const SubscriberConfig& config) {
  if (config.max_subscriptions == 0 || config.max_subscriptions > kSubscriptionsMax) {
    return fail(ErrorCode::invalid_argument, "a subscriber has 1 to {} subscriptions",
                kSubscriptionsMax);
  }
  auto made = std::unique_ptr<Subscriber>(new Subscriber(engine, endpoint, listener, config));
  ROCKHOPPER_TRY(made->set_up());
  return made;
}

Expected<void> Subscriber::set_up() {
  // What is left of a connection that has ended may be there with the next one's.
  ROCKHOPPER_TRY(send_cq_, roce::CompletionQueue::create(4 * send_room(config_)));
  ROCKHOPPER_TRY(receives_,
                 roce::ReceiveBuffers::create(engine_, pd_.get(), kReceives, kControlMessageMax));
  if (endpoint_ == nullptr) return {};
  ROCKHOPPER_TRY(target_,
                 dc::own(*endpoint_, endpoint_->create_dct({.pd = pd_.get(),
                                                            .srq = receives_->srq(),
                                                            .recv_cq = receives_->cq(),
                                                            .access_flags = 0,
                                                            .path_mtu = config_.path_mtu})));
  ROCKHOPPER_TRY(initiator_,
                 dc::own(*endpoint_, endpoint_->create_dci({.pd = pd_.get(),
                                                            .send_cq = send_cq_.get(),
                                                            .max_send_wr = send_room(config_),
                                                            .max_inline_data = kControlMessageMax,
                                                            .path_mtu = config_.path_mtu,
                                                            .max_rd_atomic = kReads,
                                                            .timeout = config_.timeout,
                                                            .retry_cnt = config_.retry_cnt})));
  return {};
}

Subscriber::~Subscriber() = default;

// Connections.

roce::QpInit Subscriber::qp_init() const {
  roce::QpInit init;
  init.pd = pd_.get();
  init.send_cq = send_cq_.get();
  init.recv_cq = receives_->cq();
  init.srq = receives_->srq();
  init.max_send_wr = send_room(config_);
  init.max_recv_wr = 0;
  init.max_inline_data = kControlMessageMax;
  return init;
}

Expected<void> Subscriber::connect(roce::QueuePair& qp) {
  if (qp.pd() != pd_.get() || qp.init().srq != receives_->srq()) {
    return fail(ErrorCode::invalid_argument, "the queue pair was not made with qp_init()");
  }
  if (route_ != nullptr) return fail(ErrorCode::busy, "the subscriber is connected already");
  start_connection(std::make_unique<QueuePairRoute>(qp));
  return {};
}

Expected<void> Subscriber::connect(const dc::TargetAddress& address) {
  if (initiator_ == nullptr) {
    return fail(ErrorCode::invalid_argument, "the subscriber was made without dynamic connections");
  }
  if (route_ != nullptr) return fail(ErrorCode::busy, "the subscriber is connected already");
  if (initiator_->state() == roce::QpState::err) ROCKHOPPER_TRY(initiator_->reset());
  ROCKHOPPER_TRY(auto ah, roce::own(engine_, engine_.create_ah(pd_.get(), address.av)));
  start_connection(std::make_unique<DcRoute>(*initiator_, std::move(ah), address));
  return {};
}

bool Subscriber::connected() const { return route_ != nullptr; }

void Subscriber::start_connection(std::unique_ptr<SubscriberRoute> route) {
  // What the last connection has left would pass for answers of this one: its keys are void.
  while (receives_->poll([this](const roce::Completion&, std::span<const std::byte>) {
    counters_.rx_unexpected.add();
  })) {
  }
  route_ = std::move(route);
  ++connection_;
  directory_->restart();
}

void Subscriber::disconnect() {
  if (route_ == nullptr) return;
  route_.reset();
  counters_.connections_lost.add();
  for (const auto& subscription : subscriptions_) {
    subscription->on_disconnected();
  }
  listener_.on_disconnected();
}

// What the application asks for.

Expected<void> Subscriber::request_directory() {
  if (route_ == nullptr) return fail(ErrorCode::invalid_state, "there is no connection");
  directory_->want();
  return {};
}

Expected<SubscriptionId> Subscriber::subscribe(std::string_view store, const Options& options,
                                               Listener& listener) {
  if (store.empty() || store.size() > StoreInfo::kNameMax) {
    return fail(ErrorCode::invalid_argument, "a store's name has 1 to {} bytes",
                StoreInfo::kNameMax);
  }
  if (options.credentials.size() > kCredentialsMax) {
    return fail(ErrorCode::invalid_argument, "credentials have up to {} bytes", kCredentialsMax);
  }
  if (options.reader.poll_max_ns < options.reader.poll_min_ns) {
    return fail(ErrorCode::invalid_argument, "the longest poll interval is below the shortest");
  }
  sweep();
  if (subscriptions_.size() >= config_.max_subscriptions) {
    return fail(ErrorCode::exhausted, "the subscriber has {} subscriptions already",
                subscriptions_.size());
  }
  for (const auto& other : subscriptions_) {
    if (other->name() == store && other->has_listener() && !other->is(Subscription::State::ended)) {
      return fail(ErrorCode::busy, "store {} is subscribed already", store);
    }
  }
  const SubscriptionId id{next_id_++};
  subscriptions_.push_back(std::make_unique<Subscription>(id, store, options, listener));
  return id;
}

Subscription* Subscriber::find(SubscriptionId id) const {
  const auto found =
      std::find_if(subscriptions_.begin(), subscriptions_.end(), [id](const auto& subscription) {
        return subscription->id() == id && !subscription->is(Subscription::State::ended);
      });
  return found == subscriptions_.end() ? nullptr : found->get();
}

void Subscriber::leave(SubscriptionId id) {
  if (Subscription* subscription = find(id)) subscription->leave(connected());
}

void Subscriber::pause(SubscriptionId id, bool paused) {
  if (Subscription* subscription = find(id)) subscription->set_paused(paused);
}

void Subscriber::set_watch(SubscriptionId id, bool watch) {
  if (Subscription* subscription = find(id)) subscription->set_watch(watch);
}

const StoreReader* Subscriber::reader(SubscriptionId id) const {
  const Subscription* subscription = find(id);
  return subscription == nullptr ? nullptr : subscription->reader();
}

// A turn.

bool Subscriber::progress(std::uint64_t now_ns) {
  bool worked = poll_sends(now_ns);
  worked = poll_receives(now_ns) || worked;
  worked = poll_multicast(now_ns) || worked;
  if (route_ != nullptr && route_->failed()) disconnect();
  if (route_ != nullptr) {
    worked = send_requests() || worked;
    for (const auto& subscription : subscriptions_) {
      if (!subscription->is(Subscription::State::granted)) continue;
      subscription->reader()->tick(now_ns);
      worked = read(*subscription, now_ns) || worked;
      worked = watch(*subscription) || worked;
    }
  }
  sweep();
  return worked;
}

std::uint64_t Subscriber::next_deadline_ns() const {
  std::uint64_t deadline_ns = stack::kNever;
  for (const auto& subscription : subscriptions_) {
    if (!subscription->is(Subscription::State::granted)) continue;
    deadline_ns = std::min(deadline_ns, subscription->reader()->next_deadline_ns());
  }
  return deadline_ns;
}

bool Subscriber::read(Subscription& subscription, std::uint64_t now_ns) {
  if (subscription.is_reading() || route_ == nullptr ||
      route_->depth() + kRequests > send_room(config_)) {
    return false;
  }
  const auto round = subscription.reader()->next_round(now_ns);
  for (std::size_t i = 0; i < round.size(); ++i) {
    const roce::Sge to{reinterpret_cast<std::uintptr_t>(round[i].to.data()),
                       static_cast<std::uint32_t>(round[i].to.size()), subscription.buffer_key()};
    // They complete in order: the last one tells of all.
    const bool is_last = i + 1 == round.size();
    const roce::PostResult posted =
        route_->post({.wr_id = wr_id_of(connection_, subscription.number()),
                      .sg_list = {&to, 1},
                      .opcode = roce::WrOpcode::rdma_read,
                      .send_flags = is_last ? roce::kSendSignaled : 0u,
                      .remote_addr = round[i].offset,
                      .rkey = subscription.rkey()});
    if (posted != roce::PostResult::ok) {
      // There is room, so the connection is no good any more.
      disconnect();
      return true;
    }
    counters_.reads.add();
  }
  subscription.set_reading(!round.empty());
  return !round.empty();
}

bool Subscriber::watch(Subscription& subscription) {
  if (route_ == nullptr || !subscription.is(Subscription::State::granted)) return false;
  const auto known = subscription.reader()->next_watch();
  if (!known || !send(Watch{.store_id = subscription.info().id, .known = *known})) return false;
  subscription.reader()->on_watch();
  counters_.watches.add();
  return true;
}

bool Subscriber::poll_sends(std::uint64_t now_ns) {
  std::array<roce::Completion, 32> completions;
  const std::size_t count = send_cq_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) {
    on_completion(completions[i], now_ns);
  }
  return count > 0;
}

void Subscriber::on_completion(const roce::Completion& completion, std::uint64_t now_ns) {
  const auto connection = static_cast<std::uint32_t>(completion.wr_id >> 32);
  if (connection != connection_ || route_ == nullptr) return;  // of one that has ended
  const auto number = static_cast<std::uint32_t>(completion.wr_id);
  Subscription* subscription = nullptr;
  for (const auto& candidate : subscriptions_) {
    if (candidate->number() == number) subscription = candidate.get();
  }
  if (completion.status != roce::WcStatus::success) {
    on_failed(subscription, completion.status);
    return;
  }
  if (subscription == nullptr) return;
  subscription->set_reading(false);
  if (subscription->is(Subscription::State::granted)) subscription->reader()->on_round(now_ns);
}

/// `subscription` null: a message has failed.
void Subscriber::on_failed(Subscription* subscription, roce::WcStatus status) {
  if (subscription != nullptr) counters_.reads_failed.add();
  const bool refused = status == roce::WcStatus::rem_access_err;
  if ((!refused && status != roce::WcStatus::wr_flush_err &&
       status != roce::WcStatus::outcome_unknown) ||
      !route_->revive()) {
    disconnect();
    return;
  }
  // All that was on its way has failed with it: it is asked for anew.
  ++connection_;
  directory_->restart();
  for (const auto& other : subscriptions_) {
    other->on_flushed();
  }
  if (refused && subscription != nullptr) subscription->on_key_refused();
}

// Messages.

bool Subscriber::send(const ControlMessage& message) {
  if (route_->depth() + 1 > send_room(config_)) return false;
  std::array<std::byte, kControlMessageMax> bytes;
  const std::size_t length = emit_control(message, bytes);
  const roce::Sge sge{
      reinterpret_cast<std::uintptr_t>(bytes.data()), static_cast<std::uint32_t>(length), {}};
  if (route_->post({.wr_id = wr_id_of(connection_, 0),
                    .sg_list = {&sge, 1},
                    .opcode = roce::WrOpcode::send,
                    .send_flags = roce::kSendInline}) != roce::PostResult::ok) {
    return false;
  }
  counters_.tx_messages.add();
  return true;
}

bool Subscriber::send_requests() {
  bool sent = false;
  if (const auto request = directory_->next(); request && send(*request)) {
    directory_->on_sent();
    sent = true;
  }
  for (const auto& subscription : subscriptions_) {
    if (subscription->is(Subscription::State::wanted) &&
        !is_held(subscriptions_, subscription->name())) {
      if (!send(SubscribeRequest{.tag = subscription->number(),
                                 .store = subscription->name(),
                                 .credentials = subscription->credentials()})) {
        break;
      }
      subscription->on_asked();
      sent = true;
    }
    // READs that are on their way would find no key.
    if (subscription->is(Subscription::State::leaving) && !subscription->is_reading() &&
        subscription->has_key()) {
      if (!send(Leave{subscription->info().id})) break;
      subscription->end();
      sent = true;
    }
  }
  return sent;
}

bool Subscriber::poll_receives(std::uint64_t now_ns) {
  return receives_->poll([&](const roce::Completion& completion, std::span<const std::byte> bytes) {
    if (completion.status != roce::WcStatus::success || completion.opcode != roce::WcOpcode::recv) {
      counters_.rx_failed.add();
      return;
    }
    const auto message = parse_control(bytes);
    if (!message) {
      counters_.rx_malformed.add();
      return;
    }
    counters_.rx_messages.add();
    std::visit(
        [&](const auto& one) {
          if constexpr (std::is_same_v<decltype(one), const Probe&>) {
            counters_.probes.add();
          } else if constexpr (requires { on_message(one, now_ns); }) {
            on_message(one, now_ns);
          } else {
            counters_.rx_unexpected.add();
          }
        },
        *message);
  });
}

void Subscriber::on_message(const GrantMessage& grant, std::uint64_t now_ns) {
  Subscription* subscription = find(SubscriptionId{grant.tag});
  if (subscription == nullptr || !connected() || !subscription->awaits_answer()) {
    return counters_.rx_unexpected.add();
  }
  subscription->take_grant(grant);
  if (subscription->is(Subscription::State::leaving)) return;
  if (auto open = subscription->open(engine_, pd_.get(), config_.max_buffer_bytes, now_ns); !open) {
    counters_.refused_layout.add();
    listener_.on_refused(subscription->id(), open.error());
    return;
  }
  counters_.grants.add();
  listener_.on_granted(subscription->id(), grant.store);
}

void Subscriber::on_message(const RefusedMessage& refused, std::uint64_t /*now_ns*/) {
  Subscription* subscription = find(SubscriptionId{refused.tag});
  if (subscription == nullptr || (!subscription->is(Subscription::State::asked) &&
                                  !subscription->is(Subscription::State::leaving))) {
    return counters_.rx_unexpected.add();
  }
  const bool told = subscription->is(Subscription::State::asked);
  subscription->end();
  counters_.refusals.add();
  if (told) {
    listener_.on_refused(
        subscription->id(),
        Error{refused.why == Refusal::unknown_store ? ErrorCode::not_found
              : refused.why == Refusal::layout      ? ErrorCode::unsupported
                                                    : ErrorCode::invalid_argument,
              fmt::format("store {}: {}", subscription->name(), to_string(refused.why))});
  }
}

void Subscriber::on_message(const Revoke& revoke, std::uint64_t /*now_ns*/) {
  for (const auto& subscription : subscriptions_) {
    if (!subscription->has_key() || subscription->info().id != revoke.store_id ||
        subscription->is(Subscription::State::ended)) {
      continue;
    }
    const bool told = !subscription->is(Subscription::State::leaving);
    counters_.revocations.add();
    subscription->end();
    if (told) listener_.on_revoked(subscription->id());
    return;
  }
  counters_.rx_unexpected.add();
}

void Subscriber::on_message(const Directory& directory, std::uint64_t /*now_ns*/) {
  if (!directory_->take(directory)) return counters_.rx_unexpected.add();
  if (const auto stores = directory_->take_all()) listener_.on_directory(*stores);
}

void Subscriber::on_message(const Changed& changed, std::uint64_t now_ns) {
  counters_.watch_answers.add();
  for (const auto& subscription : subscriptions_) {
    if (subscription->reads(changed.store_id) &&
        subscription->reader()->on_tail(changed.tail, now_ns)) {
      return;
    }
  }
  counters_.watch_answers_late.add();
}

// Copies.

void Subscriber::on_message(const MulticastMessage& message, std::uint64_t /*now_ns*/) {
  for (const auto& subscription : subscriptions_) {
    if (!subscription->reads(message.store_id) || subscription->log() == nullptr) continue;
    if (config_.multicast_buffers == 0 || config_.held_copies == 0) return;
    const auto receiver = multicast_->join(message.group);
    if (!receiver) {
      counters_.multicast_refused.add();
      listener_.on_no_multicast(subscription->id(), receiver.error());
      return;
    }
    subscription->expect_copies(**receiver, config_.held_copies, bytes(message.group.path_mtu));
    listener_.on_multicast(subscription->id(), message.group);
    return;
  }
  // It is about a store that has been left meanwhile, or about none.
  counters_.rx_unexpected.add();
}

bool Subscriber::poll_multicast(std::uint64_t now_ns) {
  return multicast_->poll([&](const MulticastReceiver& receiver, std::uint16_t store_id,
                              std::span<const std::byte> copy) {
    const auto reads = [&](const auto& subscription) {
      return subscription->reads(store_id) && subscription->multicast() == &receiver;
    };
    const auto found = std::find_if(subscriptions_.begin(), subscriptions_.end(), reads);
    if (found == subscriptions_.end()) return counters_.multicast_unwanted.add();
    (*found)->log()->on_copy(copy, now_ns);
  });
}

const CopyCounters* Subscriber::copy_counters(SubscriptionId id) const {
  const Subscription* subscription = find(id);
  return subscription == nullptr || subscription->log() == nullptr
             ? nullptr
             : &subscription->log()->copy_counters();
}

/// Forgets what has ended and is not written to any more, and leaves groups that nobody needs.
void Subscriber::sweep() {
  std::erase_if(subscriptions_, [](const auto& subscription) { return subscription->is_over(); });
  multicast_->leave_unused([this](const MulticastReceiver& receiver) {
    return std::any_of(
        subscriptions_.begin(), subscriptions_.end(),
        [&receiver](const auto& subscription) { return subscription->multicast() == &receiver; });
  });
}

}  // namespace rockhopper::publisher
