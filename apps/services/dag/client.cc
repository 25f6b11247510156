// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Operations, their requests to the transport, and leases.
#include "apps/services/dag/client.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "apps/services/dag/client_area.h"
#include "apps/services/dag/client_state.h"
#include "apps/services/dag/hash.h"
#include "apps/services/dag/record.h"

namespace rockhopper::dag {
namespace {

constexpr std::uint32_t kEntriesMax = 1u << 26;
constexpr std::uint16_t kOperationsMax = 4096;
constexpr std::uint32_t kBufferMin = 4096;
constexpr std::uint32_t kBufferMax = 1u << 30;
constexpr std::uint32_t kDciWr = 256;
/// Of a renewal's completion; the rest is the number's lower bits, and which connection to which
/// server.
constexpr std::uint64_t kRenewalWrId = std::uint64_t{1} << 63;
constexpr unsigned kRenewalNumberShift = 48;
constexpr std::uint64_t kRenewalNumberMask = 0x7fff;

constexpr std::size_t kRequestRoom = whole_lines(kRequestMax);
constexpr std::size_t kResultRoom = 64;
static_assert(kAtomicResults * sizeof(std::uint64_t) <= kResultRoom);

std::uint64_t wr_id_of(std::uint32_t operation, unsigned work) {
  return std::uint64_t{operation} << 8 | work;
}

std::uint64_t renewal_wr_id(std::uint16_t server, std::uint32_t connection, std::uint64_t number) {
  return kRenewalWrId | (number & kRenewalNumberMask) << kRenewalNumberShift |
         std::uint64_t{connection} << 16 | server;
}

}  // namespace

Client::Client(roce::Engine& engine, dc::Endpoint& endpoint, Placement placement,
               ClientListener& listener, const ClientConfig& config)
    : engine_(engine),
      endpoint_(endpoint),
      placement_(std::move(placement)),
      listener_(listener),
      config_(config),
      pd_(engine.allocate_pd()),
      directory_(config.entries) {}

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
    for (const auto& link : links_) {
      if (link->peer && &*link->peer == &target) drain(*link);
    }
  };
  ROCKHOPPER_TRY(pool_, dc::DciPool::create(endpoint_,
                                            {.pd = pd_,
                                             .send_cq = send_cq_.get(),
                                             .max_send_wr = kDciWr,
                                             .sq_sig_all = true,
                                             .path_mtu = config_.path_mtu,
                                             .max_rd_atomic = roce::kMaxRdAtomic,
                                             .timeout = config_.timeout,
                                             .retry_cnt = config_.retry_cnt},
                                            {.dcis = config_.dcis}, on_turn));

  const std::size_t stride = kRequestRoom + kResultRoom + whole_lines(config_.buffer_bytes);
  buffers_.resize(stride * config_.operations);
  ROCKHOPPER_TRY(auto region, engine_.register_memory(pd_, buffers_.data(), buffers_.size(),
                                                      roce::kAccessLocalWrite));
  buffers_key_ = region.key;
  operations_ = std::vector<Operation>(config_.operations);
  free_.reserve(config_.operations);
  for (std::uint32_t i = 0; i < config_.operations; ++i) {
    Operation& operation = operations_[i];
    std::byte* bytes = buffers_.data() + stride * i;
    operation.index = i;
    operation.request_bytes = bytes;
    operation.results = reinterpret_cast<std::uint64_t*>(bytes + kRequestRoom);
    operation.buffer = bytes + kRequestRoom + kResultRoom;
    free_.push_back(i);
  }
  for (std::uint16_t i = 0; i < placement_.servers(); ++i) {
    links_.push_back(std::make_unique<Link>());
    links_.back()->server = i;
    ROCKHOPPER_TRY(set_up(*links_.back()));
  }
  return {};
}

Expected<void> Client::set_up(Link& link) {
  ROCKHOPPER_TRY(link.receives,
                 roce::ReceiveBuffers::create(engine_, pd_, 2 * kRequestWords, kResponseBytes));
  ROCKHOPPER_TRY(link.dct, endpoint_.create_dct({.pd = pd_,
                                                 .srq = link.receives->srq(),
                                                 .recv_cq = link.receives->cq(),
                                                 .access_flags = 0,
                                                 .path_mtu = config_.path_mtu}));
  return {};
}

