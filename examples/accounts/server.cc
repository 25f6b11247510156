// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/counters.h"
#include "apps/common/page_memory.h"
#include "apps/common/signals.h"
#include "examples/accounts/accounts.h"
#include "roce/lock/local_lock.h"
#include "roce/lock/lock_word.h"

namespace rockhopper::apps::accounts {

using roce::cm::Event;
using roce::cm::EventType;
using roce::lock::LocalLock;
using roce::lock::LockWord;
using roce::lock::Region;

namespace {

/// Tokens of a later server are greater than those of an earlier one.
std::uint64_t first_token() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now).count())
         << 32;
}

class Server {
 public:
  Server(CmNode& node, const Options& options) : node_(node), options_(options) {}
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] Expected<void> open();
  [[nodiscard]] Expected<void> run();
  [[nodiscard]] Expected<nlohmann::json> report();

 private:
  struct Client {
    roce::QueuePair* qp = nullptr;
    roce::cm::Connection* connection = nullptr;
  };

  [[nodiscard]] Expected<void> accept(const Event& request);
  void leave(const Event& event);
  [[nodiscard]] Expected<void> handle(const Event& event);
  void transfer_locally(std::uint16_t owner, std::uint64_t seed);
  void stop_threads();
  [[nodiscard]] TableHeader& header() { return *reinterpret_cast<TableHeader*>(memory_.data()); }
  [[nodiscard]] std::span<Account> accounts() {
    return {reinterpret_cast<Account*>(memory_.data() + sizeof(TableHeader)), options_.accounts};
  }

  CmNode& node_;
  const Options& options_;
  PageMemory memory_;
  roce::ProtectionDomain pd_{};
  roce::MemoryRegion registered_{};
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::unique_ptr<Region> region_;
  std::list<Client> clients_;
  std::uint64_t served_ = 0;
  std::vector<std::jthread> threads_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> local_transfers_{0};
};

Server::~Server() {
  stop_threads();
  for (const Client& client : clients_) {
    node_.manager().release(*client.connection);
    node_.engine().destroy_qp(client.qp);
  }
  if (region_ != nullptr) (void)node_.engine().detach_locks(*region_);
}

Expected<void> Server::open() {
  const std::size_t bytes = sizeof(TableHeader) + options_.accounts * sizeof(Account);
  ROCKHOPPER_TRY(memory_, PageMemory::allocate(bytes));
  for (Account& account : accounts()) {
    account.balance = options_.initial;
  }
  pd_ = node_.engine().allocate_pd();
  ROCKHOPPER_TRY(registered_,
                 node_.engine().register_memory(pd_, memory_.data(), bytes, roce::kAccessAll));
  ROCKHOPPER_TRY(cq_, roce::CompletionQueue::create(16));
  region_ = std::make_unique<Region>(
      memory_.data(), bytes,
      Region::Config{.first_token = first_token(), .lease_us = options_.lease_us});
  node_.engine().attach_locks(*region_);
  return node_.listen(roce::cm::ip_service_id(roce::cm::PortSpace::tcp, options_.port), 128,
                      options_.standard ? roce::cm::kNoCapabilities : roce::cm::kCapabilityLocks);
}

Expected<void> Server::accept(const Event& request) {
  auto qp = node_.engine().create_qp({.pd = pd_,
                                      .send_cq = cq_.get(),
                                      .recv_cq = cq_.get(),
                                      .max_send_wr = 1,
                                      .max_recv_wr = 0,
                                      .lock_execution = !options_.standard});
  if (!qp) {
    auto rejected = node_.manager().reject(*request.connection);
    node_.manager().release(*request.connection);
    return rejected;
  }
  const auto info = TableInfo{.accounts = options_.accounts,
                              .rkey = static_cast<std::uint32_t>(registered_.key),
                              .address = registered_.iova}
                        .emit();
  const roce::cm::QpParameters parameters{.access_flags = roce::kAccessAll};
  auto accepted = node_.manager().accept(*request.connection, **qp, parameters, info);
  clients_.push_back({.qp = *qp, .connection = request.connection});
  return accepted;
}

