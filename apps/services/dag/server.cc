// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/server.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <optional>

#include "apps/services/dag/hash.h"
#include "dc/private_target.h"

namespace rockhopper::dag {
namespace {

constexpr std::uint16_t kClientsMax = 4096;
constexpr std::uint16_t kServerDcis = 8;
constexpr std::uint32_t kServerDciWr = 64;
constexpr std::uint64_t kLeaseMinNs = 1'000'000;
constexpr std::uint64_t kLeaseMaxNs = 3'600'000'000'000;
/// How often in a lease leases are looked at.
constexpr std::uint64_t kChecks = 16;
constexpr std::uint32_t kRecordAccess = roce::kAccessLocalWrite | roce::kAccessRemote;
constexpr std::uint32_t kApplicationAccess =
    roce::kAccessLocalWrite | roce::kAccessRemoteRead | roce::kAccessRemoteAtomic;

std::uint64_t load(const std::uint64_t& word) {
  return std::atomic_ref(const_cast<std::uint64_t&>(word)).load();
}

std::uint64_t wr_id_of(ClientId id, std::size_t word) {
  return std::uint64_t{static_cast<std::uint32_t>(id)} << 16 | word;
}

}  // namespace

struct Server::Client {
  ClientId id{};
  std::unique_ptr<dc::PrivateTarget> way;
  /// What it writes; nothing else here can it reach but the records and, by atomics, the
  /// application's memory.
  std::unique_ptr<ClientArea> area = std::make_unique<ClientArea>();
  roce::OwnedRegion records;
  roce::OwnedRegion written;  ///< of the area
  roce::OwnedRegion application;

  std::uint64_t renewals = 0;    ///< seen last
  std::uint64_t renewed_ns = 0;  ///< when that was new
  /// That end its part of the grace period that is under way.
  std::optional<std::uint64_t> grace_until;
  bool failed = false;  ///< it cannot be reached

