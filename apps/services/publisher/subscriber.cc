// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/subscriber.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "apps/services/publisher/conflated_reader.h"
#include "apps/services/publisher/multicast_receiver.h"
#include "apps/services/publisher/subscriber_route.h"
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

}  // namespace

struct Subscriber::Subscription {
  enum class State : std::uint8_t {
    wanted,   ///< to be asked for
    asked,    ///< an answer is awaited
    granted,  ///< read
    leaving,  ///< to be given back when the last round has ended
    ended,
  };

  SubscriptionId id{};
  std::string name;
  Options options;
  Listener* listener = nullptr;
  State state = State::wanted;
  StoreInfo info;
  roce::MemoryKey rkey{};
  std::unique_ptr<StoreReader> reader;
  StoreKind kind = StoreKind::log;  ///< of the reader
  Reader* log = nullptr;            ///< the reader, if it is one of a log
  /// Where copies come from; null: nowhere.
  const MulticastReceiver* multicast = nullptr;
  std::vector<std::byte> buffer;
  roce::MemoryKey buffer_key{};
  bool has_key = false;
  bool reading = false;  ///< a round is on its way
  bool paused = false;

  [[nodiscard]] std::uint32_t number() const { return static_cast<std::uint32_t>(id); }
};

Subscriber::Subscriber(roce::Engine& engine, dc::Endpoint* endpoint, SubscriberListener& listener,
                       const SubscriberConfig& config)
    : engine_(engine),
      endpoint_(endpoint),
      listener_(listener),
      config_(config),
      pd_(engine.allocate_pd()) {}

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
                 roce::ReceiveBuffers::create(engine_, pd_, kReceives, kControlMessageMax));
  if (endpoint_ == nullptr) return {};
  ROCKHOPPER_TRY(target_, endpoint_->create_dct({.pd = pd_,
                                                 .srq = receives_->srq(),
                                                 .recv_cq = receives_->cq(),
                                                 .access_flags = 0,
                                                 .path_mtu = config_.path_mtu}));
  ROCKHOPPER_TRY(initiator_, endpoint_->create_dci({.pd = pd_,
                                                    .send_cq = send_cq_.get(),
                                                    .max_send_wr = send_room(config_),
                                                    .max_inline_data = kControlMessageMax,
                                                    .path_mtu = config_.path_mtu,
                                                    .max_rd_atomic = kReads,
                                                    .timeout = config_.timeout,
                                                    .retry_cnt = config_.retry_cnt}));
  return {};
}

Subscriber::~Subscriber() {
  if (initiator_ != nullptr) endpoint_->destroy_dci(initiator_);
  route_.reset();
  if (target_ != nullptr) endpoint_->destroy_dct(target_);
  for (const auto& subscription : subscriptions_) give_back(*subscription);
  multicast_.clear();
  receives_.reset();
  static_cast<void>(engine_.deallocate_pd(pd_));
}

// Connections.

roce::QpInit Subscriber::qp_init() const {
  roce::QpInit init;
  init.pd = pd_;
  init.send_cq = send_cq_.get();
  init.recv_cq = receives_->cq();
  init.srq = receives_->srq();
  init.max_send_wr = send_room(config_);
  init.max_recv_wr = 0;
  init.max_inline_data = kControlMessageMax;
  return init;
}

