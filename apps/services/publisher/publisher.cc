// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/publisher.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "apps/services/publisher/grant_keys.h"
#include "apps/services/publisher/offered_store.h"
#include "apps/services/publisher/tail_watches.h"

namespace rockhopper::publisher {
namespace {

/// Requests to send that a subscriber's queue pair has room for.
constexpr std::uint32_t kSendWr = 32;
/// Receives of a subscriber that comes by dynamic connections.
constexpr std::uint32_t kDcReceives = 4;
constexpr std::uint16_t kDcis = 4;
constexpr std::uint32_t kDciWr = 64;
constexpr std::uint16_t kSubscribersMax = 4096;
constexpr std::uint64_t kHeartbeatMinNs = 1000;

}  // namespace

Publisher::Publisher(roce::Engine& engine, dc::Endpoint* endpoint, Policy& policy,
                     PublisherListener& listener, const PublisherConfig& config)
    : engine_(engine),
      endpoint_(endpoint),
      policy_(policy),
      listener_(listener),
      config_(config),
      pd_(engine),
      keys_(std::make_unique<GrantKeys>(engine, pd_.get())),
      watches_(std::make_unique<TailWatches>(counters_)) {}

Expected<std::unique_ptr<Publisher>> Publisher::create(roce::Engine& engine, dc::Endpoint* endpoint,
                                                       Policy& policy, PublisherListener& listener,
                                                       const PublisherConfig& config) {
  if (config.max_subscribers == 0 || config.max_subscribers > kSubscribersMax) {
    return fail(ErrorCode::invalid_argument, "a publisher has 1 to {} subscribers",
                kSubscribersMax);
  }
  if (config.heartbeat_ns < kHeartbeatMinNs) {
    return fail(ErrorCode::invalid_argument, "heart-beats are {} ns apart or more",
                kHeartbeatMinNs);
  }
  if (config.max_grants == 0 || config.receive_buffers == 0) {
    return fail(ErrorCode::invalid_argument,
                "a publisher needs room for grants and for what it receives");
  }
  auto publisher =
      std::unique_ptr<Publisher>(new Publisher(engine, endpoint, policy, listener, config));
  ROCKHOPPER_TRY(publisher->set_up());
  return publisher;
}

Expected<void> Publisher::set_up() {
  ROCKHOPPER_TRY(send_cq_,
                 roce::CompletionQueue::create(config_.max_subscribers * kSendWr +
                                               (endpoint_ == nullptr ? 0 : kDcis * kDciWr)));
  ROCKHOPPER_TRY(receives_, roce::ReceiveBuffers::create(
                                engine_, pd_.get(), config_.receive_buffers, kControlMessageMax));
  if (config_.multicast) {
    ROCKHOPPER_TRY(multicast_, MulticastSender::create(engine_, pd_.get(), *config_.multicast));
  }
  if (endpoint_ == nullptr) return {};
  ROCKHOPPER_TRY(pool_, dc::DciPool::create(*endpoint_,
                                            {.pd = pd_.get(),
                                             .send_cq = send_cq_.get(),
                                             .max_send_wr = kDciWr,
                                             .max_inline_data = kControlMessageMax,
                                             .sq_sig_all = true,
                                             .path_mtu = config_.path_mtu,
                                             .timeout = config_.timeout,
                                             .retry_cnt = config_.retry_cnt},
                                            {.dcis = kDcis}, [](dc::PoolTarget&) {}));
  return {};
}

Publisher::~Publisher() {
  while (!subscribers_.empty()) {
    remove_subscriber(subscribers_.begin()->first);
  }
}

// Stores.

Expected<void> Publisher::add_store(std::string_view name, AnyStore& store) {
  if (name.empty() || name.size() > StoreInfo::kNameMax) {
    return fail(ErrorCode::invalid_argument, "a store's name has 1 to {} bytes",
                StoreInfo::kNameMax);
  }
  if (stores_.count(store.id()) != 0 || find_store(name) != nullptr) {
    return fail(ErrorCode::invalid_argument, "there is a store already with number {} or name {}",
                store.id(), name);
  }
  const auto memory = store.memory();
  ROCKHOPPER_TRY(auto region, roce::own(engine_, engine_.register_memory_iova(
                                                     pd_.get(), memory.data(), memory.size(),
                                                     roce::kAccessMwBind, 0)));
  auto offered =
      std::make_unique<OfferedStore>(OfferedStore{std::string(name), &store, std::move(region)});
  offered->watchers.reserve(config_.max_subscribers);
  stores_.emplace(store.id(), std::move(offered));
  watches_->reserve(stores_.size());
  if (multicast_ != nullptr && store.kind() == StoreKind::log) multicast_->add(store);
  return {};
}

Expected<void> Publisher::remove_store(std::uint16_t id) {
  const auto found = stores_.find(id);
  if (found == stores_.end()) return fail(ErrorCode::not_found, "there is no store {}", id);
  for (const auto& [subscriber_id, subscriber] : subscribers_) {
    revoke(subscriber_id, id);
  }
  // A window whose binding is on its way is of the region still.
  ROCKHOPPER_TRY(found->second->region.end());
  if (multicast_ != nullptr) multicast_->remove(id);
  stores_.erase(found);
  return {};
}

StoreInfo Publisher::info_of(const OfferedStore& offered) const {
  return offered.info(config_.heartbeat_ns);
}

OfferedStore* Publisher::find_store(std::string_view name) {
  for (const auto& [id, store] : stores_) {
    if (store->name == name) return store.get();
  }
  return nullptr;
}

// Subscribers.

roce::QpInit Publisher::qp_init() const {
  roce::QpInit init;
  init.pd = pd_.get();
  init.send_cq = send_cq_.get();
  init.recv_cq = receives_->cq();
  init.srq = receives_->srq();
  init.max_send_wr = kSendWr;
  init.max_recv_wr = 0;
  init.max_inline_data = kControlMessageMax;
  init.sq_sig_all = true;
  return init;
}

ServedSubscriber* Publisher::find(SubscriberId id) const {
  const auto found = subscribers_.find(id);
  return found == subscribers_.end() ? nullptr : found->second.get();
}

Expected<ServedSubscriber*> Publisher::make_subscriber(std::string_view name) {
  if (subscribers_.size() >= config_.max_subscribers) {
    return fail(ErrorCode::exhausted, "the publisher has {} subscribers already",
                subscribers_.size());
  }
  auto subscriber = std::make_unique<ServedSubscriber>();
  subscriber->id = SubscriberId{next_id_++};
  subscriber->name = name;
  ServedSubscriber* made = subscriber.get();
  subscribers_.emplace(made->id, std::move(subscriber));
  return made;
}

Expected<SubscriberId> Publisher::add_subscriber(std::string_view name, roce::QueuePair& qp) {
  if (qp.pd() != pd_.get() || qp.init().srq != receives_->srq()) {
    return fail(ErrorCode::invalid_argument, "the queue pair was not made with qp_init()");
  }
  ROCKHOPPER_TRY(auto subscriber, make_subscriber(name));
  subscriber->qp = &qp;
  subscriber->number = qp.number().value;
  by_number_[qp.number().value] = subscriber;
  return subscriber->id;
}

Expected<SubscriberId> Publisher::add_subscriber(std::string_view name,
                                                 const dc::TargetAddress& address) {
  if (endpoint_ == nullptr) {
    return fail(ErrorCode::invalid_argument, "the publisher was made without dynamic connections");
  }
  ROCKHOPPER_TRY(auto subscriber, make_subscriber(name));
  auto way = dc::PrivateTarget::create(engine_, *endpoint_, address,
                                       {.initiators = pd_.get(),
                                        .receives = kDcReceives,
                                        .receive_bytes = kControlMessageMax,
                                        .access_flags = roce::kAccessRemoteRead,
                                        .path_mtu = config_.path_mtu});
  if (!way) {
    subscribers_.erase(subscriber->id);
    return tl::make_unexpected(way.error());
  }
  subscriber->way = std::move(*way);
  return subscriber->id;
}

const dc::Dct* Publisher::target(SubscriberId id) const {
  const ServedSubscriber* subscriber = find(id);
  return subscriber == nullptr || subscriber->way == nullptr ? nullptr : &subscriber->way->dct();
}

void Publisher::remove_subscriber(SubscriberId id) {
  ServedSubscriber* subscriber = find(id);
  if (subscriber == nullptr) return;
  end_grants(*subscriber);
  if (subscriber->qp != nullptr) by_number_.erase(subscriber->number);
  keys_->forget(id);
  subscribers_.erase(id);
}

std::size_t Publisher::watch_count() const { return watches_->count(); }

std::size_t Publisher::grant_count() const {
  std::size_t count = 0;
  for (const auto& [id, subscriber] : subscribers_) {
    count += subscriber->grants.size();
  }
  return count;
}

// Grants.

void Publisher::end_grant(ServedSubscriber& subscriber, StoreGrant& grant) {
  watches_->end(subscriber, grant);
  keys_->take(subscriber, grant);
  subscriber.grants.erase(subscriber.grants.begin() + (&grant - subscriber.grants.data()));
}

void Publisher::end_grants(ServedSubscriber& subscriber) {
  while (!subscriber.grants.empty()) {
    end_grant(subscriber, subscriber.grants.back());
  }
}

bool Publisher::revoke(SubscriberId id, std::uint16_t store_id) {
  ServedSubscriber* subscriber = find(id);
  if (subscriber == nullptr) return false;
  StoreGrant* grant = subscriber->find_grant(store_id);
  if (grant == nullptr) return false;
  end_grant(*subscriber, *grant);
  counters_.revocations.add();
  subscriber->outbox.emplace_back(Revoke{store_id});
  return true;
}

void Publisher::apply_policy() {
  for (const auto& [id, subscriber] : subscribers_) {
    for (std::size_t i = subscriber->grants.size(); i-- > 0;) {
      const StoreGrant& grant = subscriber->grants[i];
      if (!policy_.may_read(subscriber->name, info_of(*grant.store), grant.credentials)) {
        revoke(id, grant.store->store->id());
      }
    }
  }
}

std::optional<Refusal> Publisher::grant(ServedSubscriber& subscriber,
                                        const SubscribeRequest& request) {
  OfferedStore* store = find_store(request.store);
  // Who may not know of a store is not told that there is one.
  if (store == nullptr ||
      (!policy_.may_see(subscriber.name, info_of(*store)) &&
       !policy_.may_read(subscriber.name, info_of(*store), request.credentials))) {
    counters_.refused_unknown_store.add();
    return Refusal::unknown_store;
  }
  const StoreInfo info = info_of(*store);
  if (request.version != kLayoutVersion) {
    counters_.refused_layout.add();
    return Refusal::layout;
  }
  if (!policy_.may_read(subscriber.name, info, request.credentials)) {
    counters_.refused_policy.add();
    return Refusal::not_authorised;
  }
  // Who asks again gets another key in place of the first one.
  if (StoreGrant* known = subscriber.find_grant(info.id)) end_grant(subscriber, *known);
  StoreGrant grant{.store = store, .rkey = {}, .credentials = request.credentials};
  if (subscriber.grants.size() >= config_.max_grants || !keys_->give(subscriber, grant)) {
    counters_.refused_exhausted.add();
    return Refusal::exhausted;
  }
  subscriber.outbox.emplace_back(
      GrantMessage{.tag = request.tag, .rkey = grant.rkey, .store = info});
  if (multicast_ != nullptr && multicast_->has(info.id)) {
    subscriber.outbox.emplace_back(
        MulticastMessage{.store_id = info.id, .group = multicast_->group()});
  }
  subscriber.grants.push_back(std::move(grant));
  counters_.grants.add();
  listener_.on_granted(subscriber.id, info);
  return std::nullopt;
}

// A turn.

bool Publisher::progress(std::uint64_t now_ns) {
  bool worked = poll_sends();
  worked = poll_receives() || worked;
  if (now_ns >= next_heartbeat_ns_) {
    beat(now_ns);
    worked = true;
  }
  worked = watches_->look() || worked;
  for (const auto& [id, subscriber] : subscribers_) {
    if (!subscriber->outbox.empty()) worked = send_messages(*subscriber) || worked;
    worked = watches_->send_answers(*subscriber, [&, &to = *subscriber](const Changed& answer) {
      return post(to, answer);
    }) || worked;
  }
  if (pool_ != nullptr) pool_->progress();
  if (multicast_ != nullptr) worked = multicast_->progress() || worked;
  return worked;
}

void Publisher::beat(std::uint64_t now_ns) {
  next_heartbeat_ns_ = now_ns + config_.heartbeat_ns;
  for (const auto& [id, store] : stores_) {
    store->store->heartbeat(now_ns);
  }
  counters_.heartbeats.add(stores_.size());
  watches_->answer_all();
  for (const auto& [id, subscriber] : subscribers_) {
    if (subscriber->qp != nullptr && subscriber->qp->state() == roce::QpState::err) {
      on_failed(*subscriber);
    }
  }
  if (config_.probe_ns == 0 || now_ns < next_probe_ns_) return;
  next_probe_ns_ = now_ns + config_.probe_ns;
  probe();
}

void Publisher::probe() {
  for (const auto& [id, subscriber] : subscribers_) {
    // What waits already is as good.
    if (!subscriber->gone && subscriber->outbox.empty()) subscriber->outbox.emplace_back(Probe{});
  }
}

void Publisher::on_failed(ServedSubscriber& subscriber) {
  if (subscriber.gone) return;
  subscriber.gone = true;
  subscriber.outbox.clear();
  end_grants(subscriber);
  counters_.subscribers_gone.add();
  listener_.on_gone(subscriber.id);
}

bool Publisher::poll_sends() {
  std::array<roce::Completion, 32> completions;
  const std::size_t count = send_cq_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t wr_id = completions[i].wr_id;
    const SubscriberId id =
        GrantKeys::is_binding(wr_id) ? keys_->on_bound(wr_id) : static_cast<SubscriberId>(wr_id);
    if (completions[i].status == roce::WcStatus::success) continue;
    counters_.tx_failed.add();
    if (ServedSubscriber* subscriber = find(id); subscriber != nullptr) on_failed(*subscriber);
  }
  return count > 0;
}

