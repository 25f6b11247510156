// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/client.h"

#include <algorithm>
#include <array>
#include <utility>

#include "apps/services/dag/client_parts.h"
#include "apps/services/dag/control_word.h"
#include "apps/services/dag/hash.h"
#include "apps/services/dag/reading.h"
#include "apps/services/dag/requesting.h"
#include "apps/services/dag/updating.h"
#include "apps/services/dag/writing.h"

namespace rockhopper::dag {
namespace {

constexpr std::uint32_t kEntriesMax = 1u << 26;
constexpr std::uint16_t kOperationsMax = 4096;
constexpr std::uint32_t kBufferMin = 4096;
constexpr std::uint32_t kBufferMax = 1u << 30;
constexpr std::uint32_t kDciWr = 256;

}  // namespace

Client::Client(roce::Engine& engine, dc::Endpoint& endpoint, Placement placement,
               ClientListener& listener, const ClientConfig& config)
    : engine_(engine),
      endpoint_(endpoint),
      placement_(std::move(placement)),
      config_(config),
      pd_(engine),
      parts_(new ClientParts{
          .listener = listener, .config = config_, .directory = Directory(config.entries)}) {}

Expected<std::unique_ptr<Client>> Client::create(roce::Engine& engine, dc::Endpoint& endpoint,
                                                 Placement placement, ClientListener& listener,
                                                 const ClientConfig& config) {
  if (config.entries == 0 || config.entries > kEntriesMax) {
    return fail(ErrorCode::invalid_argument, "a client's map has 1 to {} entries", kEntriesMax);
  }
  if (config.operations == 0 || config.operations > kOperationsMax) {
    return fail(ErrorCode::invalid_argument, "a client has 1 to {} operations", kOperationsMax);
  }
  if (config.buffer_bytes < kBufferMin || config.buffer_bytes > kBufferMax) {
    return fail(ErrorCode::invalid_argument, "an operation's buffer has {} to {} bytes", kBufferMin,
                kBufferMax);
  }
  if (config.request_timeout_ns == 0 || config.update_timeout_ns == 0) {
    return fail(ErrorCode::invalid_argument, "requests and updates need time");
  }
  auto client =
      std::unique_ptr<Client>(new Client(engine, endpoint, std::move(placement), listener, config));
  ROCKHOPPER_TRY(client->set_up());
  return client;
}

Expected<void> Client::set_up() {
  ROCKHOPPER_TRY(send_cq_, roce::CompletionQueue::create(std::uint32_t{config_.dcis} * kDciWr));
  const auto on_turn = [this](dc::PoolTarget& target) {
    for (const auto& link : parts_->links) {
      if (link->is_to(target)) link->drain();
    }
  };
  ROCKHOPPER_TRY(parts_->pool, dc::DciPool::create(endpoint_,
                                                   {.pd = pd_.get(),
                                                    .send_cq = send_cq_.get(),
                                                    .max_send_wr = kDciWr,
                                                    .sq_sig_all = true,
                                                    .path_mtu = config_.path_mtu,
                                                    .max_rd_atomic = roce::kMaxRdAtomic,
                                                    .timeout = config_.timeout,
                                                    .retry_cnt = config_.retry_cnt},
                                                   {.dcis = config_.dcis}, on_turn));
  ROCKHOPPER_TRY(parts_->operations.set_up(engine_, pd_.get(), *parts_));
  for (std::uint16_t server = 0; server < placement_.servers(); ++server) {
    parts_->links.push_back(std::make_unique<ServerLink>(*parts_, server));
    ROCKHOPPER_TRY(parts_->links.back()->set_up(engine_, endpoint_, pd_.get()));
  }
  return {};
}

Client::~Client() {
  for (const auto& link : parts_->links) {
    link->shut();
  }
  parts_->pool.reset();  // before the addresses that its requests name
}

// Connections.

const dc::Dct& Client::target(std::uint16_t server) const {
  return parts_->links.at(server)->target();
}

bool Client::connected(std::uint16_t server) const {
  return parts_->links.at(server)->is_connected();
}

Lease& Client::lease(std::uint16_t server) { return parts_->links.at(server)->lease(); }

Expected<void> Client::connect(std::uint16_t server, const roce::AddressVector& av,
                               const Grant& grant, std::uint64_t now_ns) {
  if (server >= servers()) {
    return fail(ErrorCode::invalid_argument, "there is no server {} of {}", server, servers());
  }
  parts_->now_ns = now_ns;
  ROCKHOPPER_TRY(parts_->links[server]->connect(engine_, pd_.get(), av, grant));
  // Their rkey is not ours any more.
  parts_->directory.erase_all(server);
  return {};
}

void Client::remember(const Pointer& pointer) {
  const Pointer good = own(pointer);
  if (!parts_->is_good(good) || good.entry.incarnation == 0) return;
  if (parts_->directory.insert(good.server, good.entry)) parts_->counters.evictions.add();
}

Pointer Client::own(const Pointer& pointer) const {
  Pointer result = pointer;
  result.validated = 0;
  if (pointer.server < servers()) {
    result.entry.rkey = parts_->links[pointer.server]->grant().records_key;
  }
  return result;
}

// Operations.

template <typename Go>
Started Client::start(Kind kind, std::uint16_t server, Key key, std::uint64_t context,
                      const Go& go) {
  if (server >= servers() || key.size() > kKeyMax) return Started::invalid;
  ServerLink& link = *parts_->links[server];
  if (!link.is_connected()) return Started::unreachable;
  Operation* operation = parts_->operations.take();
  if (operation == nullptr) return Started::no_room;
  parts_->counters.operations.add();
  operation->begin(kind, link, key, context);
  go(*operation);
  return Started::yes;
}

template <typename Go>
Started Client::start(Kind kind, const Record& record, std::uint64_t context, const Go& go) {
  if (record.pointer_ != nullptr) {
    return parts_->is_good(*record.pointer_) ? start(kind, record.pointer_->server, {}, context, go)
                                             : Started::invalid;
  }
  return record.key_.empty() ? Started::invalid
                             : start(kind, server_of(record.key_), record.key_, context, go);
}

namespace {

/// The operation looks for its record.
void find(Operation& operation, const Pointer* pointer) {
  if (pointer != nullptr) {
    Operation::Reading(operation).follow(pointer->entry);
  } else {
    Operation::Reading(operation).look_up();
  }
}

}  // namespace

Started Client::read(const Record& record, std::uint64_t context) {
  return start(Kind::read, record, context,
               [&](Operation& operation) { find(operation, record.pointer_); });
}

Started Client::update(const Record& record, std::span<const std::byte> data, std::uint64_t context,
                       std::optional<RecordVersion> expected) {
  if (!Operation::Updating::fits(data.size(), config_.buffer_bytes)) return Started::invalid;
  return start(Kind::update, record, context, [&](Operation& operation) {
    Operation::Updating(operation).prepare(data, expected);
    find(operation, record.pointer_);
  });
}

Started Client::start_atomic(Kind kind, const Record& record, unsigned word, std::uint64_t value,
                             std::uint64_t swap, std::uint64_t context) {
  const Pointer* pointer = record.pointer_;
  if (word >= kControlWords ||
      (pointer != nullptr && pointer->entry.length < sizeof(RecordHeader))) {
    return Started::invalid;
  }
  return start(kind, record, context, [&](Operation& operation) {
    Operation::ControlWord atomic(operation);
    atomic.prepare(word, value, swap);
    if (pointer == nullptr || !atomic.execute_at(*pointer)) find(operation, pointer);
  });
}

Started Client::fetch_add(const Record& record, unsigned word, std::uint64_t add,
                          std::uint64_t context) {
  return start_atomic(Kind::fetch_add, record, word, add, 0, context);
}

Started Client::compare_swap(const Record& record, unsigned word, std::uint64_t compare,
                             std::uint64_t swap, std::uint64_t context) {
  return start_atomic(Kind::compare_swap, record, word, compare, swap, context);
}

// What a server is asked.

Started Client::request(Kind kind, std::uint16_t server, Key key, const Request& request,
                        std::span<const std::byte> data, std::uint64_t context) {
  if (data.size() > kCreateDataMax) return Started::invalid;
  return start(kind, server, key, context, [&](Operation& operation) {
    Operation::Requesting(operation).begin(request, data);
  });
}

Started Client::create(Key key, std::span<const std::byte> data, const CreateOptions& options,
                       std::uint64_t context) {
  if (key.empty()) return Started::invalid;
  const auto bytes = static_cast<std::uint32_t>(data.size());
  return request(Kind::create, server_of(key), key,
                 {.type = RequestType::create,
                  .slots = static_cast<std::uint8_t>(options.fixed ? 1 : 2),
                  .capacity = std::max(options.capacity, bytes),
                  .control = options.control},
                 data, context);
}

Started Client::erase(Key key, std::uint64_t context) {
  if (key.empty()) return Started::invalid;
  return request(Kind::erase, server_of(key), key, {.type = RequestType::erase}, {}, context);
}

Started Client::lookup(Key key, std::uint64_t context) {
  return start(Kind::lookup, key, context,
               [](Operation& operation) { Operation::Requesting(operation).look_up(); });
}

Started Client::resize(Key key, std::uint32_t capacity, std::uint64_t context) {
  if (key.empty()) return Started::invalid;
  return request(Kind::resize, server_of(key), key,
                 {.type = RequestType::resize, .capacity = capacity}, {}, context);
}

Started Client::allocate_arena(std::uint16_t server, std::uint64_t bytes, std::uint64_t context,
                               std::span<const std::byte> group) {
  return request(Kind::allocate_arena, server, group,
                 {.type = RequestType::allocate_arena, .bytes = bytes}, {}, context);
}

Started Client::adopt(const Pointer& record, Key key, std::uint64_t context) {
  if (key.empty() || !parts_->is_good(record)) return Started::invalid;
  return request(Kind::adopt, record.server, key,
                 {.type = RequestType::adopt,
                  .address = record.entry.address,
                  .incarnation = record.entry.incarnation,
                  .bytes = record.entry.length},
                 {}, context);
}

Started Client::release_arena(const Pointer& arena, std::uint64_t context) {
  if (!parts_->is_good(arena)) return Started::invalid;
  return request(Kind::release_arena, arena.server, {},
                 {.type = RequestType::release_arena, .address = arena.entry.address}, {}, context);
}

Started Client::release_group(std::uint16_t server, std::span<const std::byte> group,
                              std::uint64_t context) {
  if (group.empty()) return Started::invalid;
  return request(Kind::release_group, server, group, {.type = RequestType::release_group}, {},
                 context);
}

Started Client::ask(std::uint16_t server, std::uint8_t code, std::span<const std::byte> name,
                    std::span<const std::byte> data, std::uint64_t value, std::uint64_t context) {
  return request(Kind::ask, server, name,
                 {.type = RequestType::application, .code = code, .value = value}, data, context);
}

// Records in arenas.

Started Client::write_record(const ArenaPlace& place, Key key, std::span<const std::byte> data,
                             const CreateOptions& options, std::uint64_t context) {
  const Entry& arena = place.arena.entry;
  const unsigned slots = options.fixed ? 1 : 2;
  const std::uint32_t capacity =
      std::max(options.capacity, static_cast<std::uint32_t>(data.size()));
  if (key.empty() || key.size() > kKeyMax || capacity > config_.buffer_bytes ||
      place.offset % kRecordAlignment != 0) {
    return Started::invalid;
  }
  const std::uint64_t length = record_bytes(key.size(), capacity, slots);
  if (length > config_.buffer_bytes || place.offset > arena.length ||
      length > arena.length - place.offset || place.number > arena.length / 128) {
    return Started::invalid;
  }
  return start(Kind::write_record, place.arena, context, [&](Operation& operation) {
    const Entry entry{
        .hash = cut_hash(hash_of(key), parts_->links[place.arena.server]->grant().hash_bits),
        .incarnation = arena.incarnation + place.number,
        .address = arena.address + place.offset,
        .length = static_cast<std::uint32_t>(length),
        .rkey = arena.rkey};
    Operation::Writing(operation).write_record({.key = key,
                                                .incarnation = entry.incarnation,
                                                .capacity = capacity,
                                                .slots = slots,
                                                .control = options.control,
                                                .data = data},
                                               entry);
  });
}

Started Client::write_arena(const Pointer& arena, std::uint64_t offset,
                            std::span<const std::byte> data, std::uint64_t context) {
  if (data.empty() || data.size() > config_.buffer_bytes || offset > arena.entry.length ||
      data.size() > arena.entry.length - offset) {
    return Started::invalid;
  }
  return start(Kind::write_arena, arena, context, [&](Operation& operation) {
    Operation::Writing(operation).write(arena.entry, offset, data);
  });
}

// A turn.

bool Client::poll_sends() {
  std::array<roce::Completion, 32> completions;
  const std::size_t count = send_cq_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t wr_id = completions[i].wr_id;
    if (ServerLink::is_renewal(wr_id)) {
      parts_->links[wr_id & 0xffff]->on_renewal(completions[i]);
    } else {
      parts_->operations.at(wr_id >> 8).on_completion(wr_id & 0xff, completions[i].status);
    }
  }
  for (const auto& link : parts_->links) {
    link->end_if_lost();
  }
  return count > 0;
}

bool Client::progress(std::uint64_t now_ns) {
  parts_->now_ns = now_ns;
  bool worked = poll_sends();
  for (const auto& link : parts_->links) {
    worked = link->poll_receives() || worked;
  }
  worked = parts_->operations.run_timers(now_ns, config_.request_timeout_ns) || worked;
  for (const auto& link : parts_->links) {
    worked = link->renew() || worked;
  }
  parts_->pool->progress();
  for (const auto& link : parts_->links) {
    link->drain();
  }
  return worked;
}

std::uint64_t Client::next_deadline_ns() const {
  std::uint64_t next_ns = parts_->operations.next_timer_ns();
  for (const auto& link : parts_->links) {
    next_ns = std::min(next_ns, link->lease().next_deadline_ns());
  }
  return next_ns;
}

// What it tells.

std::size_t Client::in_use() const { return parts_->operations.in_use(); }

const Directory& Client::directory() const { return parts_->directory; }

const ClientCounters& Client::counters() const { return parts_->counters; }

void Client::visit_counters(stack::CounterVisitor visit, void* context) const {
  parts_->counters.visit(visit, context);
}

}  // namespace rockhopper::dag
