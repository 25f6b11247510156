// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/cm_node.h"
#include "apps/common/dc_endpoint.h"
#include "apps/common/signals.h"
#include "roce/wire/bytes.h"
#include "stack/random.h"
#include "tests/live/lock_node.h"

namespace rockhopper::live {
namespace {

using roce::PostResult;
using roce::WcStatus;
using roce::cm::EventType;
using roce::lock::ScopeBuilder;

constexpr std::uint32_t kPathMtu = 1024;  // a scope has several packets
constexpr std::uint32_t kIdleUs = 50;
constexpr double kAnswerS = 60;         // a busy machine
constexpr std::uint32_t kRequests = 8;  // more than a scope has

/// What a target has said of itself.
struct TargetAddress {
  stack::IpAddress address;
  std::uint64_t base = 0;
  std::uint32_t records = 0;
  std::uint32_t stride = 0;
  roce::MemoryKey rkey{};
  wire::Qpn number{};
  std::uint64_t access_key = 0;
};

Expected<TargetAddress> read_target(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return fail(ErrorCode::invalid_argument, "{}: no target in it", path);
  const auto address = stack::IpAddress::parse(json["address"].get<std::string>());
  if (!address) return fail(ErrorCode::invalid_argument, "{}: no address in it", path);
  return TargetAddress{.address = *address,
                       .base = json["base"],
                       .records = json["records"],
                       .stride = json["stride"],
                       .rkey = roce::MemoryKey{json["rkey"].get<std::uint32_t>()},
                       .number = wire::Qpn{json["number"]},
                       .access_key = json["access_key"]};
}

class LockInitiator final : public LockNode {
 public:
  LockInitiator(const LockOptions& options, std::uint64_t seed)
      : options_(options), seed_(seed), random_(seed) {}
  ~LockInitiator() override {
    for (Slot& slot : slots_) {
      slot.~Slot();
    }
  }

  [[nodiscard]] Expected<void> share() override;
  [[nodiscard]] Expected<void> run_engine(apps::Endpoint& endpoint) override;
  void run_application(pid_t engine) override;
  void report() override;

 private:
  struct Peer {
    roce::QueuePair* qp;
    roce::cm::Connection* connection;
  };

  // The application's.
  void fill(std::size_t index);
  void note(std::size_t index);

  // The engine's.
  [[nodiscard]] Expected<void> connect(apps::CmNode& node);
  static void leave(apps::CmNode& node, const Peer& peer);
  [[nodiscard]] Expected<void> run_connections(apps::Endpoint& endpoint);
  [[nodiscard]] Expected<void> run_dynamic_connections(apps::Endpoint& endpoint);
  template <typename Turn, typename Post>
  [[nodiscard]] Expected<void> serve(Turn&& turn, Post&& post);
  [[nodiscard]] Expected<void> poll();

  [[nodiscard]] std::byte* payload(std::size_t slot) const {
    return memory_.data() + slots_.size() * sizeof(Slot) + slot * options_.bytes;
  }

  const LockOptions& options_;
  std::uint64_t seed_;
  stack::Random random_;
  TargetAddress target_;
  SharedMemory memory_;  ///< slots, and what each of them writes
  std::span<Slot> slots_;
  SharedMemory journal_memory_;
  Journal* journal_ = nullptr;
  std::uint64_t begun_ = 0;