Client::~Client() {
  for (const auto& link : links_) {
    link->to_post.clear();
    link->waiting.clear();
    link->peer.reset();
    if (link->dct != nullptr) endpoint_.destroy_dct(link->dct);
    link->receives.reset();
  }
  pool_.reset();
  for (const auto& link : links_) {
    if (link->ah != nullptr) engine_.destroy_ah(link->ah);
  }
  if (buffers_key_ != roce::MemoryKey{}) {
    static_cast<void>(engine_.deregister_memory(buffers_key_));
  }
  static_cast<void>(engine_.deallocate_pd(pd_));
}

// Connections.

const dc::Dct& Client::target(std::uint16_t server) const { return *links_.at(server)->dct; }

bool Client::connected(std::uint16_t server) const { return links_.at(server)->connected; }

Expected<void> Client::connect(std::uint16_t server, const roce::AddressVector& av,
                               const Grant& grant, std::uint64_t now_ns) {
  if (server >= links_.size()) {
    return fail(ErrorCode::invalid_argument, "there is no server {} of {}", server, links_.size());
  }
  Link& link = *links_[server];
  if (link.connected) return fail(ErrorCode::invalid_state, "server {} is connected", server);
  if (link.operations > 0) {
    return fail(ErrorCode::busy, "server {} has operations of the last connection", server);
  }
  if (grant.client == 0 || grant.hash_bits == 0 || grant.hash_bits > 64 || grant.lease_ns == 0) {
    return fail(ErrorCode::invalid_argument, "the grant of server {} is none", server);
  }
  link.peer.reset();
  if (link.ah != nullptr) engine_.destroy_ah(link.ah);
  link.ah = nullptr;
  ROCKHOPPER_TRY(link.ah, engine_.create_ah(pd_, av));
  link.peer.emplace(*link.ah, grant.target, grant.access_key);
  link.grant = grant;
  link.slots = {};
  link.next_id = 1;
  // So many more than there have been that nothing which was known in the last connection holds.
  link.earlier_renewals += link.renewals + kGraceRenewals;
  link.holds = {};
  link.renewals = link.renewals_complete = 0;
  link.next_renewal_ns = 0;
  link.lease_ends_ns = now_ns + grant.lease_ns;
  link.connected = true;
  now_ns_ = now_ns;
  ++link.connection;
  // Their rkey is not ours any more.
  directory_.erase_all(server);
  return {};
}

bool Client::is_good(const Pointer& pointer) const {
  if (pointer.server >= links_.size()) return false;
  const Grant& grant = links_[pointer.server]->grant;
  const Entry& entry = pointer.entry;
  return entry.rkey == grant.records_key && entry.address % 8 == 0 && entry.length > 0 &&
         entry.address <= grant.records_bytes &&
         entry.length <= grant.records_bytes - entry.address;
}

void Client::remember(const Pointer& pointer) {
  if (!is_good(own(pointer)) || pointer.entry.incarnation == 0) return;
  if (directory_.insert(pointer.server, own(pointer).entry)) counters_.evictions.add();
}

Pointer Client::own(const Pointer& pointer) const {
  Pointer result = pointer;
  result.validated = 0;
  if (pointer.server < links_.size()) {
    result.entry.rkey = links_[pointer.server]->grant.records_key;
  }
  return result;
}

// Operations.

Started Client::begin(Kind kind, std::uint16_t server, Key key, std::uint64_t context,
                      Operation** begun) {
  if (server >= links_.size() || key.size() > kKeyMax) return Started::invalid;
  Link& link = *links_[server];
  if (!link.connected) return Started::unreachable;
  if (free_.empty()) return Started::no_room;
  Operation& operation = operations_[free_.back()];
  free_.pop_back();
  ++in_use_;
  ++link.operations;
  counters_.operations.add();
  operation.active = true;
  operation.kind = kind;
  operation.server = server;
  operation.context = context;
  std::copy(key.begin(), key.end(), operation.key_bytes.begin());
  operation.key_length = static_cast<std::uint16_t>(key.size());
  operation.hash = key.empty() ? 0 : cut_hash(hash_of(key), link.grant.hash_bits);
  clear_work(operation);
  operation.failed = false;
  operation.candidate_count = operation.first = 0;
  operation.looked_up = false;
  operation.lookups = 0;
  operation.tries = 0;
  operation.pinned = false;
  operation.told = false;
  operation.data_length = 0;
  operation.entry = {};
  operation.expected.reset();
  operation.lock = 0;
  operation.backoff = 0;
  operation.give_up_ns = 0;
  operation.request = {};
  operation.request_id = 0;
  operation.response.reset();
  operation.taken = false;
  operation.timer_ns = UINT64_MAX;
  *begun = &operation;
  return Started::yes;
}

