// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/lock_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dc/endpoint.h"
#include "roce/lock/local_lock.h"
#include "roce/lock/scope_builder.h"
#include "tests/sim/rng.h"
#include "tests/sim/scope_history.h"

namespace rockhopper::sim {
namespace {

using roce::PostResult;
using roce::WcStatus;
using roce::WrOpcode;
using roce::lock::LocalLock;
using roce::lock::LockWord;
using roce::lock::Mode;
using roce::lock::ScopeBuilder;
using roce::lock::ScopeResult;
using wire::LockCause;

constexpr std::size_t kValues = 16;
constexpr std::size_t kAdds = 4;
constexpr std::uint64_t kBalance = 1'000'000;
constexpr std::uint32_t kMaxSteps = 2'000'000;
/// More than any packet needs for its way.
constexpr std::uint64_t kUnderWayNs = 2'000'000;
constexpr std::uint64_t kRestLimitNs = 60'000'000'000;
/// The application's own bits of the foreign word, which no lock may disturb (LK-14).
constexpr std::uint64_t kFlags = 0xffffffff00000000;
/// Of a record, for scopes of any READs and WRITEs.
constexpr std::uint32_t kAreaBytes = 96 * 1024;
constexpr std::uint32_t kMaxAccessBytes = 64 * 1024;  ///< and of all READs of a scope
constexpr std::uint32_t kMaxMixed = 32;               ///< accesses of such a scope

/// At the target. Under the lock of `word`.
struct Record {
  std::uint64_t word;
  std::uint64_t token;                        ///< of the last local writer
  std::array<std::uint64_t, kValues> values;  ///< equal
  std::array<std::uint64_t, kValues> counts;  ///< equal: holders that have read and written them
  std::array<std::uint64_t, kAdds> adds;      ///< equal, and as many as scopes that add
  std::uint64_t balance;                      ///< the sum over all records is always the same
  std::uint64_t foreign;                      ///< a lock in its low byte, flags in its upper half
  std::uint64_t whole;                        ///< a lock that has the word for itself
};

/// What an initiator reads.
struct Seen {
  std::uint64_t token;
  std::array<std::uint64_t, kValues> values;
  std::array<std::uint64_t, kValues> counts;
  std::array<std::uint64_t, kAdds> adds;
  std::uint64_t balance;
};

enum class Kind : std::uint8_t { read, write, add, transfer, foreign, mixed, plain };
/// `hasty`: acquire and release by themselves, posted together.
enum class Phase : std::uint8_t { idle, scope, acquiring, reading, releasing, hasty };

/// A foreign lock command: what takes the word, and what frees it (LK-14).
struct ForeignCommand {
  Mode mode;
  bool whole;  ///< on a word that has no flags
  wire::LockOperation acquire, release;
};
constexpr std::array kForeignCommands = {
    ForeignCommand{Mode::foreign_swap, true, {0, ~0ull, 1, ~0ull}, {1, ~0ull, 0, ~0ull}},
    ForeignCommand{Mode::foreign_swap, false, {0, 0xff, 1, 0xff}, {1, 0xff, 0, 0xff}},
    ForeignCommand{
        Mode::foreign_add, true, {0, ~0ull, 1, 1ull << 63}, {1, ~0ull, ~0ull, 1ull << 63}},
    // Of the field of the low byte, whose highest bit is bit 7: 1, and 1 less.
    ForeignCommand{Mode::foreign_add, false, {0, 0xff, 1, 0x80}, {1, 0xff, 0xff, 0x80}}};

/// Who knows that he holds the lock of a record: threads of the target, and initiators between the
/// answer to their acquire and their release (LK-13).
struct Holders {
  unsigned readers = 0;
  unsigned writers = 0;
};

/// A record's word as it was seen last.
struct SeenWord {
  std::uint64_t value = 0;
  std::uint64_t since_ns = 0;  ///< when it came to its generation and state
};

struct Initiator {
  roce::QueuePair* qp = nullptr;  ///< or
  dc::Dci* dci = nullptr;
  std::uint32_t left = 0;  ///< scopes to do
  Kind kind = Kind::read;
  Phase phase = Phase::idle;
  unsigned record = 0;
  unsigned other = 0;
  std::uint16_t tries = wire::Lketh::kTriesUnlimited;
  bool waits_for_ever = false;
  bool shared = false;
  bool increments = false;  ///< plain: writes what it has read, and 1 more
  bool failed = false;      ///< hasty: the acquire has
  bool known = false;       ///< counted in Holders
  bool cancels = false;
  std::uint32_t cancels_pending = 0;
  std::uint64_t cancel_ns = 0;
  ScopeResult result;
  std::array<WcStatus, kMaxMixed> accesses{};
  // Local memory of the requests.
  Seen seen{};
  Seen seen_other{};
  std::array<std::uint64_t, kValues> values{};
  std::array<std::uint64_t, kAdds> found{};
  std::optional<ScopeBuilder> scope;
  ScopeHistory::Scope history;     ///< of a mixed scope
  std::uint8_t* buffer = nullptr;  ///< for it: what is read, then what is written
};

/// A thread of the target. Writes one half of a record when it takes the lock, the other when it
/// gives it back.
struct Thread {
  std::optional<LocalLock> lock;
  unsigned record = 0;
  bool writes = false;
  std::uint64_t value = 0;
  std::array<std::uint64_t, kValues> counts{};
  std::uint64_t next_ns = 0;  ///< when it does something
};

class LockRun {
 public:
  LockRun(std::uint64_t seed, const LockProfile& profile, PoolSet& pools)
      : rng_(seed), profile_(profile), network_(draw_network(seed, pools)) {}
  std::string run(LockTotals& totals);