  roce::ProtectionDomain pd_{};
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::vector<Peer> peers_;
};

Expected<void> LockInitiator::share() {
  auto target = read_target(options_.peer);
  if (!target) return tl::make_unexpected(target.error());
  target_ = *target;
  if (target_.stride < record_stride(options_.bytes)) {
    return fail(ErrorCode::invalid_argument, "--bytes {}: the target has not so many",
                options_.bytes);
  }
  if (auto shared = share_mailbox(); !shared) return shared;
  auto memory = SharedMemory::allocate(options_.slots * (sizeof(Slot) + options_.bytes));
  if (!memory) return tl::make_unexpected(memory.error());
  memory_ = std::move(*memory);
  slots_ = {reinterpret_cast<Slot*>(memory_.data()), options_.slots};
  for (Slot& slot : slots_) {
    new (&slot) Slot;
  }
  auto journal = SharedMemory::allocate(sizeof(Journal), options_.journal);
  if (!journal) return tl::make_unexpected(journal.error());
  journal_memory_ = std::move(*journal);
  journal_ = new (journal_memory_.data()) Journal;
  return {};
}

/// A scope for a record at random: count, write, count.
void LockInitiator::fill(std::size_t index) {
  Slot& slot = slots_[index];
  slot.record = static_cast<std::uint32_t>(random_.below(target_.records));
  const std::uint64_t record = target_.base + std::uint64_t{slot.record} * target_.stride;
  slot.scope.emplace(roce::lock::Word{.addr = record, .rkey = target_.rkey});
  slot.scope->owner(static_cast<std::uint16_t>(options_.name << 8 | index))
      .forward(options_.cut_through ? ScopeBuilder::Forward::cut_through
                                    : ScopeBuilder::Forward::store_forward);
  const roce::MemoryKey key = mailbox().key;
  const auto count = [&](std::uint64_t& found, std::size_t offset) {
    const roce::Sge to{reinterpret_cast<std::uintptr_t>(&found), sizeof found, key};
    roce::SendWr wr;
    wr.sg_list = {&to, 1};
    wr.opcode = roce::WrOpcode::atomic_fetch_and_add;
    wr.remote_addr = record + offset;
    wr.rkey = target_.rkey;
    wr.compare_add = 1;
    (void)slot.scope->access(wr);  // there is room
  };
  // What one scope writes is one byte, over and over.
  std::memset(payload(index), static_cast<int>(random_.below(256)), options_.bytes);
  count(slot.found[0], offsetof(LockRecord, first));
  (void)slot.scope->write({reinterpret_cast<std::uintptr_t>(payload(index)), options_.bytes, key},
                          record + sizeof(LockRecord), target_.rkey);
  count(slot.found[1], offsetof(LockRecord, last));
  slot.result = {};
  journal_->on_its_way[index].store(slot.record + 1);
  slot.posted.fetch_add(1);
  ++begun_;
}

/// What has become of it.
void LockInitiator::note(std::size_t index) {
  const Slot& slot = slots_[index];
  const bool success = slot.result.status == WcStatus::success;
  const std::uint64_t entry = journal_->entries.load();
  journal_->log[entry] = {
      .record = slot.record,
      .outcome = success ? Journal::Outcome::success : Journal::Outcome::unknown,
      .found = success ? slot.found[0] : 0,
      .token = slot.result.token};
  journal_->entries.store(entry + 1);
  journal_->on_its_way[index].store(0);
}

/// The application.
void LockInitiator::run_application(pid_t engine) {
  fmt::print("{}\n", nlohmann::json{{"engine", engine}}.dump());
  std::fflush(stdout);
  const auto more = [&] {
    return !apps::stop_requested() && (options_.scopes == 0 || begun_ < options_.scopes) &&
           begun_ < Journal::kEntries;
  };
  for (std::size_t i = 0; i < slots_.size() && more(); ++i) {
    fill(i);
  }
  if (options_.stop) (void)std::raise(SIGSTOP);
  std::uint64_t noted = 0;
  while (is_running(engine) && (more() || noted < begun_)) {
    bool idle = true;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (journal_->on_its_way[i].load() == 0 || slots_[i].completed != slots_[i].posted) continue;
      note(i);
      ++noted;
      if (more()) fill(i);
      idle = false;
    }
    if (idle || options_.pause_us > kIdleUs) {
      std::this_thread::sleep_for(std::chrono::microseconds(std::max(options_.pause_us, kIdleUs)));
    }
  }
}

void LockInitiator::report() {
  const std::uint64_t entries = journal_->entries.load();
  const auto succeeded = std::count_if(
      journal_->log.begin(), journal_->log.begin() + static_cast<std::ptrdiff_t>(entries),
      [](const Journal::Entry& e) { return e.outcome == Journal::Outcome::success; });
  fmt::print("{}\n", nlohmann::json{{"scopes", entries}, {"succeeded", succeeded}}.dump());
}

Expected<void> LockInitiator::run_engine(apps::Endpoint& endpoint) {
  roce::Engine& engine = endpoint.engine();
  pd_ = engine.allocate_pd();
  auto region =
      engine.register_memory(pd_, memory_.data(), memory_.size(), roce::kAccessLocalWrite);
  if (!region) return tl::make_unexpected(region.error());
  mailbox().key = region->key;
  auto cq = roce::CompletionQueue::create(options_.slots * kRequests);
  if (!cq) return tl::make_unexpected(cq.error());
  cq_ = std::move(*cq);
  if (auto up = endpoint.wait_for_link(); !up) return up;
  return options_.transport == "rc" ? run_connections(endpoint) : run_dynamic_connections(endpoint);
}

/// Posts what the application has filled in, and tells it what is complete.
template <typename Turn, typename Post>
Expected<void> LockInitiator::serve(Turn&& turn, Post&& post) {
  mailbox().ready.store(true);
  std::vector<std::uint32_t> posted(slots_.size());
  while (!apps::stop_requested()) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const std::uint32_t wanted = slots_[i].posted.load();
      if (wanted == posted[i]) continue;
      posted[i] = wanted;
      if (const PostResult result = post(i); result != PostResult::ok) {
        return fail(ErrorCode::io, "a scope was refused: {}", to_string(result));
      }
    }
    turn();
    if (auto polled = poll(); !polled) return polled;
  }
  return {};
}