void Client::clear_work(Operation& operation) {
  assert(operation.outstanding == 0 && !operation.hook.is_linked());
  operation.work_count = operation.posted = 0;
}

Client::Work& Client::add_work(Operation& operation) {
  assert(operation.work_count < operation.works.size());
  Work& work = operation.works[operation.work_count++];
  work = {};
  return work;
}

void Client::add_read(Operation& operation, const Entry& entry, std::uint32_t length,
                      std::byte* to) {
  Work& work = add_work(operation);
  work.local = to;
  work.length = length;
  work.remote = entry.address;
  work.rkey = entry.rkey;
}

void Client::add_compare_swap(Operation& operation, unsigned which, std::uint64_t address,
                              roce::MemoryKey rkey, std::uint64_t compare, std::uint64_t swap) {
  Work& work = add_work(operation);
  work.opcode = roce::WrOpcode::atomic_cmp_and_swp;
  work.local = reinterpret_cast<std::byte*>(operation.results + which);
  work.length = sizeof(std::uint64_t);
  work.remote = address;
  work.rkey = rkey;
  work.compare_add = compare;
  work.swap = swap;
}

void Client::submit(Operation& operation) {
  Link& link = link_of(operation);
  if (!link.connected) operation.failed = true;
  if (operation.failed) {
    operation.posted = operation.work_count;
    if (operation.outstanding == 0) sleep_until(operation, now_ns_);
    return;
  }
  link.to_post.push_back(operation);
  drain(link);
}

void Client::drain(Link& link) {
  while (!link.to_post.empty()) {
    Operation& operation = link.to_post.front();
    while (operation.posted < operation.work_count) {
      const Work& work = operation.works[operation.posted];
      const roce::Sge sge{reinterpret_cast<std::uintptr_t>(work.local), work.length, buffers_key_};
      const auto posted =
          pool_->post_send(*link.peer, {.wr_id = wr_id_of(operation.index, operation.posted),
                                        .sg_list = {&sge, 1},
                                        .opcode = work.opcode,
                                        .send_flags = roce::kSendSignaled,
                                        .remote_addr = work.remote,
                                        .rkey = work.rkey,
                                        .compare_add = work.compare_add,
                                        .swap = work.swap});
      if (posted != roce::PostResult::ok) return;  // there will be room, or it is gone
      ++operation.posted;
      ++operation.outstanding;
      switch (work.opcode) {
        case roce::WrOpcode::rdma_read:
          counters_.reads.add();
          break;
        case roce::WrOpcode::rdma_write:
          counters_.writes.add();
          break;
        case roce::WrOpcode::send:
          counters_.requests.add();
          break;
        default:
          counters_.atomics.add();
          break;
      }
    }
    link.to_post.pop_front();
  }
}

/// By our clock it ends no later than by the server's. Who may have been fenced by one server must
/// not go on at others as if he were not.
void Client::check_leases() {
  for (const auto& link : links_) {
    if (!link->connected || now_ns_ < link->lease_ends_ns) continue;
    counters_.leases_ended.add();
    link->lost = true;
  }
}

bool Client::poll_sends() {
  std::array<roce::Completion, 32> completions;
  const std::size_t count = send_cq_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) on_completion(completions[i]);
  check_leases();
  for (const auto& link : links_) {
    if (link->lost) lose(*link);
  }
  return count > 0;
}