 private:
  [[nodiscard]] NetworkConfig draw_network(std::uint64_t seed, PoolSet& pools);
  void set_up();
  void connect(Initiator& initiator);
  void make_endpoints();
  void make_dci(Initiator& initiator);
  [[nodiscard]] PostResult post(Initiator& initiator, roce::SendWr& wr);
  [[nodiscard]] PostResult post(Initiator& initiator, ScopeBuilder& scope);
  [[nodiscard]] bool drive();
  [[nodiscard]] bool drive(Thread& thread);
  [[nodiscard]] bool take(Thread& thread);
  void give_back(Thread& thread);
  [[nodiscard]] std::uint64_t next_event_ns() const;
  void watch(std::size_t record);
  void enter(unsigned record, bool shared);
  void leave(unsigned record, bool shared);
  void note_token(unsigned record, std::uint64_t token);
  void on_vanished();
  void begin(Initiator& initiator);
  void begin_plain(Initiator& initiator, std::uint32_t wait_us);
  void add_accesses(Initiator& initiator, ScopeBuilder& scope);
  [[nodiscard]] bool add_mixed(Initiator& initiator, ScopeBuilder& scope);
  void post_plain(Initiator& initiator, WrOpcode opcode, std::uint32_t wait_us = 0);
  void post_access(Initiator& initiator, WrOpcode opcode, const roce::Sge& local,
                   std::uint64_t address, std::uint32_t flags);
  void on_plain_read(Initiator& initiator);
  [[nodiscard]] bool poll_completions();
  void on_completion(const roce::Completion& completion);
  void on_hasty(Initiator& initiator, const roce::Completion& completion);
  void on_end(Initiator& initiator, WcStatus status);
  void check_granted(Initiator& initiator);
  void note_mixed(Initiator& initiator);
  void check_failed(const Initiator& initiator, WcStatus status);
  void check_seen(const Seen& seen, std::uint64_t token);
  void check_end(LockTotals& totals);
  [[nodiscard]] bool finished() const;
  [[nodiscard]] bool leases_are_short() const { return profile_.lease_us < 1'000'000; }
  [[nodiscard]] std::uint64_t lease_ns() const { return profile_.lease_us * std::uint64_t{1000}; }

  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }
  template <typename T>
  [[nodiscard]] roce::Sge local(T& memory, std::uint32_t length = sizeof(T)) const {
    return {reinterpret_cast<std::uintptr_t>(&memory), length, initiator_key_};
  }
  template <typename T>
  [[nodiscard]] static std::uint64_t address(const T& memory) {
    return reinterpret_cast<std::uintptr_t>(&memory);
  }
  [[nodiscard]] roce::lock::Word word_of(unsigned record) const {
    return {.addr = address(records_[record].word), .rkey = target_key_};
  }

  Rng rng_;
  const LockProfile& profile_;
  std::vector<Record> records_;
  std::vector<std::uint8_t> areas_;           ///< one for each record
  std::vector<std::uint8_t> buffers_;         ///< one for each initiator
  std::optional<roce::lock::Region> region_;  ///< outlives those who serve it
  SimNetwork network_;
  roce::PathMtu mtu_ = roce::PathMtu::mtu_1024;
  std::array<roce::ProtectionDomain, 2> pds_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  roce::SharedReceiveQueue* srq_ = nullptr;
  roce::AddressHandle* ah_ = nullptr;
  std::array<std::unique_ptr<dc::Endpoint>, 2> endpoints_;
  dc::Dct* dct_ = nullptr;
  std::vector<Initiator> initiators_;
  roce::MemoryKey initiator_key_{}, buffer_key_{}, target_key_{}, area_key_{};
  std::vector<Thread> threads_;

  // Of each record.
  std::vector<std::uint64_t> adds_;    ///< scopes that added
  std::vector<std::uint64_t> counts_;  ///< holders that counted
  std::vector<std::uint64_t> flags_;
  std::vector<std::uint64_t> last_tokens_;  ///< the greatest that is known
  std::vector<Holders> holders_;
  std::vector<SeenWord> words_;
  std::vector<ScopeHistory> histories_;

