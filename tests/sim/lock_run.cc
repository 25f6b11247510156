// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/lock_run.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "dc/endpoint.h"
#include "roce/lock/local_lock.h"
#include "roce/lock/scope_builder.h"
#include "tests/sim/rng.h"

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
constexpr std::uint64_t kRestLimit_ns = 60'000'000'000;
/// The application's own bits of the foreign word, which no lock may disturb (LK-14).
constexpr std::uint64_t kFlags = 0xffffffff00000000;

/// At the target. Under the lock of `word`.
struct Record {
  std::uint64_t word;
  std::uint64_t token;                        ///< of the last local writer
  std::array<std::uint64_t, kValues> values;  ///< equal
  std::array<std::uint64_t, kAdds> adds;      ///< equal, and as many as scopes that add
  std::uint64_t balance;                      ///< the sum over all records is always the same
  std::uint64_t foreign;                      ///< a lock in its low byte, flags in its upper half
};

/// What an initiator reads.
struct Seen {
  std::uint64_t token;
  std::array<std::uint64_t, kValues> values;
  std::array<std::uint64_t, kAdds> adds;
  std::uint64_t balance;
};

enum class Kind : std::uint8_t { read, write, add, transfer, foreign, plain };
enum class Phase : std::uint8_t { idle, scope, acquiring, reading, releasing };

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
  bool cancels = false;
  std::uint32_t cancels_pending = 0;
  std::uint64_t cancel_ns = 0;
  ScopeResult result;
  std::array<WcStatus, kAdds + 4> accesses{};
  // Local memory of the requests.
  Seen seen{};
  Seen seen_other{};
  std::array<std::uint64_t, kValues> values{};
  std::array<std::uint64_t, kAdds> found{};
  std::optional<ScopeBuilder> scope;
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
  [[nodiscard]] bool drive_local();
  void begin(Initiator& initiator);
  void add_accesses(Initiator& initiator, ScopeBuilder& scope);
  void post_plain(Initiator& initiator, WrOpcode opcode, std::uint32_t wait_us = 0);
  void post_read(Initiator& initiator);
  [[nodiscard]] bool poll_completions();
  void on_completion(const roce::Completion& completion);
  void on_end(Initiator& initiator, WcStatus status);
  void check_granted(const Initiator& initiator);
  void check_failed(const Initiator& initiator, WcStatus status);
  void check_seen(const Seen& seen, std::uint64_t token);
  void check_end(LockTotals& totals);
  [[nodiscard]] bool finished() const;
  [[nodiscard]] bool leases_are_short() const { return profile_.lease_us < 1'000'000; }

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
  roce::MemoryKey initiator_key_{}, target_key_{};

  // The target's own thread.
  std::optional<LocalLock> local_;
  unsigned local_record_ = 0;
  bool local_writes_ = false;
  std::uint64_t local_until_ns_ = 0;
  std::uint64_t local_value_ = 0;
  std::uint64_t next_local_ns_ = 0;

  std::vector<std::uint64_t> adds_;  ///< of each record: scopes that added
  std::vector<std::uint64_t> flags_;
  std::set<std::uint64_t> tokens_;
  LockTotals counted_;
  std::string error_;
};

NetworkConfig LockRun::draw_network(std::uint64_t seed, PoolSet& pools) {
  NetworkConfig config{.seed = seed, .pools = &pools, .faults = profile_.faults};
  config.ipv6 = rng_.chance(40);
  config.segment_arrivals = rng_.chance(25);
  config.delay_ns = rng_.pick<std::uint64_t>({300, 2'000, 20'000});
  if (const char* folder = std::getenv("ROCKHOPPER_CAPTURES"); folder != nullptr) {
    config.capture_prefix = fmt::format("{}/{}-", folder, seed);
  }
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
  initiators_.resize(profile_.initiators);
  cq_ = must(roce::CompletionQueue::create(4096));
  for (unsigned node = 0; node < 2; ++node) pds_[node] = network_.node(node).engine().allocate_pd();
  initiator_key_ = must(network_.node(0).engine().register_memory(
                            pds_[0], initiators_.data(), initiators_.size() * sizeof(Initiator),
                            roce::kAccessAll))
                       .key;
  const std::size_t bytes = records_.size() * sizeof(Record);
  roce::Engine& target = network_.node(1).engine();
  target_key_ = must(target.register_memory(pds_[1], records_.data(), bytes, roce::kAccessAll)).key;
  region_.emplace(records_.data(), bytes,
                  roce::lock::Region::Config{.first_token = rng_.between(1, 1000),
                                             .lease_us = profile_.lease_us,
                                             .max_lease_us = profile_.lease_us,
                                             .retry_us = rng_.pick<std::uint32_t>({5, 50, 500})});
  target.attach_locks(*region_);
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
  std::array<std::uint32_t, 2> psns{};
  for (std::uint32_t& psn : psns) {
    psn = rng_.chance(20) ? rng_.between32(0xffffc0, 0xffffff) : rng_.between32(0, 0xffffff);
  }
  for (unsigned node = 0; node < 2; ++node) {
    roce::QpAttributes attributes;
    attributes.qp_access_flags = roce::kAccessAll;
    attributes.ah_attr = {.source = network_.node(node).address(),
                          .destination = network_.node(1 - node).address()};
    attributes.path_mtu = mtu_;
    attributes.dest_qp_num = qps[1 - node]->number();
    attributes.rq_psn = wire::Psn{psns[1 - node]};
    attributes.sq_psn = wire::Psn{psns[node]};
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = resources;
    attributes.min_rnr_timer = 1;  // 10 us
    attributes.timeout = 9;        // 2 ms
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    must(qps[node]->bring_up(attributes, roce::QpState::rts));
  }
  initiator.qp = qps[0];
}