  std::array<Response, kRequestWords> responses{};  ///< the last one of each request word
  std::deque<std::uint16_t> outbox;                 ///< words whose answers are to be sent
};

Server::Server(roce::Engine& engine, dc::Endpoint& endpoint, Store& store, ServerListener& listener,
               const ServerConfig& config)
    : engine_(engine),
      endpoint_(endpoint),
      store_(store),
      listener_(listener),
      config_(config),
      pd_(engine) {}

Expected<std::unique_ptr<Server>> Server::create(roce::Engine& engine, dc::Endpoint& endpoint,
                                                 Store& store, ServerListener& listener,
                                                 const ServerConfig& config) {
  if (config.max_clients == 0 || config.max_clients > kClientsMax) {
    return fail(ErrorCode::invalid_argument, "a server has 1 to {} clients", kClientsMax);
  }
  if (config.lease_ns < kLeaseMinNs || config.lease_ns > kLeaseMaxNs) {
    return fail(ErrorCode::invalid_argument, "a lease is {} to {} ns", kLeaseMinNs, kLeaseMaxNs);
  }
  if (reinterpret_cast<std::uintptr_t>(config.application_memory.data()) % kRecordAlignment != 0) {
    return fail(ErrorCode::invalid_argument, "an application's memory begins at a multiple of {}",
                kRecordAlignment);
  }
  auto server = std::unique_ptr<Server>(new Server(engine, endpoint, store, listener, config));
  ROCKHOPPER_TRY(server->set_up());
  return server;
}

Expected<void> Server::set_up() {
  ROCKHOPPER_TRY(send_cq_, roce::CompletionQueue::create(kServerDcis * kServerDciWr));
  ROCKHOPPER_TRY(pool_, dc::DciPool::create(endpoint_,
                                            {.pd = pd_.get(),
                                             .send_cq = send_cq_.get(),
                                             .max_send_wr = kServerDciWr,
                                             .max_inline_data = kResponseBytes,
                                             .sq_sig_all = true,
                                             .path_mtu = config_.path_mtu,
                                             .timeout = config_.timeout,
                                             .retry_cnt = config_.retry_cnt},
                                            {.dcis = kServerDcis}, [](dc::PoolTarget&) {}));
  return {};
}

Server::~Server() {
  for (const auto& [id, client] : clients_) {
    tear_down(*client, last_check_ns_);
  }
}

Server::Client* Server::find(ClientId id) const {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : found->second.get();
}

// Clients.

Expected<Grant> Server::add_client(const dc::TargetAddress& address, std::uint64_t now_ns) {
  if (clients_.size() >= config_.max_clients) {
    return fail(ErrorCode::exhausted, "the server has {} clients already", clients_.size());
  }
  if (next_id_ >= Store::kHomeOwner) {
    return fail(ErrorCode::exhausted, "the server has had {} clients, and no number for another",
                next_id_ - 1);
  }
  auto made = std::make_unique<Client>();
  Client& client = *made;
  client.id = ClientId{next_id_++};
  client.renewed_ns = now_ns;
  if (auto done = set_up(client, address); !done) {
    tear_down(client, now_ns);
    return tl::make_unexpected(done.error());
  }
  const Grant grant{.client = static_cast<std::uint32_t>(client.id),
                    .target = client.way->dct().number(),
                    .access_key = client.way->dct().access_key(),
                    .records_key = client.records.key(),
                    .records_bytes = store_.memory().size(),
                    .area_key = client.written.key(),
                    .application_key = client.application.key(),
                    .application_bytes = config_.application_memory.size(),
                    .lease_ns = config_.lease_ns,
                    .capacity_max = store_.config().capacity_max,
                    .hash_bits = static_cast<std::uint8_t>(store_.config().hash_bits)};
  clients_.emplace(client.id, std::move(made));
  return grant;
}

Expected<void> Server::set_up(Client& client, const dc::TargetAddress& address) {
  // Some may come twice, and what the client has canceled takes room too.
  ROCKHOPPER_TRY(client.way, dc::PrivateTarget::create(engine_, endpoint_, address,
                                                       {.initiators = pd_.get(),
                                                        .receives = 2 * kRequestWords,
                                                        .receive_bytes = kRequestMax,
                                                        .access_flags = roce::kAccessRemote,
                                                        .path_mtu = config_.path_mtu}));
  const auto show = [&](std::span<std::byte> memory, std::uint32_t access) {
    return roce::own(engine_, engine_.register_memory_iova(client.way->pd(), memory.data(),
                                                           memory.size(), access, 0));
  };
  ROCKHOPPER_TRY(client.records, show(store_.memory(), kRecordAccess));
  ROCKHOPPER_TRY(client.written,
                 show(std::as_writable_bytes(std::span(client.area.get(), 1)), kRecordAccess));
  if (config_.application_memory.empty()) return {};
  ROCKHOPPER_TRY(client.application, show(config_.application_memory, kApplicationAccess));
  return {};
}

/// The target first: from then on it writes nothing.
void Server::tear_down(Client& client, std::uint64_t now_ns) {
  if (client.way != nullptr) client.way->withdraw();
  client.records = {};
  client.written = {};
  client.application = {};
  client.way.reset();
  const auto owner = static_cast<std::uint32_t>(client.id);
  counters_.locks_released.add(store_.release_locks(owner));
  store_.release_arenas(owner, now_ns);
}

void Server::remove_client(ClientId id, std::uint64_t now_ns) {
  Client* client = find(id);
  if (client == nullptr) return;
  tear_down(*client, now_ns);
  clients_.erase(id);
  if (config_.application != nullptr) config_.application->on_client_gone(id, now_ns);
}

// A turn.

bool Server::progress(std::uint64_t now_ns) {
  bool worked = poll_sends();
  for (const auto& [id, client] : clients_) {
    worked = poll_receives(*client, now_ns) || worked;
  }
  for (const auto& [id, client] : clients_) {
    if (!client->outbox.empty()) worked = send_responses(*client) || worked;
  }
  worked = fence_failed(now_ns) || worked;
  if (now_ns >= next_check_ns_) {
    check_leases(now_ns);
    check_quarantine(now_ns);
    next_check_ns_ = now_ns + config_.lease_ns / kChecks;
    last_check_ns_ = now_ns;
    worked = true;
  }
  pool_->progress();
  return worked;
}

bool Server::poll_sends() {
  std::array<roce::Completion, 32> completions;
  const std::size_t count = send_cq_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) {
    if (completions[i].status == roce::WcStatus::success) continue;
    Client* client = find(ClientId{static_cast<std::uint32_t>(completions[i].wr_id >> 16)});
    if (client == nullptr) continue;
    if (completions[i].status == roce::WcStatus::outcome_unknown) {
      // The client takes no notice of an answer that it has had.
      counters_.tx_repeated.add();
      answer(*client, completions[i].wr_id & 0xffff);
    } else {
      counters_.tx_failed.add();
      client->failed = true;
    }
  }
  return count > 0;
}