  std::set<std::uint64_t> tokens_;
  std::uint64_t cut_at_ = UINT64_MAX;  ///< packet of the initiators
  std::uint64_t vanished_ns_ = 0;      ///< 0: they have not
  LockTotals counted_;
  std::string error_;
};

NetworkConfig LockRun::draw_network(std::uint64_t seed, PoolSet& pools) {
  NetworkConfig config{.seed = seed, .pools = &pools, .faults = profile_.faults};
  config.ipv6 = rng_.chance(40);
  config.segment_arrivals = rng_.chance(25);
  config.delay_ns = rng_.pick<std::uint64_t>({300, 2'000, 20'000});
  config.capture_prefix = wanted_captures(seed);
  return config;
}

void LockRun::set_up() {
  mtu_ = rng_.pick({roce::PathMtu::mtu_256, roce::PathMtu::mtu_1024, roce::PathMtu::mtu_4096});
  records_.resize(rng_.between32(2, 4));
  for (Record& record : records_) {
    record = {};
    record.balance = kBalance;
    record.foreign = rng_.next() & kFlags;
    flags_.push_back(record.foreign);
  }
  adds_.resize(records_.size());
  counts_.resize(records_.size());
  last_tokens_.resize(records_.size());
  holders_.resize(records_.size());
  words_.resize(records_.size());
  histories_.resize(records_.size());
  threads_ = std::vector<Thread>(profile_.threads);
  initiators_.resize(profile_.initiators);
  cq_ = must(roce::CompletionQueue::create(1024));
  for (unsigned node = 0; node < 2; ++node) {
    pds_[node] = network_.node(node).engine().allocate_pd();
  }
  initiator_key_ = must(network_.node(0).engine().register_memory(
                            pds_[0], initiators_.data(), initiators_.size() * sizeof(Initiator),
                            roce::kAccessAll))
                       .key;
  if (profile_.mixed) {
    areas_.resize(records_.size() * kAreaBytes);
    buffers_.resize(initiators_.size() * 2 * kMaxAccessBytes);
    area_key_ = must(network_.node(1).engine().register_memory(pds_[1], areas_.data(),
                                                               areas_.size(), roce::kAccessAll))
                    .key;
    buffer_key_ = must(network_.node(0).engine().register_memory(pds_[0], buffers_.data(),
                                                                 buffers_.size(), roce::kAccessAll))
                      .key;
    for (std::size_t i = 0; i < initiators_.size(); ++i) {
      initiators_[i].buffer = &buffers_[i * 2 * kMaxAccessBytes];
    }
  }
  const std::size_t bytes = records_.size() * sizeof(Record);
  roce::Engine& target = network_.node(1).engine();
  target_key_ = must(target.register_memory(pds_[1], records_.data(), bytes, roce::kAccessAll)).key;
  region_.emplace(records_.data(), bytes,
                  roce::lock::Region::Config{.first_token = rng_.between(1, 1000),
                                             .lease_us = profile_.lease_us,
                                             .max_lease_us = profile_.lease_us,
                                             .retry_us = rng_.pick<std::uint32_t>({5, 50, 500})});
  target.attach_locks(*region_);
  if (profile_.vanishing) {
    cut_at_ = rng_.between(1, 1 + std::uint64_t{profile_.initiators} * profile_.scopes * 4);
    network_.node(0).cut_from(cut_at_);
  }
  for (Initiator& initiator : initiators_) {
    initiator.left = profile_.scopes;
    if (profile_.dynamic_connections) {
      make_dci(initiator);
    } else {
      connect(initiator);
    }
  }
}

void LockRun::make_endpoints() {
  for (unsigned node = 0; node < 2; ++node) {
    dc::EndpointConfig config;
    config.sessions.contexts = node == 0 ? 1 : 2 * profile_.initiators;
    config.lock_execution = true;
    endpoints_[node] = must(dc::Endpoint::create(network_.node(node).engine(), config));
  }
  roce::Engine& target = network_.node(1).engine();
  srq_ = must(target.create_srq({.pd = pds_[1], .attributes = {.max_wr = 1}}));
  dct_ = must(endpoints_[1]->create_dct({.pd = pds_[1],
                                         .srq = srq_,
                                         .recv_cq = cq_.get(),
                                         .access_flags = roce::kAccessAll,
                                         .path_mtu = mtu_,
                                         .min_rnr_timer = 1}));
  ah_ = must(network_.node(0).engine().create_ah(
      pds_[0], {.source = network_.node(0).address(), .destination = network_.node(1).address()}));
}

void LockRun::make_dci(Initiator& initiator) {
  if (dct_ == nullptr) make_endpoints();
  initiator.dci = must(endpoints_[0]->create_dci(
      {.pd = pds_[0],
       .send_cq = cq_.get(),
       .lock_execution = true,
       .handshake = rng_.pick({dc::Handshake::half, dc::Handshake::full}),
       .path_mtu = mtu_,
       .max_rd_atomic = static_cast<std::uint8_t>(rng_.between(kAdds + 4, 16)),
       .timeout = 9}));
}

PostResult LockRun::post(Initiator& initiator, roce::SendWr& wr) {
  if (initiator.qp != nullptr) return initiator.qp->post_send(wr);
  wr.ah = ah_;
  wr.remote_qpn = dct_->number();
  wr.dc_access_key = dct_->access_key();
  return initiator.dci->post_send(wr);
}

PostResult LockRun::post(Initiator& initiator, ScopeBuilder& scope) {
  const auto wr_id = static_cast<std::uint64_t>(&initiator - initiators_.data());
  if (initiator.qp != nullptr) return scope.post(*initiator.qp, wr_id, &initiator.result);
  const dc::DciInit& init = initiator.dci->init();
  return scope.post([&](roce::SendWr& wr) { return post(initiator, wr); },
                    {.path_mtu = bytes(init.path_mtu),
                     .max_rd_atomic = init.max_rd_atomic,
                     .room = init.max_send_wr,  // nothing else is posted
                     .max_sge = init.max_send_sge},
                    wr_id, &initiator.result);
}

void LockRun::connect(Initiator& initiator) {
  std::array<roce::QueuePair*, 2> qps{};
  for (unsigned node = 0; node < 2; ++node) {
    roce::QpInit init;
    init.pd = pds_[node];
    init.send_cq = init.recv_cq = cq_.get();
    init.lock_execution = true;
    qps[node] = must(network_.node(node).engine().create_qp(init));
    if (profile_.selective_repeat) {
      must(qps[node]->set_loss_recovery({.algorithm = roce::RecoveryAlgorithm::selective_repeat}));
    }
  }
  const auto resources = static_cast<std::uint8_t>(rng_.between(kAdds + 4, 16));
  std::array<wire::Psn, 2> psns{};
  for (wire::Psn& psn : psns) {
    psn = wire::Psn{rng_.chance(20) ? rng_.between32(0xffffc0, 0xffffff)
                                    : rng_.between32(0, 0xffffff)};
  }
  roce::QpAttributes attributes;
  attributes.path_mtu = mtu_;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = resources;
  attributes.min_rnr_timer = 1;  // 10 us
  attributes.timeout = 9;        // 2 ms
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  network_.connect(qps, attributes, psns);
  initiator.qp = qps[0];
}

void LockRun::begin(Initiator& initiator) {
  --initiator.left;
  // What needs all of its accesses is not for those whose lock may end in between.
  if (profile_.mixed) {
    initiator.kind = Kind::mixed;
  } else if (leases_are_short()) {
    initiator.kind = rng_.pick({Kind::read, Kind::write, Kind::plain});
  } else {
    initiator.kind = rng_.pick({Kind::read, Kind::write, Kind::add, Kind::transfer, Kind::foreign,
                                Kind::plain, Kind::plain});
  }
  initiator.record = rng_.between32(0, static_cast<std::uint32_t>(records_.size()) - 1);
  initiator.other =
      (initiator.record + rng_.between32(1, static_cast<std::uint32_t>(records_.size()) - 1)) %
      static_cast<unsigned>(records_.size());
  initiator.tries = wire::Lketh::kTriesUnlimited;
  std::uint32_t wait_us = wire::Lketh::kWaitUnlimited;
  if (profile_.short_limits && rng_.chance(50)) {
    initiator.tries = static_cast<std::uint16_t>(rng_.between(0, 20));
  }
  if (profile_.short_limits && rng_.chance(30)) wait_us = rng_.between32(0, 2000);
  initiator.waits_for_ever = wait_us == wire::Lketh::kWaitUnlimited;
  initiator.result = {};
  initiator.result.accesses = initiator.accesses;
  initiator.accesses.fill(WcStatus::general_err);
  std::memset(&initiator.seen, 0xee, sizeof initiator.seen);
  initiator.found.fill(UINT64_MAX);
  ++counted_.scopes;
  initiator.shared = (initiator.kind == Kind::read && rng_.chance(70)) ||
                     (initiator.kind == Kind::mixed && rng_.chance(25)) ||
                     (initiator.kind == Kind::plain && rng_.chance(40));
  if (initiator.kind == Kind::plain) {
    begin_plain(initiator, wait_us);
    return;
  }
  roce::lock::Word word = word_of(initiator.record);
  word.shared = initiator.shared;
  if (initiator.kind == Kind::foreign) {
    const ForeignCommand& command = kForeignCommands[rng_.between(0, kForeignCommands.size() - 1)];
    const Record& record = records_[initiator.record];
    word.addr = command.whole ? address(record.whole) : address(record.foreign);
    initiator.scope.emplace(word, command.mode, command.acquire, command.release);
  } else {
    initiator.scope.emplace(word);
  }
  ScopeBuilder& scope = *initiator.scope;
  scope.tries(initiator.tries)
      .wait_us(wait_us)
      .fifo(rng_.chance(70))
      .owner(static_cast<std::uint16_t>(1 + (&initiator - initiators_.data())));
  // A scope that is told to come again leaves no mark at the target; now and then.
  scope.resend(rng_.chance(15));
  scope.forward(rng_.pick({ScopeBuilder::Forward::automatic, ScopeBuilder::Forward::automatic,
                           ScopeBuilder::Forward::cut_through}));
  add_accesses(initiator, scope);
  if (post(initiator, scope) != PostResult::ok) fail("a scope was refused");
  initiator.phase = Phase::scope;
}

void LockRun::begin_plain(Initiator& initiator, std::uint32_t wait_us) {
  initiator.increments = !initiator.shared && !leases_are_short();
  initiator.failed = false;
  post_plain(initiator, WrOpcode::lock_acquire, wait_us);
  if (rng_.chance(20)) {
    post_plain(initiator, WrOpcode::lock_release);
    initiator.phase = Phase::hasty;
    return;
  }
  initiator.phase = Phase::acquiring;
  initiator.cancels = initiator.waits_for_ever && rng_.chance(30);
  initiator.cancel_ns = network_.now_ns() + rng_.between(0, 100'000);
}

/// LK-12: 1 to 32 READs and WRITEs of 1 byte to 64 KiB, most of them short, that overlap.
bool LockRun::add_mixed(Initiator& initiator, ScopeBuilder& scope) {
  std::uint32_t to_read = kMaxAccessBytes;
  std::uint32_t to_write = kMaxAccessBytes;
  initiator.history = {};
  bool fits = true;
  for (std::uint32_t left = rng_.between32(1, kMaxMixed); left > 0; --left) {
    const bool writes = !initiator.shared && rng_.chance(50);
    std::uint32_t& room = writes ? to_write : to_read;
    if (room == 0) continue;
    const std::uint32_t most = std::min(room, 1u << rng_.between(0, 16));
    const std::uint32_t length = rng_.between32(1, most);
    const std::uint32_t offset = rng_.between32(0, kAreaBytes - length);
    const roce::Sge sge{reinterpret_cast<std::uintptr_t>(initiator.buffer) +
                            (writes ? 2 * kMaxAccessBytes : kMaxAccessBytes) - room,
                        length, buffer_key_};
    ScopeHistory::Access access{.writes = writes, .offset = offset};
    access.bytes.resize(length);
    auto* bytes = reinterpret_cast<std::uint8_t*>(sge.addr);
    if (writes) {
      rng_.fill({bytes, length});
      std::copy_n(bytes, length, access.bytes.begin());
    } else {
      std::fill_n(bytes, length, std::uint8_t{0xee});
    }
    room -= length;
    initiator.history.accesses.push_back(std::move(access));
    const std::uint64_t remote =
        reinterpret_cast<std::uintptr_t>(&areas_[initiator.record * kAreaBytes + offset]);
    fits =
        fits && (writes ? scope.write(sge, remote, area_key_) : scope.read(sge, remote, area_key_));
  }
  return fits;
}

void LockRun::add_accesses(Initiator& initiator, ScopeBuilder& scope) {
  const Record& record = records_[initiator.record];
  bool fits = true;
  switch (initiator.kind) {
    case Kind::read:
      fits = scope.read(local(initiator.seen), address(record.token), target_key_);
      break;
    case Kind::write:
      initiator.values.fill(rng_.next());
      fits = scope.write(local(initiator.values), address(record.values), target_key_) &&
             scope.read(local(initiator.seen), address(record.token), target_key_);
      break;
    case Kind::add:
      for (std::size_t i = 0; i < kAdds; ++i) {
        const roce::Sge found = local(initiator.found[i]);
        fits = fits && scope.access({.sg_list = {&found, 1},
                                     .opcode = WrOpcode::atomic_fetch_and_add,
                                     .remote_addr = address(record.adds[i]),
                                     .rkey = target_key_,
                                     .compare_add = 1});
      }
      break;
    case Kind::transfer: {
      Record& other = records_[initiator.other];
      const std::uint64_t amount = rng_.between(1, 100);
      const roce::Sge from = local(initiator.found[0]);
      const roce::Sge to = local(initiator.found[1]);
      fits = scope.also(word_of(initiator.other)) &&
             scope.access({.sg_list = {&from, 1},
                           .opcode = WrOpcode::atomic_fetch_and_add,
                           .remote_addr = address(record.balance),
                           .rkey = target_key_,
                           .compare_add = 0 - amount}) &&
             scope.access({.sg_list = {&to, 1},
                           .opcode = WrOpcode::atomic_fetch_and_add,
                           .remote_addr = address(other.balance),
                           .rkey = target_key_,
                           .compare_add = amount}) &&
             scope.read(local(initiator.seen), address(record.token), target_key_) &&
             scope.read(local(initiator.seen_other), address(other.token), target_key_);
      break;
    }
    case Kind::mixed:
      fits = add_mixed(initiator, scope);
      break;
    case Kind::foreign:
    case Kind::plain:
      break;
  }
  if (!fits) fail("a scope has no room");
}

void LockRun::post_plain(Initiator& initiator, WrOpcode opcode, std::uint32_t wait_us) {
  roce::lock::Request request;
  request.mode = initiator.shared ? Mode::shared : Mode::exclusive;
  request.tries = initiator.tries;
  request.wait_us = wait_us;
  request.flags = wire::Lketh::kFifo;
  request.result = &initiator.result;
  roce::SendWr wr;
  wr.wr_id = static_cast<std::uint64_t>(&initiator - initiators_.data());
  wr.opcode = opcode;
  wr.send_flags = roce::kSendSignaled;
  wr.remote_addr = word_of(initiator.record).addr;
  wr.rkey = target_key_;
  wr.lock = &request;
  if (post(initiator, wr) != PostResult::ok) fail("a lock request was refused");
}

void LockRun::post_access(Initiator& initiator, WrOpcode opcode, const roce::Sge& local,
                          std::uint64_t address, std::uint32_t flags) {
  roce::SendWr wr;
  wr.wr_id = static_cast<std::uint64_t>(&initiator - initiators_.data());
  wr.opcode = opcode;
  wr.send_flags = flags;
  wr.sg_list = {&local, 1};
  wr.remote_addr = address;
  wr.rkey = target_key_;
  if (post(initiator, wr) != PostResult::ok) fail("an access was refused");
}

void LockRun::enter(unsigned record, bool shared) {
  Holders& holders = holders_[record];
  if (holders.writers > 0 || (!shared && holders.readers > 0)) {
    fail(fmt::format("{} more of record {}, which {} readers and {} writers hold",
                     shared ? "a reader" : "a writer", record, holders.readers, holders.writers));
  }
  ++(shared ? holders.readers : holders.writers);
  counted_.together += holders.readers > 1 ? 1 : 0;
}

void LockRun::leave(unsigned record, bool shared) {
  --(shared ? holders_[record].readers : holders_[record].writers);
}

/// Of a holder who is known now.
void LockRun::note_token(unsigned record, std::uint64_t token) {
  if (!tokens_.insert(token).second) fail("a fencing token was given twice");
  last_tokens_[record] = std::max(last_tokens_[record], token);
}

bool LockRun::take(Thread& thread) {
  thread.record = rng_.between32(0, static_cast<std::uint32_t>(records_.size()) - 1);
  Record& record = records_[thread.record];
  thread.writes = rng_.chance(60);
  thread.lock.emplace(*region_, &record.word, static_cast<std::uint16_t>(0xfff0));
  if (!(thread.writes ? thread.lock->try_lock() : thread.lock->try_lock_shared())) {
    thread.lock.reset();
    thread.next_ns = network_.now_ns() + 1000;
    return false;
  }
  ++counted_.local;
  enter(thread.record, !thread.writes);
  // Who is known to have held it, has held it before (LK-30).
  if (thread.lock->token() <= last_tokens_[thread.record]) fail("fencing tokens do not increase");
  note_token(thread.record, thread.lock->token());
  thread.counts = record.counts;
  if (thread.writes) {
    thread.value = rng_.next();
    record.token = thread.lock->token();
    std::fill(record.values.begin(), record.values.begin() + kValues / 2, thread.value);
  }
  thread.next_ns = network_.now_ns() + rng_.pick<std::uint64_t>({0, 3'000, 100'000, 1'000'000});
  return true;
}

void LockRun::give_back(Thread& thread) {
  Record& record = records_[thread.record];
  if (thread.writes) {
    std::fill(record.values.begin() + kValues / 2, record.values.end(), thread.value);
    for (std::uint64_t& count : thread.counts) {
      ++count;
    }
    record.counts = thread.counts;
    ++counts_[thread.record];
  } else if (std::ranges::count(record.values, record.values[0]) != kValues ||
             record.counts != thread.counts) {
    fail("a local reader sees a record that is being written");
  }
  leave(thread.record, !thread.writes);
  if (!thread.lock->unlock()) fail("a thread of the target has lost its lock");
  thread.lock.reset();
  thread.next_ns = network_.now_ns() + rng_.between(0, 200'000);
}

bool LockRun::drive(Thread& thread) {
  if (network_.now_ns() < thread.next_ns) return false;
  if (thread.lock) {
    give_back(thread);
    return true;
  }
  // The application's own bits of a foreign word change whenever they like (LK-14).
  const std::size_t record = rng_.between(0, records_.size() - 1);
  const std::uint64_t flip = rng_.next() & kFlags;
  records_[record].foreign ^= flip;
  flags_[record] ^= flip;
  return !finished() && take(thread);
}

bool LockRun::drive() {
  bool did = false;
  for (Thread& thread : threads_) {
    did = drive(thread) || did;
  }
  for (Initiator& initiator : initiators_) {
    if (initiator.phase == Phase::idle && initiator.left > 0 && rng_.chance(50)) {
      begin(initiator);
      did = true;
    }
    if (initiator.phase == Phase::acquiring && initiator.cancels &&
        network_.now_ns() >= initiator.cancel_ns) {
      initiator.cancels = false;
      ++initiator.cancels_pending;
      post_plain(initiator, WrOpcode::lock_cancel);
      did = true;
    }
  }
  return poll_completions() || did;
}

/// The initiators are gone, though they do not know it.
void LockRun::on_vanished() {
  vanished_ns_ = network_.now_ns();
  for (Initiator& initiator : initiators_) {
    initiator.left = 0;
    counted_.vanished += initiator.phase != Phase::idle ? 1 : 0;
    if (initiator.known) leave(initiator.record, initiator.shared);
    initiator.known = false;
  }
}

/// Between the engines' turns: what a word says of its holders.
void LockRun::watch(std::size_t record) {
  const LockWord before = LockWord::from(words_[record].value);
  const LockWord now = LockWord::from(records_[record].word);
  const bool leased =
      before.state == LockWord::State::exclusive && (before.flags & LockWord::kLeased) != 0;
  const std::uint64_t held_ns = network_.now_ns() - words_[record].since_ns;
  if (leased && held_ns > lease_ns() + lease_ns() / 10) {
    fail(fmt::format("a lock is held for {} ns, its lease is of {} ns", held_ns, lease_ns()));
  }
  words_[record].value = records_[record].word;
  if (now.generation != before.generation || now.state != before.state) {
    words_[record].since_ns = network_.now_ns();
    // When all that was under way has arrived, only the end of a lease frees it.
    if (leased && vanished_ns_ != 0 && network_.now_ns() > vanished_ns_ + kUnderWayNs &&
        held_ns < lease_ns() - lease_ns() / 10) {
      fail(fmt::format("a lock was taken back after {} ns of {}", held_ns, lease_ns()));
    }
  }
  // A scope that is stored and forwarded holds its lock within one turn of the target (LK-29).
  if (now.state == LockWord::State::exclusive && now.owner >= 1 &&
      now.owner <= initiators_.size()) {
    const Initiator& owner = initiators_[now.owner - 1u];
    if (owner.phase == Phase::scope && owner.scope->stores_and_forwards()) {
      fail("a scope that is stored and forwarded is left with its lock");
    }
  }
}

bool LockRun::poll_completions() {
  bool any = false;
  std::array<roce::Completion, 16> some;
  for (std::size_t count = 1; count > 0; any = any || count > 0) {
    count = cq_->poll(some);
    std::for_each_n(some.begin(), count, [this](const auto& c) { on_completion(c); });
  }
  return any;
}

void LockRun::on_completion(const roce::Completion& completion) {
  Initiator& initiator = initiators_.at(completion.wr_id);
  if (vanished_ns_ != 0 && completion.status != WcStatus::success) return;  // nobody answers
  const bool failed = completion.status == WcStatus::lock_failed;
  if (completion.status != WcStatus::success && !failed) {
    fail(fmt::format("initiator {} has a completion with {}", completion.wr_id,
                     to_string(completion.status)));
    return;
  }
  if (completion.opcode == roce::WcOpcode::lock_cancel) {
    --initiator.cancels_pending;
    return;
  }
  switch (initiator.phase) {
    case Phase::scope:
      on_end(initiator, completion.status);
      return;
    case Phase::acquiring:
      if (failed) {
        on_end(initiator, completion.status);
        return;
      }
      initiator.cancels = false;
      initiator.phase = Phase::reading;
      initiator.known = !leases_are_short();
      if (initiator.known) enter(initiator.record, initiator.shared);
      post_access(initiator, WrOpcode::rdma_read, local(initiator.seen),
                  address(records_[initiator.record].token), roce::kSendSignaled);
      return;
    case Phase::reading:
      on_plain_read(initiator);
      return;
    case Phase::releasing:
      on_end(initiator, completion.status);
      return;
    case Phase::hasty:
      on_hasty(initiator, completion);
      return;
    case Phase::idle:
      fail("a completion of nothing");
      return;
  }
}

void LockRun::on_plain_read(Initiator& initiator) {
  if (initiator.increments) {
    for (std::size_t i = 0; i < kValues; ++i) {
      initiator.values[i] = initiator.seen.counts[i] + 1;
    }
    post_access(initiator, WrOpcode::rdma_write, local(initiator.values),
                address(records_[initiator.record].counts), 0);
  }
  if (std::exchange(initiator.known, false)) leave(initiator.record, initiator.shared);
  initiator.phase = Phase::releasing;
  post_plain(initiator, WrOpcode::lock_release);
}

/// The release is executed whatever became of the acquire. Without the lock it does nothing
/// (LK-21).
void LockRun::on_hasty(Initiator& initiator, const roce::Completion& completion) {
  const bool failed = completion.status == WcStatus::lock_failed;
  if (completion.opcode == roce::WcOpcode::lock_acquire) {
    initiator.failed = failed;
    return;
  }
  initiator.phase = Phase::idle;
  initiator.increments = false;
  if (initiator.result.token != 0) {
    ++counted_.granted;
    note_token(initiator.record, initiator.result.token);
  }
  if (initiator.failed) {
    ++counted_.foreign_releases;
    if (!failed || initiator.result.cause != LockCause::not_owner) {
      fail("a lock was released by who did not hold it");
    }
  } else if (failed && !leases_are_short()) {
    fail("a lock was lost before its release");
  }
}

void LockRun::on_end(Initiator& initiator, WcStatus status) {
  initiator.phase = Phase::idle;
  initiator.cancels = false;
  if (initiator.result.token != 0) note_token(initiator.record, initiator.result.token);
  counted_.granted += initiator.result.token != 0;
  if (status == WcStatus::success) {
    check_granted(initiator);
  } else {
    check_failed(initiator, status);
  }
}

void LockRun::check_seen(const Seen& seen, std::uint64_t token) {
  if (std::ranges::count(seen.values, seen.values[0]) != kValues) {
    fail("a record was read while it was written");
  }
  if (std::ranges::count(seen.counts, seen.counts[0]) != kValues) {
    fail("a record was read while it was counted in");
  }
  if (std::ranges::count(seen.adds, seen.adds[0]) != kAdds) {
    fail("a record was read in the middle of an addition");
  }
  if (seen.token >= token) {
    fail(fmt::format("what the holder of token {} read was written under token {}", token,
                     seen.token));
  }
}

void LockRun::check_granted(Initiator& initiator) {
  const ScopeResult& result = initiator.result;
  switch (initiator.kind) {
    case Kind::plain:
      counts_[initiator.record] += initiator.increments ? 1 : 0;
      [[fallthrough]];
    case Kind::read:
      check_seen(initiator.seen, result.token);
      break;
    case Kind::mixed:
      note_mixed(initiator);
      break;
    case Kind::write:
      check_seen(initiator.seen, result.token);
      if (initiator.seen.values != initiator.values) {
        fail("a READ does not find what was written in the same scope");
      }
      break;
    case Kind::add:
      ++adds_[initiator.record];
      if (std::ranges::count(initiator.found, initiator.found[0]) != kAdds) {
        fail("an addition began in the middle of another");
      }
      break;
    case Kind::transfer:
      check_seen(initiator.seen, result.token);
      check_seen(initiator.seen_other, result.token);
      if (records_.size() == 2 &&
          initiator.seen.balance + initiator.seen_other.balance != 2 * kBalance) {
        fail("both records were read in the middle of a transfer");
      }
      break;
    case Kind::foreign:
      if ((result.previous_word & 0xff) != 0) fail("a foreign lock was taken from its holder");
      break;
  }
  if (initiator.kind != Kind::plain && initiator.kind != Kind::foreign &&
      initiator.accesses[0] != WcStatus::success) {
    fail("an access of a scope that succeeded did not");
  }
}

/// What it has done, for ScopeHistory.
void LockRun::note_mixed(Initiator& initiator) {
  std::uint8_t* read = initiator.buffer;
  for (ScopeHistory::Access& access : initiator.history.accesses) {
    if (access.writes) continue;
    std::copy_n(read, access.bytes.size(), access.bytes.begin());
    read += access.bytes.size();
  }
  initiator.history.token = initiator.result.token;
  histories_[initiator.record].add(std::move(initiator.history));
}

void LockRun::check_failed(const Initiator& initiator, WcStatus status) {
  const ScopeResult& result = initiator.result;
  (void)status;
  switch (result.cause) {
    case LockCause::tries:
      ++counted_.tries;
      if (result.looks != initiator.tries) {
        fail(fmt::format("{} looks of {}", result.looks, initiator.tries));
      }
      break;
    case LockCause::wait:
      ++counted_.wait;
      // A target does not wait for the rest of a scope longer than for its end either.
      if (initiator.waits_for_ever && !leases_are_short()) {
        fail("waited too long, but there is no limit");
      }
      break;
    case LockCause::canceled:
      ++counted_.canceled;
      break;
    case LockCause::expired:
      ++counted_.expired;
      if (!leases_are_short()) fail("a lease has expired");
      return;
    case LockCause::none:
      // Of a lock that was held by itself, the release tells only that it was lost.
      if (leases_are_short() && initiator.kind == Kind::plain) {
        ++counted_.expired;
        return;
      }
      [[fallthrough]];
    default:
      fail(fmt::format("a lock failed for cause {}", static_cast<unsigned>(result.cause)));
  }
  const auto* seen = reinterpret_cast<const std::uint8_t*>(&initiator.seen);
  if (initiator.kind != Kind::plain &&
      std::any_of(seen, seen + sizeof(Seen), [](std::uint8_t byte) { return byte != 0xee; })) {
    fail("a READ of a scope that failed has read");
  }
}

bool LockRun::finished() const {
  if (vanished_ns_ != 0) {
    // Each of them may have asked, and waited for the leases of the others.
    return network_.now_ns() > vanished_ns_ + (profile_.initiators + 2) * 2 * lease_ns();
  }
  return std::ranges::all_of(initiators_, [](const Initiator& initiator) {
    return initiator.left == 0 && initiator.phase == Phase::idle && initiator.cancels_pending == 0;
  });
}

void LockRun::check_end(LockTotals& totals) {
  std::uint64_t balance = 0;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const Record& record = records_[i];
    balance += record.balance;
    const LockWord word = LockWord::from(record.word);
    if (!word.is_free() || word.flags != 0 || word.owner != 0 || word.readers != 0) {
      fail(fmt::format("a lock word is left as {:016x}", record.word));
    }
    if ((record.foreign & ~kFlags) != 0 || (record.foreign & kFlags) != flags_[i]) {
      fail(fmt::format("a foreign word is left as {:016x}", record.foreign));
    }
    if (record.whole != 0) fail(fmt::format("a foreign word is left as {:016x}", record.whole));
    for (const std::uint64_t value : record.counts) {
      if (value != counts_[i]) fail(fmt::format("counted {} times, {} seen", counts_[i], value));
    }
    for (const std::uint64_t value : record.adds) {
      if (value != adds_[i]) fail(fmt::format("{} additions, {} of them done", adds_[i], value));
    }
  }
  if (!network_.node(1).engine().detach_locks(*region_)) fail("a lock is held at the end");
  if (balance != records_.size() * kBalance) fail("a transfer was done by half");
  for (std::size_t i = 0; profile_.mixed && i < records_.size(); ++i) {
    const std::string wrong =
        histories_[i].check(std::vector<std::uint8_t>(kAreaBytes),
                            std::span(areas_).subspan(i * kAreaBytes, kAreaBytes));
    if (!wrong.empty()) fail(wrong);
  }
  const auto& statistics = region_->statistics();
  totals.leases += statistics.lease_expiries;
  if (vanished_ns_ == 0 && statistics.grants != counted_.granted + counted_.local) {
    fail(fmt::format("{} grants were counted, {} known", statistics.grants.load(),
                     counted_.granted + counted_.local));
  }
  totals.waited += statistics.waits;
}

/// Of the threads and initiators.
std::uint64_t LockRun::next_event_ns() const {
  std::uint64_t next_ns = stack::kNever - 1;
  for (const Thread& thread : threads_) {
    if (thread.next_ns > network_.now_ns()) next_ns = std::min(next_ns, thread.next_ns);
  }
  for (const Initiator& initiator : initiators_) {
    if (initiator.phase == Phase::acquiring && initiator.cancels) {
      next_ns = std::min(next_ns, initiator.cancel_ns);
    }
  }
  return next_ns;
}

std::string LockRun::run(LockTotals& totals) {
  set_up();
  std::uint32_t step = 0;
  for (; error_.empty() && !finished() && step < kMaxSteps; ++step) {
    const bool did = drive();
    const bool moved = network_.poll();
    for (std::size_t i = 0; i < records_.size(); ++i) {
      watch(i);
    }
    if (vanished_ns_ == 0 && network_.node(0).offered() > cut_at_) on_vanished();
    if (did || moved) continue;
    const std::uint64_t next_ns = next_event_ns();
    if (!network_.advance(next_ns) && next_ns != stack::kNever - 1) {
      network_.advance_to(std::max(next_ns, network_.now_ns()));
    }
  }
  if (error_.empty() && !finished()) fail("not all scopes came to an end");
  for (Thread& thread : threads_) {
    if (error_.empty() && thread.lock) give_back(thread);
  }
  if (error_.empty()) {
    (void)network_.run_to_rest(network_.now_ns() + kRestLimitNs);
    check_end(totals);
  }
  ++totals.runs;
  totals.scopes += counted_.scopes;
  totals.granted += counted_.granted;
  totals.tries += counted_.tries;
  totals.wait += counted_.wait;
  totals.canceled += counted_.canceled;
  totals.expired += counted_.expired;
  totals.foreign_releases += counted_.foreign_releases;
  totals.together += counted_.together;
  totals.vanished += counted_.vanished;
  totals.local += counted_.local;
  totals.duplicates += network_.node(1).engine().counters().duplicate_request.value();
  totals.lost += network_.node(0).faults().tx_counters().lost.value() +
                 network_.node(1).faults().tx_counters().lost.value();
  return error_;
}

}  // namespace

std::string run_locks(std::uint64_t seed, const LockProfile& profile, PoolSet& pools,
                      LockTotals& totals) {
  std::string error = LockRun(seed, profile, pools).run(totals);
  if (error.empty() && pools.in_use() != 0) error = fmt::format("{} mbufs leaked", pools.in_use());
  return error;
}

}  // namespace rockhopper::sim