void LockRun::begin(Initiator& initiator) {
  --initiator.left;
  const bool leases = leases_are_short();
  initiator.kind = leases ? rng_.pick({Kind::read, Kind::write, Kind::plain})
                          : rng_.pick({Kind::read, Kind::write, Kind::add, Kind::transfer,
                                       Kind::foreign, Kind::plain});
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
  if (initiator.kind == Kind::plain) {
    initiator.cancels = initiator.waits_for_ever && rng_.chance(30);
    initiator.cancel_ns = network_.now_ns() + rng_.between(0, 100'000);
    post_plain(initiator, WrOpcode::lock_acquire, wait_us);
    initiator.phase = Phase::acquiring;
    return;
  }
  roce::lock::Word word = word_of(initiator.record);
  word.shared = initiator.kind == Kind::read && rng_.chance(70);
  if (initiator.kind == Kind::foreign) {
    word.addr = address(records_[initiator.record].foreign);
    initiator.scope.emplace(word, Mode::foreign_swap, wire::LockOperation{0, 0xff, 1, 0xff},
                            wire::LockOperation{1, 0xff, 0, 0xff});
  } else {
    initiator.scope.emplace(word);
  }
  ScopeBuilder& scope = *initiator.scope;
  scope.tries(initiator.tries)
      .wait_us(wait_us)
      .fifo(rng_.chance(70))
      .owner(static_cast<std::uint16_t>(&initiator - initiators_.data()));
  // A scope that is told to come again leaves no mark at the target; now and then.
  scope.resend(rng_.chance(15));
  scope.forward(rng_.pick({ScopeBuilder::Forward::automatic, ScopeBuilder::Forward::automatic,
                           ScopeBuilder::Forward::cut_through}));
  add_accesses(initiator, scope);
  if (post(initiator, scope) != PostResult::ok) fail("a scope was refused");
  initiator.phase = Phase::scope;
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
    case Kind::foreign:
    case Kind::plain:
      break;
  }
  if (!fits) fail("a scope has no room");
}