bool Server::poll_receives(Client& client, std::uint64_t now_ns) {
  return client.way->receives().poll(
      [&](const roce::Completion&, std::span<const std::byte> bytes) {
        if (bytes.empty()) {
          counters_.rx_failed.add();
        } else {
          accept(client, bytes, now_ns);
        }
      });
}

void Server::accept(Client& client, std::span<const std::byte> bytes, std::uint64_t now_ns) {
  const auto request = parse_request(bytes);
  if (!request) {
    counters_.rx_malformed.add();
    return;
  }
  counters_.rx_requests.add();
  const std::size_t which = word_of(request->id);
  Response& last = client.responses[which];
  if (last.id == request->id) {
    counters_.rx_repeated.add();
    answer(client, which);
    return;
  }
  const std::uint64_t canceled = RequestWord{.id = request->id, .canceled = true}.bits();
  std::atomic_ref word(client.area->words[which]);
  const std::uint64_t before = word.load();
  if (before == canceled) {
    counters_.rx_canceled.add();
    last = {.id = request->id, .status = Status::canceled};
    answer(client, which);
    return;
  }
  if (RequestWord::from(before).id > request->id || last.id > request->id) {
    counters_.rx_bad_word.add();
    return;
  }
  word.store(RequestWord{.id = request->id}.bits());
  last = execute(client, *request, now_ns);
  count(request->type, last.status);
  answer(client, which);
}

Response Server::execute(Client& client, const Request& request, std::uint64_t now_ns) {
  const auto owner = static_cast<std::uint32_t>(client.id);
  Store::Outcome outcome{.status = Status::invalid};
  switch (request.type) {
    case RequestType::create:
      outcome = store_.create({.key = request.key,
                               .capacity = request.capacity,
                               .slots = request.slots,
                               .control = request.control,
                               .data = request.data});
      break;
    case RequestType::erase:
      outcome = store_.erase(request.key, now_ns);
      break;
    case RequestType::lookup:
      outcome = store_.lookup(request.key);
      break;
    case RequestType::resize:
      outcome = store_.resize(request.key, request.capacity, now_ns);
      break;
    case RequestType::allocate_arena:
      outcome = store_.allocate_arena(owner, request.bytes, request.key);
      break;
    case RequestType::adopt:
      if (request.bytes <= UINT32_MAX) {
        outcome = store_.adopt(owner, request.key,
                               {.incarnation = request.incarnation,
                                .address = request.address,
                                .length = static_cast<std::uint32_t>(request.bytes)});
      }
      break;
    case RequestType::release_arena:
      outcome.status = store_.release_arena(owner, request.address, now_ns);
      break;
    case RequestType::release_group:
      counters_.group_arenas_released.add(store_.release_group(request.key, now_ns));
      return {.id = request.id, .status = Status::ok};
    case RequestType::application:
      return apply(client, request, now_ns);
  }
  Response response{.id = request.id, .status = outcome.status};
  if (outcome.status == Status::ok && request.type != RequestType::release_arena) {
    response.entry = {.hash = cut_hash(outcome.hash, store_.config().hash_bits),
                      .incarnation = outcome.place.incarnation,
                      .address = outcome.place.address,
                      .length = outcome.place.length,
                      .rkey = client.records.key()};
  }
  return response;
}

Response Server::apply(const Client& client, const Request& request, std::uint64_t now_ns) {
  if (config_.application == nullptr) return {.id = request.id, .status = Status::invalid};
  const ApplicationResponse answer = config_.application->on_request(
      client.id,
      {.code = request.code, .value = request.value, .name = request.key, .data = request.data},
      now_ns);
  // To clients, `canceled` says who has changed the request word.
  return {.id = request.id,
          .status = answer.status == Status::canceled ? Status::invalid : answer.status,
          .value = answer.value};
}