Expected<void> Subscriber::connect(roce::QueuePair& qp) {
  if (qp.pd() != pd_ || qp.init().srq != receives_->srq()) {
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
  ROCKHOPPER_TRY(auto ah, engine_.create_ah(pd_, address.av));
  start_connection(std::make_unique<DcRoute>(engine_, *initiator_, *ah, address));
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
  directory_asked_ = false;
  directory_.clear();
}

void Subscriber::disconnect() {
  if (route_ == nullptr) return;
  route_.reset();
  counters_.connections_lost.add();
  for (const auto& subscription : subscriptions_) {
    // Nothing is written into the buffers any more: the queue pair is in error.
    subscription->reading = false;
    subscription->has_key = false;
    if (subscription->state == Subscription::State::leaving) {
      subscription->state = Subscription::State::ended;
    } else if (subscription->state != Subscription::State::ended) {
      subscription->state = Subscription::State::wanted;
      if (subscription->reader != nullptr) subscription->reader->close();
    }
  }
  listener_.on_disconnected();
}

// What the application asks for.

Expected<void> Subscriber::request_directory() {
  if (route_ == nullptr) return fail(ErrorCode::invalid_state, "there is no connection");
  directory_wanted_ = true;
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
    if (other->name == store && other->listener != nullptr &&
        other->state != Subscription::State::ended) {
      return fail(ErrorCode::busy, "store {} is subscribed already", store);
    }
  }
  auto made = std::make_unique<Subscription>();
  made->id = SubscriptionId{next_id_++};
  made->name = store;
  made->options = options;
  made->listener = &listener;
  subscriptions_.push_back(std::move(made));
  return subscriptions_.back()->id;
}

Subscriber::Subscription* Subscriber::find(SubscriptionId id) const {
  const auto found =
      std::find_if(subscriptions_.begin(), subscriptions_.end(), [id](const auto& subscription) {
        return subscription->id == id && subscription->state != Subscription::State::ended;
      });
  return found == subscriptions_.end() ? nullptr : found->get();
}

void Subscriber::leave(SubscriptionId id) {
  Subscription* subscription = find(id);
  if (subscription == nullptr) return;
  // The answer to what has been asked is still to come, and is then given back.
  const bool held = route_ != nullptr && (subscription->state == Subscription::State::granted ||
                                          subscription->state == Subscription::State::asked);
  subscription->listener = nullptr;
  subscription->state = held ? Subscription::State::leaving : Subscription::State::ended;
}

void Subscriber::pause(SubscriptionId id, bool paused) {
  Subscription* subscription = find(id);
  if (subscription == nullptr || subscription->paused == paused) return;
  subscription->paused = paused;
  if (subscription->reader != nullptr) subscription->reader->pause(paused);
}

void Subscriber::set_watch(SubscriptionId id, bool watch) {
  Subscription* subscription = find(id);
  if (subscription == nullptr) return;
  subscription->options.reader.watch = watch;
  if (subscription->reader != nullptr) subscription->reader->set_watch(watch);
}

const StoreReader* Subscriber::reader(SubscriptionId id) const {
  const Subscription* subscription = find(id);
  return subscription == nullptr ? nullptr : subscription->reader.get();
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
      if (subscription->state != Subscription::State::granted) continue;
      subscription->reader->tick(now_ns);
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
    if (subscription->state != Subscription::State::granted) continue;
    deadline_ns = std::min(deadline_ns, subscription->reader->next_deadline_ns());
  }
  return deadline_ns;
}

bool Subscriber::read(Subscription& subscription, std::uint64_t now_ns) {
  if (subscription.reading || route_ == nullptr ||
      route_->depth() + kRequests > send_room(config_)) {
    return false;
  }
  const auto round = subscription.reader->next_round(now_ns);
  for (std::size_t i = 0; i < round.size(); ++i) {
    const roce::Sge to{reinterpret_cast<std::uintptr_t>(round[i].to.data()),
                       static_cast<std::uint32_t>(round[i].to.size()), subscription.buffer_key};
    // They complete in order: the last one tells of all.
    const bool is_last = i + 1 == round.size();
    const roce::PostResult posted =
        route_->post({.wr_id = wr_id_of(connection_, subscription.number()),
                      .sg_list = {&to, 1},
                      .opcode = roce::WrOpcode::rdma_read,
                      .send_flags = is_last ? roce::kSendSignaled : 0u,
                      .remote_addr = round[i].offset,
                      .rkey = subscription.rkey});
    if (posted != roce::PostResult::ok) {
      // There is room, so the connection is no good any more.
      disconnect();
      return true;
    }
    counters_.reads.add();
  }
  subscription.reading = !round.empty();
  return !round.empty();
}

bool Subscriber::watch(Subscription& subscription) {
  if (route_ == nullptr || subscription.state != Subscription::State::granted) return false;
  const auto known = subscription.reader->next_watch();
  if (!known || !send(Watch{.store_id = subscription.info.id, .known = *known})) return false;
  subscription.reader->on_watch();
  counters_.watches.add();
  return true;
}