Expected<void> LockInitiator::poll() {
  std::array<roce::Completion, 32> completions;
  const std::size_t count = cq_->poll(completions);
  for (const roce::Completion& done : std::span(completions).first(count)) {
    if (done.opcode != roce::WcOpcode::lock_release) {
      return fail(ErrorCode::io, "a scope has a completion besides its own, with {}",
                  to_string(done.status));
    }
    if (done.status != WcStatus::success && done.status != WcStatus::lock_failed &&
        done.status != WcStatus::outcome_unknown) {
      return fail(ErrorCode::io, "a scope ended with {}", to_string(done.status));
    }
    Slot& slot = slots_[done.wr_id];
    slot.completed.store(slot.posted.load());
  }
  return {};
}

Expected<void> LockInitiator::connect(apps::CmNode& node) {
  auto own = node.endpoint().address_of_family(target_.address.is_ipv4());
  if (!own) return tl::make_unexpected(own.error());
  const roce::AddressVector path{.source = *own, .destination = target_.address};
  const auto header = node.ip_header(path);
  std::array<std::uint8_t, header.size() + kIntroductionBytes> introduction{};
  std::copy(header.begin(), header.end(), introduction.begin());
  introduction[header.size()] = options_.name;
  wire::store_be64(&introduction[header.size() + 1], seed_);
  const auto connect_one = [&]() -> Expected<Peer> {
    auto qp = node.engine().create_qp({.pd = pd_,
                                       .send_cq = cq_.get(),
                                       .recv_cq = cq_.get(),
                                       .max_send_wr = kRequests,
                                       .max_recv_wr = 0,
                                       .lock_execution = true});
    if (!qp) return tl::make_unexpected(qp.error());
    auto connection = node.manager().connect(
        **qp, {.path = path,
               .service_id = roce::cm::ip_service_id(roce::cm::PortSpace::tcp, kLockPort),
               .path_mtu = kPathMtu,
               .private_data = introduction,
               .qp = {.ack_timeout = options_.timeout},
               .offer = roce::cm::kCapabilityLocks});
    if (!connection) return tl::make_unexpected(connection.error());
    return Peer{*qp, *connection};
  };
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    auto peer = connect_one();
    if (!peer) return tl::make_unexpected(peer.error());
    peers_.push_back(*peer);
  }
  for (std::size_t connected = 0; connected < slots_.size();) {
    auto event = node.wait_event("the target's answer");
    if (!event) return tl::make_unexpected(event.error());
    if (event->type == EventType::established) {
      ++connected;
    } else if (event->type == EventType::rejected &&
               event->reason == wire::cm::RejectReason::stale_connection) {
      // A queue pair of a dead process had the same number, by chance.
      const auto refused = std::ranges::find(peers_, event->connection, &Peer::connection);
      leave(node, *refused);
      auto peer = connect_one();
      if (!peer) return tl::make_unexpected(peer.error());
      *refused = *peer;
    } else {
      return tl::make_unexpected(apps::describe(*event));
    }
  }
  return {};
}