void Client::on_completion(const roce::Completion& completion) {
  const bool failed = completion.status != roce::WcStatus::success &&
                      completion.status != roce::WcStatus::outcome_unknown;
  if ((completion.wr_id & kRenewalWrId) != 0) {
    Link& link = *links_[completion.wr_id & 0xffff];
    const std::uint64_t number = completion.wr_id >> kRenewalNumberShift & kRenewalNumberMask;
    if (completion.wr_id != renewal_wr_id(link.server, link.connection, number)) return;
    if (failed) link.lost = link.connected;
    if (completion.status == roce::WcStatus::success) {
      const std::uint64_t since = (link.renewals - number) & kRenewalNumberMask;
      link.renewals_complete = link.renewals - since;
      if (since < kRenewals) {
        link.lease_ends_ns =
            link.renewed_ns[link.renewals_complete % kRenewals] + link.grant.lease_ns;
      }
    }
    return;
  }
  Operation& operation = operations_[completion.wr_id >> 8];
  assert(operation.active && operation.outstanding > 0);
  operation.works[completion.wr_id & 0xff].status = completion.status;
  --operation.outstanding;
  if (completion.status == roce::WcStatus::outcome_unknown) counters_.outcomes_unknown.add();
  if (failed) {
    operation.failed = true;
    link_of(operation).lost = link_of(operation).connected;
  }
  if (operation.outstanding == 0 && !operation.hook.is_linked()) advance(operation);
}

void Client::advance(Operation& operation) {
  switch (operation.stage) {
    case Stage::reading:
      return on_read(operation);
    case Stage::atomic:
      return on_atomic(operation);
    case Stage::locking:
      return on_locked(operation);
    case Stage::swinging:
      return on_swung(operation);
    case Stage::unlocking:
      return on_unlocked(operation);
    case Stage::writing:
      return on_written(operation);
    case Stage::requesting:
      return on_request(operation);
    case Stage::canceling:
      return on_cancel(operation);
    case Stage::waiting:
    case Stage::sleeping:
      return;
  }
}

void Client::tell(Operation& operation, Result& result) {
  result.context = operation.context;
  result.kind = operation.kind;
  if (result.status == Status::ok && operation.has_place()) {
    result.pointer = {
        .server = operation.server, .entry = operation.entry, .validated = operation.pin + 1};
  }
  listener_.on_result(result);
}

void Client::finish(Operation& operation, Status status) {
  finish(operation, Result{.status = status});
}

void Client::finish(Operation& operation, Result result) {
  assert(operation.outstanding == 0 && !operation.hook.is_linked());
  if (!operation.told) tell(operation, result);
  operation.active = false;
  operation.timer_ns = UINT64_MAX;
  --link_of(operation).operations;
  free_.push_back(operation.index);
  --in_use_;
}

void Client::sleep_until(Operation& operation, std::uint64_t when_ns) {
  operation.timer_ns = when_ns;
  next_timer_ns_ = std::min(next_timer_ns_, when_ns);
}

bool Client::run_timers() {
  if (now_ns_ < next_timer_ns_) return false;
  next_timer_ns_ = UINT64_MAX;
  for (Operation& operation : operations_) {
    if (!operation.active || operation.timer_ns == UINT64_MAX) continue;
    if (operation.timer_ns == kNextTurn) {
      operation.timer_ns = now_ns_ + config_.request_timeout_ns;
    }
    if (operation.timer_ns > now_ns_) {
      next_timer_ns_ = std::min(next_timer_ns_, operation.timer_ns);
      continue;
    }
    operation.timer_ns = UINT64_MAX;
    switch (operation.stage) {
      case Stage::waiting:
      case Stage::requesting:
        on_request_timeout(operation);
        break;
      case Stage::sleeping:
        read_candidates(operation);
        break;
      default:
        // Its link had gone when it was to be posted.
        if (operation.outstanding == 0) advance(operation);
        break;
    }
  }
  return true;
}

/// Everything that it had ends.
void Client::lose(Link& link) {
  link.lost = false;
  if (!link.connected) return;
  link.connected = false;
  counters_.servers_lost.add();
  const auto fail_front = [this](Link::List& list) {
    Operation& operation = list.front();
    list.pop_front();
    operation.failed = true;
    operation.posted = operation.work_count;
    // Not from within the list.
    if (operation.outstanding == 0) sleep_until(operation, now_ns_);
  };
  while (!link.to_post.empty()) fail_front(link.to_post);
  while (!link.waiting.empty()) fail_front(link.waiting);
  for (Operation& operation : operations_) {
    if (!operation.active || operation.server != link.server || operation.outstanding > 0) continue;
    operation.failed = true;
    sleep_until(operation, now_ns_);
  }
  listener_.on_server_lost(link.server);
}