bool Subscriber::poll_sends(std::uint64_t now_ns) {
  std::array<roce::Completion, 32> completions;
  const std::size_t count = send_cq_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) on_completion(completions[i], now_ns);
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
  subscription->reading = false;
  if (subscription->state == Subscription::State::granted) {
    subscription->reader->on_round(now_ns);
  }
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
  directory_asked_ = false;
  directory_.clear();
  for (const auto& other : subscriptions_) {
    other->reading = false;
    if (other->reader != nullptr) other->reader->cancel();
    if (other->state == Subscription::State::asked) other->state = Subscription::State::wanted;
    // A key that may have been granted is taken back when the store is asked for again.
    if (other->state == Subscription::State::leaving && !other->has_key) {
      other->state = Subscription::State::ended;
    }
  }
  if (refused && subscription != nullptr && subscription->state == Subscription::State::granted) {
    // The key is not good any more: the publisher is asked again, and says why not.
    subscription->state = Subscription::State::wanted;
    subscription->has_key = false;
    subscription->reader->close();
  }
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

/// A subscription that has been left, of the same store, is to be given back first.
bool Subscriber::is_held(std::string_view store) const {
  return std::any_of(subscriptions_.begin(), subscriptions_.end(), [store](const auto& other) {
    return other->name == store && other->state == Subscription::State::leaving;
  });
}

bool Subscriber::send_requests() {
  bool sent = false;
  if (directory_wanted_ && !directory_asked_) {
    directory_asked_ =
        send(DirectoryRequest{.first = static_cast<std::uint16_t>(directory_.size())});
    sent = directory_asked_;
  }
  for (const auto& subscription : subscriptions_) {
    if (subscription->state == Subscription::State::wanted && !is_held(subscription->name)) {
      if (!send(SubscribeRequest{.tag = subscription->number(),
                                 .store = subscription->name,
                                 .credentials = subscription->options.credentials})) {
        break;
      }
      subscription->state = Subscription::State::asked;
      sent = true;
    }
    // READs that are on their way would find no key.
    if (subscription->state == Subscription::State::leaving && !subscription->reading &&
        subscription->has_key) {
      if (!send(Leave{subscription->info.id})) break;
      subscription->state = Subscription::State::ended;
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
    accept(*message, now_ns);
  });
}

void Subscriber::accept(const ControlMessage& message, std::uint64_t now_ns) {
  if (const auto* grant = std::get_if<GrantMessage>(&message)) {
    on_grant(*grant, now_ns);
  } else if (const auto* refused = std::get_if<RefusedMessage>(&message)) {
    on_refused(*refused);
  } else if (const auto* revoke = std::get_if<Revoke>(&message)) {
    on_revoke(*revoke);
  } else if (const auto* directory = std::get_if<Directory>(&message)) {
    on_directory(*directory);
  } else if (const auto* changed = std::get_if<Changed>(&message)) {
    on_changed(*changed, now_ns);
  } else if (std::holds_alternative<Probe>(message)) {
    counters_.probes.add();
  } else if (const auto* multicast = std::get_if<MulticastMessage>(&message)) {
    on_multicast(*multicast);
  } else {
    counters_.rx_unexpected.add();
  }
}

void Subscriber::on_grant(const GrantMessage& grant, std::uint64_t now_ns) {
  Subscription* subscription = find(SubscriptionId{grant.tag});
  const bool awaited =
      subscription != nullptr && route_ != nullptr &&
      (subscription->state == Subscription::State::asked ||
       (subscription->state == Subscription::State::leaving && !subscription->has_key));
  if (!awaited) {
    counters_.rx_unexpected.add();
    return;
  }
  subscription->rkey = grant.rkey;
  subscription->info = grant.store;
  // Where copies come from, if they do, is told next.
  subscription->multicast = nullptr;
  if (subscription->log != nullptr) subscription->log->expect_copies(0, 0);
  subscription->has_key = true;
  if (subscription->state == Subscription::State::leaving) return;
  auto ready = prepare(*subscription, grant.store);
  if (ready) ready = subscription->reader->open(grant.store, now_ns);
  if (!ready) {
    counters_.refused_layout.add();
    subscription->state = Subscription::State::leaving;
    subscription->listener = nullptr;
    listener_.on_refused(subscription->id, ready.error());
    return;
  }
  subscription->state = Subscription::State::granted;
  counters_.grants.add();
  listener_.on_granted(subscription->id, grant.store);
}