void LockRun::post_plain(Initiator& initiator, WrOpcode opcode, std::uint32_t wait_us) {
  roce::lock::Request request;
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

void LockRun::post_read(Initiator& initiator) {
  const roce::Sge to = local(initiator.seen);
  roce::SendWr wr;
  wr.wr_id = static_cast<std::uint64_t>(&initiator - initiators_.data());
  wr.opcode = WrOpcode::rdma_read;
  wr.send_flags = roce::kSendSignaled;
  wr.sg_list = {&to, 1};
  wr.remote_addr = address(records_[initiator.record].token);
  wr.rkey = target_key_;
  if (post(initiator, wr) != PostResult::ok) fail("a READ was refused");
}

/// A thread of the target: writes one half of a record when it takes the lock, the other when it
/// gives it back.
bool LockRun::drive_local() {
  const std::uint64_t now_ns = network_.now_ns();
  if (local_) {
    if (now_ns < local_until_ns_) return false;
    Record& record = records_[local_record_];
    if (local_writes_) {
      std::fill(record.values.begin() + kValues / 2, record.values.end(), local_value_);
    } else if (std::ranges::count(record.values, record.values[0]) != kValues) {
      fail("a local reader sees a record that is being written");
    }
    if (!local_->unlock()) fail("the target's thread has lost its lock");
    local_.reset();
    next_local_ns_ = now_ns + rng_.between(0, 200'000);
    return true;
  }
  if (now_ns < next_local_ns_ || finished()) return false;
  local_record_ = rng_.between32(0, static_cast<std::uint32_t>(records_.size()) - 1);
  Record& record = records_[local_record_];
  local_writes_ = rng_.chance(60);
  local_.emplace(*region_, &record.word, static_cast<std::uint16_t>(0xfff0));
  if (!(local_writes_ ? local_->try_lock() : local_->try_lock_shared())) {
    local_.reset();
    next_local_ns_ = now_ns + 1000;
    return false;
  }
  ++counted_.local;
  if (!tokens_.insert(local_->token()).second) fail("a fencing token was given twice");
  if (local_writes_) {
    local_value_ = rng_.next();
    record.token = local_->token();
    std::fill(record.values.begin(), record.values.begin() + kValues / 2, local_value_);
  }
  local_until_ns_ = now_ns + rng_.pick<std::uint64_t>({0, 3'000, 100'000, 1'000'000});
  return true;
}

bool LockRun::drive() {
  bool did = drive_local();
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
  const bool failed = completion.status == WcStatus::lock_failed;
  if (completion.status != WcStatus::success && !failed) {
    fail(fmt::format("initiator {} has a completion with {}", completion.wr_id,
                     to_string(completion.status)));
    return;
  }
  if (completion.opcode == roce::WcOpcode::lock_cancel) {
    --initiator.cancels_pending;
    if (initiator.cancels_pending == 0 && initiator.phase == Phase::idle) return;
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
      post_read(initiator);
      return;
    case Phase::reading:
      initiator.phase = Phase::releasing;
      post_plain(initiator, WrOpcode::lock_release);
      return;
    case Phase::releasing:
      on_end(initiator, completion.status);
      return;
    case Phase::idle:
      fail("a completion of nothing");
      return;
  }
}

void LockRun::on_end(Initiator& initiator, WcStatus status) {
  initiator.phase = Phase::idle;
  initiator.cancels = false;
  if (initiator.result.token != 0 && !tokens_.insert(initiator.result.token).second) {
    fail("a fencing token was given twice");
  }
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
  if (std::ranges::count(seen.adds, seen.adds[0]) != kAdds) {
    fail("a record was read in the middle of an addition");
  }
  if (seen.token >= token) {
    fail(fmt::format("what the holder of token {} read was written under token {}", token,
                     seen.token));
  }
}

void LockRun::check_granted(const Initiator& initiator) {
  const ScopeResult& result = initiator.result;
  switch (initiator.kind) {
    case Kind::plain:
    case Kind::read:
      check_seen(initiator.seen, result.token);
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

void LockRun::check_failed(const Initiator& initiator, WcStatus status) {
  const ScopeResult& result = initiator.result;
  static_cast<void>(status);
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
      if (initiator.waits_for_ever && !leases_are_short())
        fail("waited too long, but there is no limit");
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
    for (const std::uint64_t value : record.adds) {
      if (value != adds_[i]) fail(fmt::format("{} additions, {} of them done", adds_[i], value));
    }
  }
  if (!network_.node(1).engine().detach_locks(*region_)) fail("a lock is held at the end");
  if (balance != records_.size() * kBalance) fail("a transfer was done by half");
  const auto& statistics = region_->statistics();
  if (statistics.grants != counted_.granted + counted_.local) {
    fail(fmt::format("{} grants were counted, {} known", statistics.grants.load(),
                     counted_.granted + counted_.local));
  }
  totals.waited += statistics.waits;
}

std::string LockRun::run(LockTotals& totals) {
  set_up();
  std::uint32_t step = 0;
  for (; error_.empty() && !finished() && step < kMaxSteps; ++step) {
    const bool did = drive();
    const bool moved = network_.poll();
    if (!did && !moved) {
      std::uint64_t next_ns = stack::kNever - 1;
      if (local_) {
        next_ns = local_until_ns_;
      } else if (next_local_ns_ > network_.now_ns()) {
        next_ns = next_local_ns_;
      }
      for (const Initiator& initiator : initiators_) {
        if (initiator.phase == Phase::acquiring && initiator.cancels) {
          next_ns = std::min(next_ns, initiator.cancel_ns);
        }
      }
      if (!network_.advance(next_ns) && next_ns != stack::kNever - 1) {
        network_.advance_to(std::max(next_ns, network_.now_ns()));
      }
    }
  }
  if (error_.empty() && !finished()) fail("not all scopes came to an end");
  if (local_) {
    local_until_ns_ = 0;
    static_cast<void>(drive_local());
  }
  static_cast<void>(network_.run_to_rest(network_.now_ns() + kRestLimit_ns));
  if (error_.empty()) check_end(totals);
  ++totals.runs;
  totals.scopes += counted_.scopes;
  totals.granted += counted_.granted;
  totals.tries += counted_.tries;
  totals.wait += counted_.wait;
  totals.canceled += counted_.canceled;
  totals.expired += counted_.expired;
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
  if (error.empty() && pools.in_use() != 0) {
    error = fmt::format("{} mbufs leaked", pools.in_use());
  }
  return error;
}

}  // namespace rockhopper::sim