bool Publisher::poll_receives() {
  bool worked =
      receives_->poll([this](const roce::Completion& completion, std::span<const std::byte> bytes) {
        const auto found = by_number_.find(completion.qp_num.value);
        if (found != by_number_.end()) {
          accept(*found->second, completion, bytes);
        } else {
          counters_.rx_unknown.add();
        }
      });
  for (const auto& entry : subscribers_) {
    ServedSubscriber* subscriber = entry.second.get();
    if (subscriber->way == nullptr) continue;
    worked = subscriber->way->receives().poll([&](const roce::Completion& completion,
                                                  std::span<const std::byte> bytes) {
      accept(*subscriber, completion, bytes);
    }) || worked;
  }
  return worked;
}

void Publisher::accept(ServedSubscriber& subscriber, const roce::Completion& completion,
                       std::span<const std::byte> bytes) {
  if (completion.status != roce::WcStatus::success || completion.opcode != roce::WcOpcode::recv) {
    counters_.rx_failed.add();
    return;
  }
  const auto message = parse_control(bytes);
  if (!message) {
    counters_.rx_malformed.add();
    return;
  }
  if (subscriber.gone) return;
  // The answer to a watch waits in the grant, if at all, and not among the others.
  if (subscriber.outbox.size() >= ServedSubscriber::kOutboxMax &&
      !std::holds_alternative<Watch>(*message)) {
    counters_.rx_over_limit.add();
    return;
  }
  counters_.rx_messages.add();
  std::visit(
      [&](const auto& request) {
        if constexpr (requires { on_request(subscriber, request); }) {
          on_request(subscriber, request);
        } else {
          counters_.rx_unexpected.add();
        }
      },
      *message);
}