/// A reader for the store, and a registered buffer that is long enough.
Expected<void> Subscriber::prepare(Subscription& subscription, const StoreInfo& info) {
  const ReaderConfig& config = subscription.options.reader;
  const bool is_log = info.kind() == StoreKind::log;
  const std::uint64_t bytes =
      is_log ? Reader::buffer_bytes(info, config) : ConflatedReader::buffer_bytes(info, config);
  if (bytes > config_.max_buffer_bytes) {
    return fail(ErrorCode::exhausted, "store {} needs a buffer of {} bytes; {} are allowed",
                info.name, bytes, config_.max_buffer_bytes);
  }
  if (subscription.reader == nullptr) {
    subscription.kind = info.kind();
    if (is_log) {
      auto reader = std::make_unique<Reader>(config, *subscription.listener);
      subscription.log = reader.get();
      subscription.reader = std::move(reader);
    } else {
      subscription.reader = std::make_unique<ConflatedReader>(config, *subscription.listener);
    }
    subscription.reader->pause(subscription.paused);
  } else if (subscription.kind != info.kind()) {
    return fail(ErrorCode::unsupported, "store {} has become one of another kind", info.name);
  }
  if (subscription.buffer.size() < bytes) {
    give_back(subscription);
    subscription.buffer.resize(bytes);
    ROCKHOPPER_TRY(auto region, engine_.register_memory(pd_, subscription.buffer.data(), bytes,
                                                        roce::kAccessLocalWrite));
    subscription.buffer_key = region.key;
    subscription.reader->set_buffer(subscription.buffer);
  }
  return {};
}

void Subscriber::give_back(Subscription& subscription) {
  if (subscription.buffer_key != roce::MemoryKey{}) {
    static_cast<void>(engine_.deregister_memory(subscription.buffer_key));
  }
  subscription.buffer_key = {};
  subscription.buffer.clear();
}

void Subscriber::on_refused(const RefusedMessage& refused) {
  Subscription* subscription = find(SubscriptionId{refused.tag});
  if (subscription == nullptr || (subscription->state != Subscription::State::asked &&
                                  subscription->state != Subscription::State::leaving)) {
    counters_.rx_unexpected.add();
    return;
  }
  const bool told = subscription->state == Subscription::State::asked;
  subscription->state = Subscription::State::ended;
  counters_.refusals.add();
  if (told) {
    listener_.on_refused(
        subscription->id,
        Error{refused.why == Refusal::unknown_store ? ErrorCode::not_found
              : refused.why == Refusal::layout      ? ErrorCode::unsupported
                                                    : ErrorCode::invalid_argument,
              fmt::format("store {}: {}", subscription->name, to_string(refused.why))});
  }
}

void Subscriber::on_revoke(const Revoke& revoke) {
  for (const auto& subscription : subscriptions_) {
    if (!subscription->has_key || subscription->info.id != revoke.store_id ||
        subscription->state == Subscription::State::ended) {
      continue;
    }
    const bool told = subscription->state != Subscription::State::leaving;
    counters_.revocations.add();
    subscription->has_key = false;
    if (subscription->reader != nullptr) subscription->reader->close();
    subscription->state = Subscription::State::ended;
    if (told) listener_.on_revoked(subscription->id);
    return;
  }
  counters_.rx_unexpected.add();
}

void Subscriber::on_directory(const Directory& directory) {
  const bool awaited = directory_asked_ && directory.first == directory_.size();
  if (!awaited) {
    counters_.rx_unexpected.add();
    return;
  }
  directory_asked_ = false;
  directory_.insert(directory_.end(), directory.stores.begin(), directory.stores.end());
  if (directory_.size() < directory.total && !directory.stores.empty()) return;
  directory_wanted_ = false;
  listener_.on_directory(directory_);
  directory_.clear();
}