void Server::count(RequestType type, Status status) {
  if (type == RequestType::application) {
    if (status == Status::ok) return counters_.application_requests.add();
    return counters_.application_refused.add();
  }
  switch (status) {
    case Status::ok:
      break;
    case Status::not_found:
      return counters_.refused_not_found.add();
    case Status::exists:
      return counters_.refused_exists.add();
    case Status::exhausted:
      return counters_.refused_exhausted.add();
    case Status::damaged:
      return counters_.refused_damaged.add();
    default:
      return counters_.refused_invalid.add();
  }
  switch (type) {
    case RequestType::create:
      return counters_.creates.add();
    case RequestType::erase:
      return counters_.erases.add();
    case RequestType::lookup:
      return counters_.lookups.add();
    case RequestType::resize:
      return counters_.resizes.add();
    case RequestType::allocate_arena:
      return counters_.arenas.add();
    case RequestType::adopt:
      return counters_.adoptions.add();
    case RequestType::release_arena:
    case RequestType::release_group:
    case RequestType::application:
      return;
  }
}

void Server::answer(Client& client, std::size_t word) {
  if (client.outbox.size() >= 2 * kRequestWords) {
    counters_.rx_over_limit.add();
    return;
  }
  client.outbox.push_back(static_cast<std::uint16_t>(word));
}

bool Server::send_responses(Client& client) {
  bool sent = false;
  while (!client.outbox.empty()) {
    const std::size_t word = client.outbox.front();
    std::array<std::byte, kResponseBytes> bytes;
    emit(client.responses[word], bytes);
    const roce::Sge sge{reinterpret_cast<std::uintptr_t>(bytes.data()),
                        static_cast<std::uint32_t>(bytes.size()),
                        {}};
    const auto posted = pool_->post_send(client.way->peer(), {.wr_id = wr_id_of(client.id, word),
                                                              .sg_list = {&sge, 1},
                                                              .opcode = roce::WrOpcode::send,
                                                              .send_flags = roce::kSendInline});
    if (posted != roce::PostResult::ok) return sent;  // there will be room, or it is gone
    client.outbox.pop_front();
    counters_.tx_responses.add();
    sent = true;
  }
  return sent;
}

bool Server::fence_failed(std::uint64_t now_ns) {
  bool fenced = false;
  for (auto entry = clients_.begin(); entry != clients_.end();) {
    const auto next = std::next(entry);
    if (entry->second->failed) {
      const ClientId id = entry->first;
      counters_.fenced_gone.add();
      remove_client(id, now_ns);
      listener_.on_fenced(id);
      fenced = true;
    }
    entry = next;
  }
  return fenced;
}

void Server::check_leases(std::uint64_t now_ns) {
  // Who has stood still himself may not have executed what clients have sent him meanwhile.
  const bool stood_still = last_check_ns_ != 0 && now_ns - last_check_ns_ > config_.lease_ns / 2;
  if (stood_still) counters_.leases_extended.add();
  for (auto entry = clients_.begin(); entry != clients_.end();) {
    const auto next = std::next(entry);
    Client& client = *entry->second;
    const std::uint64_t renewals = load(client.area->renewals);
    if (renewals != client.renewals || stood_still) {
      client.renewals = renewals;
      client.renewed_ns = now_ns;
    } else if (now_ns - client.renewed_ns >= config_.lease_ns) {
      const ClientId id = client.id;
      counters_.fenced_lease.add();
      remove_client(id, now_ns);
      listener_.on_fenced(id);
    }
    entry = next;
  }
}

void Server::check_quarantine(std::uint64_t now_ns) {
  Quarantine& quarantine = store_.quarantine();
  if (quarantine.in_grace()) {
    const bool over = std::all_of(clients_.begin(), clients_.end(), [](const auto& entry) {
      const Client& client = *entry.second;
      return !client.grace_until || load(client.area->renewals) >= *client.grace_until;
    });
    if (over) {
      quarantine.end_grace();
      counters_.grace_periods.add();
      for (const auto& [id, client] : clients_) {
        client->grace_until.reset();
      }
    }
  }
  if (quarantine.wants_grace()) {
    quarantine.begin_grace();
    for (const auto& [id, client] : clients_) {
      client->grace_until = load(client->area->renewals) + kGraceRenewals;
    }
  }
  store_.collect(now_ns);
}

}  // namespace rockhopper::dag