void Publisher::on_request(ServedSubscriber& subscriber, const DirectoryRequest& request) {
  Directory directory{.first = request.first, .total = 0, .stores = {}};
  for (const auto& [id, store] : stores_) {
    StoreInfo info = info_of(*store);
    if (!policy_.may_see(subscriber.name, info)) continue;
    if (directory.total++ >= request.first && directory.stores.size() < kDirectoryEntriesMax) {
      directory.stores.push_back(std::move(info));
    }
  }
  directory.first = std::min(directory.first, directory.total);
  subscriber.outbox.emplace_back(std::move(directory));
  counters_.directories.add();
}

void Publisher::on_request(ServedSubscriber& subscriber, const SubscribeRequest& request) {
  const auto refusal = grant(subscriber, request);
  if (!refusal) return;
  subscriber.outbox.emplace_back(RefusedMessage{.tag = request.tag, .why = *refusal});
  listener_.on_refused(subscriber.id, request.store, *refusal);
}

void Publisher::on_request(ServedSubscriber& subscriber, const Leave& request) {
  StoreGrant* grant = subscriber.find_grant(request.store_id);
  if (grant == nullptr) return;  // revoked meanwhile
  const StoreInfo info = info_of(*grant->store);
  end_grant(subscriber, *grant);
  counters_.leaves.add();
  listener_.on_left(subscriber.id, info);
}