void LockInitiator::leave(apps::CmNode& node, const Peer& peer) {
  node.manager().release(*peer.connection);
  node.engine().destroy_qp(peer.qp);
}

Expected<void> LockInitiator::run_connections(apps::Endpoint& endpoint) {
  auto made = apps::CmNode::create(endpoint, {.timeout_s = kAnswerS});
  if (!made) return tl::make_unexpected(made.error());
  apps::CmNode& node = **made;
  auto done = connect(node);
  if (done) {
    done = serve(
        [&] { node.serve(); },
        [&](std::size_t i) { return slots_[i].scope->post(*peers_[i].qp, i, &slots_[i].result); });
  }
  for (const Peer& peer : peers_) {
    leave(node, peer);
  }
  return done;
}

Expected<void> LockInitiator::run_dynamic_connections(apps::Endpoint& endpoint) {
  roce::Engine& engine = endpoint.engine();
  auto dc = apps::DcEndpoint::create(engine, {.sessions = {.contexts = 1, .tombstones = 1}});
  if (!dc) return tl::make_unexpected(dc.error());
  auto own = endpoint.address_of_family(target_.address.is_ipv4());
  if (!own) return tl::make_unexpected(own.error());
  auto ah = engine.create_ah(pd_, {.source = *own, .destination = target_.address});
  if (!ah) return tl::make_unexpected(ah.error());
  dc::DciInit init;
  init.pd = pd_;
  init.send_cq = cq_.get();
  init.max_send_wr = kRequests;
  init.lock_execution = true;
  init.timeout = options_.timeout;
  std::vector<dc::Dci*> initiators;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    auto dci = (*dc)->create_dci(init);
    if (!dci) return tl::make_unexpected(dci.error());
    initiators.push_back(*dci);
  }
  auto done = serve([&] { (void)endpoint.turn(); },
                    [&](std::size_t i) {
                      const auto post_one = [&](roce::SendWr& wr) {
                        wr.ah = *ah;
                        wr.remote_qpn = target_.number;
                        wr.dc_access_key = target_.access_key;
                        return initiators[i]->post_send(wr);
                      };
                      return slots_[i].scope->post(post_one,
                                                   {.path_mtu = bytes(init.path_mtu),
                                                    .max_rd_atomic = init.max_rd_atomic,
                                                    .room = init.max_send_wr,
                                                    .max_sge = init.max_send_sge},
                                                   i, &slots_[i].result);
                    });
  for (dc::Dci* dci : initiators) {
    (*dc)->destroy_dci(dci);
  }
  engine.destroy_ah(*ah);
  return done;
}

}  // namespace

std::unique_ptr<LockNode> make_lock_initiator(const LockOptions& options, std::uint64_t seed) {
  return std::make_unique<LockInitiator>(options, seed);
}

}  // namespace rockhopper::live