void Server::leave(const Event& event) {
  std::erase_if(clients_, [&](const Client& client) {
    if (client.connection != event.connection) return false;
    node_.engine().destroy_qp(client.qp);
    node_.manager().release(*client.connection);
    ++served_;
    return true;
  });
}

Expected<void> Server::handle(const Event& event) {
  switch (event.type) {
    case EventType::connect_request:
      return accept(event);
    case EventType::timewait_exit:  // until then the peer may ask again whether it is over
    case EventType::unreachable:
    case EventType::rejected:
      leave(event);
      return {};
    default:
      return {};
  }
}

/// One of our threads takes the same words as the clients, in the order of their addresses.
void Server::transfer_locally(std::uint16_t owner, std::uint64_t seed) {
  roce::SeededRandom random(seed);
  while (!stop_.load(std::memory_order_relaxed)) {
    const std::uint64_t a = random.below(options_.accounts);
    const std::uint64_t b = (a + 1 + random.below(options_.accounts - 1)) % options_.accounts;
    LocalLock table(*region_, &header().word, owner);
    LocalLock first(*region_, &accounts()[std::min(a, b)].word, owner);
    LocalLock second(*region_, &accounts()[std::max(a, b)].word, owner);
    while (!table.try_lock_shared()) {
      std::this_thread::yield();
    }
    while (!first.try_lock()) {
      std::this_thread::yield();
    }
    while (!second.try_lock()) {
      std::this_thread::yield();
    }
    const auto amount = static_cast<std::int64_t>(1 + random.below(100));
    accounts()[a].balance -= amount;
    ++accounts()[a].transfers;
    accounts()[b].balance += amount;
    ++accounts()[b].transfers;
    (void)second.unlock();
    (void)first.unlock();
    (void)table.unlock_shared();
    local_transfers_.fetch_add(1, std::memory_order_relaxed);
    std::this_thread::sleep_for(std::chrono::microseconds(50));  // the lcore needs the processor
  }
}

void Server::stop_threads() {
  stop_.store(true, std::memory_order_relaxed);
  threads_.clear();
}

Expected<void> Server::run() {
  for (std::uint32_t i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this, i, seed = node_.endpoint().random().next()] {
      transfer_locally(static_cast<std::uint16_t>(0xff00 + i), seed);
    });
  }
  while (!stop_requested() && (options_.clients == 0 || served_ < options_.clients)) {
    node_.serve();
    while (const auto event = node_.manager().poll_event()) {
      ROCKHOPPER_TRY(handle(*event));
    }
  }
  stop_threads();
  return {};
}

Expected<nlohmann::json> Server::report() {
  std::int64_t sum = 0;
  std::uint64_t transfers = 0;
  std::uint64_t locked = LockWord::from(header().word).is_free() ? 0 : 1;
  for (const Account& account : accounts()) {
    sum += account.balance;
    transfers += account.transfers;
    locked += LockWord::from(account.word).is_free() ? 0 : 1;
  }
  const std::int64_t expected = options_.initial * options_.accounts;
  if (sum != expected) {
    return fail(ErrorCode::io, "the balances add up to {}, not to {}", sum, expected);
  }
  if (locked != 0 && clients_.empty()) {
    return fail(ErrorCode::io, "{} locks are held by nobody", locked);
  }
  return nlohmann::json{
      {"program", "rh-accounts"},      {"role", "server"},
      {"accounts", options_.accounts}, {"sum", sum},
      {"transfers", transfers / 2},    {"local_transfers", local_transfers_.load()},
      {"connections", served_},        {"locks", counters_to_json(*region_)}};
}

}  // namespace

Expected<nlohmann::json> serve(CmNode& node, const Options& options) {
  Server server(node, options);
  ROCKHOPPER_TRY(server.open());
  ROCKHOPPER_TRY(server.run());
  return server.report();
}

}  // namespace rockhopper::apps::accounts