void Publisher::on_request(ServedSubscriber& subscriber, const Watch& request) {
  if (StoreGrant* grant = subscriber.find_grant(request.store_id)) {
    watches_->watch(subscriber, *grant, request.known);
  } else {
    // Revoked meanwhile perhaps, of which it is told; else it is none of its business.
    counters_.refused_watch.add();
  }
}

// Answers.

/// As many as there is room for. Returns false if there was none.
bool Publisher::send_messages(ServedSubscriber& subscriber) {
  bool sent = false;
  while (!subscriber.outbox.empty() && post(subscriber, subscriber.outbox.front())) {
    subscriber.outbox.pop_front();
    sent = true;
  }
  return sent;
}

bool Publisher::post(ServedSubscriber& subscriber, const ControlMessage& message) {
  std::array<std::byte, kControlMessageMax> bytes;
  const std::size_t length = emit_control(message, bytes);
  const roce::Sge sge{
      reinterpret_cast<std::uintptr_t>(bytes.data()), static_cast<std::uint32_t>(length), {}};
  const roce::SendWr wr{.wr_id = static_cast<std::uint64_t>(subscriber.id),
                        .sg_list = {&sge, 1},
                        .opcode = roce::WrOpcode::send,
                        .send_flags = roce::kSendInline};
  const auto posted = subscriber.way != nullptr ? pool_->post_send(subscriber.way->peer(), wr)
                                                : std::optional(subscriber.qp->post_send(wr));
  if (posted != roce::PostResult::ok) return false;  // there will be room, or it is gone
  counters_.tx_messages.add();
  return true;
}

void Publisher::visit_counters(stack::CounterVisitor visit, void* context) const {
  counters_.visit(visit, context);
  if (multicast_ != nullptr) multicast_->counters().visit(visit, context);
}

void Publisher::describe_counters(stack::CounterTextVisitor visit, void* context) {
  PublisherCounters::describe(visit, context);
  MulticastCounters::describe(visit, context);
}

}  // namespace rockhopper::publisher