void Subscriber::on_changed(const Changed& changed, std::uint64_t now_ns) {
  counters_.watch_answers.add();
  for (const auto& subscription : subscriptions_) {
    if (subscription->state != Subscription::State::granted ||
        subscription->info.id != changed.store_id) {
      continue;
    }
    if (subscription->reader->on_tail(changed.tail, now_ns)) return;
  }
  counters_.watch_answers_late.add();
}

// Copies.

void Subscriber::on_multicast(const MulticastMessage& message) {
  for (const auto& subscription : subscriptions_) {
    if (subscription->state != Subscription::State::granted || subscription->log == nullptr ||
        subscription->info.id != message.store_id) {
      continue;
    }
    if (config_.multicast_buffers == 0 || config_.held_copies == 0) return;
    const auto receiver = join(message.group);
    if (!receiver) {
      counters_.multicast_refused.add();
      listener_.on_no_multicast(subscription->id, receiver.error());
      return;
    }
    subscription->multicast = *receiver;
    subscription->log->expect_copies(config_.held_copies, bytes(message.group.path_mtu));
    listener_.on_multicast(subscription->id, message.group);
    return;
  }
  // Of a store that has been left meanwhile, or of none.
  counters_.rx_unexpected.add();
}

Expected<MulticastReceiver*> Subscriber::join(const MulticastGroup& group) {
  for (const auto& receiver : multicast_) {
    if (receiver->group() == group) return receiver.get();
  }
  ROCKHOPPER_TRY(auto receiver,
                 MulticastReceiver::create(engine_, pd_, group,
                                           {.buffers = config_.multicast_buffers,
                                            .pkey_index = config_.multicast_pkey_index},
                                           counters_));
  multicast_.push_back(std::move(receiver));
  return multicast_.back().get();
}

bool Subscriber::poll_multicast(std::uint64_t now_ns) {
  bool worked = false;
  for (const auto& receiver : multicast_) {
    worked = receiver->poll([&](std::uint16_t store_id, std::span<const std::byte> bytes) {
      on_copy(*receiver, store_id, bytes, now_ns);
    }) || worked;
  }
  return worked;
}

void Subscriber::on_copy(const MulticastReceiver& receiver, std::uint16_t store_id,
                         std::span<const std::byte> bytes, std::uint64_t now_ns) {
  for (const auto& subscription : subscriptions_) {
    if (subscription->state == Subscription::State::granted &&
        subscription->multicast == &receiver && subscription->info.id == store_id) {
      subscription->log->on_copy(bytes, now_ns);
      return;
    }
  }
  counters_.multicast_unwanted.add();
}

const CopyCounters* Subscriber::copy_counters(SubscriptionId id) const {
  const Subscription* subscription = find(id);
  return subscription == nullptr || subscription->log == nullptr
             ? nullptr
             : &subscription->log->copy_counters();
}

/// Forgets what has ended and is not written to any more, and leaves groups that nobody needs.
void Subscriber::sweep() {
  std::erase_if(subscriptions_, [this](const auto& subscription) {
    const bool over = subscription->state == Subscription::State::ended && !subscription->reading;
    if (over) give_back(*subscription);
    return over;
  });
  std::erase_if(multicast_, [this](const auto& receiver) {
    return std::none_of(subscriptions_.begin(), subscriptions_.end(),
                        [&receiver](const auto& subscription) {
                          return subscription->multicast == receiver.get();
                        });
  });
}

void Subscriber::visit_counters(void (*visit)(void*, const char*, std::uint64_t),
                                void* context) const {
#define X(name, text) visit(context, #name, counters_.name.value());
  ROCKHOPPER_PUBLISHER_SUBSCRIBER_COUNTERS(X)
#undef X
}

void Subscriber::describe_counters(void (*visit)(void*, const char*, const char*), void* context) {
#define X(name, text) visit(context, #name, text);
  ROCKHOPPER_PUBLISHER_SUBSCRIBER_COUNTERS(X)
#undef X
}

}  // namespace rockhopper::publisher