// Leases.

std::uint64_t Client::renewals(std::uint16_t server) const {
  const Link& link = *links_.at(server);
  return link.earlier_renewals + link.renewals_complete;
}

bool Client::hold(std::uint16_t server, std::uint64_t since) {
  if (server >= links_.size()) return false;
  Link& link = *links_[server];
  if (!link.connected || !is_recent(link, since)) return false;
  // What was known before the last renewal holds up the next one: not again and again.
  if (since < link.posted_renewals() && link.held_up) return false;
  ++link.holds[since % link.holds.size()];
  return true;
}

void Client::unhold(std::uint16_t server, std::uint64_t since) {
  if (server >= links_.size()) return;
  Link& link = *links_[server];
  std::uint32_t& holds = link.holds[since % link.holds.size()];
  if (!link.connected || !is_recent(link, since) || holds == 0) return;
  // A renewal that waits for it is due.
  if (--holds == 0) link.held_up = false;
}

/// As long as something is held the lease is renewed once at most: there are two counts to hold.
bool Client::is_recent(const Link& link, std::uint64_t since) {
  return since <= link.posted_renewals() && link.posted_renewals() - since < kGraceRenewals;
}

bool Client::may_renew(const Link& link) const {
  if (link.holds[(link.posted_renewals() - 1) % link.holds.size()] > 0) return false;
  return std::none_of(operations_.begin(), operations_.end(), [&](const Operation& operation) {
    return operation.active && operation.pinned && operation.server == link.server &&
           operation.pin < link.renewals;
  });
}

bool Client::renew_leases() {
  bool renewed = false;
  for (const auto& link : links_) {
    if (!link->connected || now_ns_ < link->next_renewal_ns) continue;
    if (!may_renew(*link)) {
      if (!link->held_up) counters_.renewals_held_up.add();
      link->held_up = true;
      continue;
    }
    const std::uint64_t count = link->renewals + 1;
    const roce::Sge sge{reinterpret_cast<std::uintptr_t>(&count), sizeof count, {}};
    const auto posted = pool_->post_send(
        *link->peer, {.wr_id = renewal_wr_id(link->server, link->connection, count),
                      .sg_list = {&sge, 1},
                      .opcode = roce::WrOpcode::rdma_write,
                      .send_flags = roce::kSendInline | roce::kSendSignaled,
                      .remote_addr = offsetof(ClientArea, renewals),
                      .rkey = link->grant.area_key});
    if (posted != roce::PostResult::ok) continue;
    link->renewals = count;
    link->renewed_ns[count % kRenewals] = now_ns_;
    link->held_up = false;
    link->next_renewal_ns = now_ns_ + link->grant.lease_ns / kRenewals;
    counters_.renewals.add();
    renewed = true;
  }
  return renewed;
}

// A turn.

bool Client::progress(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  bool worked = poll_sends();
  for (const auto& link : links_) worked = poll_receives(*link) || worked;
  worked = run_timers() || worked;
  worked = renew_leases() || worked;
  pool_->progress();
  for (const auto& link : links_) {
    if (!link->to_post.empty()) drain(*link);
  }
  return worked;
}

std::uint64_t Client::next_deadline_ns() const {
  std::uint64_t next_ns = next_timer_ns_;
  for (const auto& link : links_) {
    if (!link->connected) continue;
    next_ns = std::min(next_ns, link->lease_ends_ns);
    if (!link->held_up) next_ns = std::min(next_ns, link->next_renewal_ns);
  }
  return next_ns;
}

void Client::visit_counters(void (*visit)(void*, const char*, std::uint64_t), void* context) const {
#define X(name, text) visit(context, #name, counters_.name.value());
  ROCKHOPPER_DAG_CLIENT_COUNTERS(X)
#undef X
}

void Client::describe_counters(void (*visit)(void*, const char*, const char*), void* context) {
#define X(name, text) visit(context, #name, text);
  ROCKHOPPER_DAG_CLIENT_COUNTERS(X)
#undef X
}

}  // namespace rockhopper::dag
