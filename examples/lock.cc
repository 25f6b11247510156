// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Transfers under locks. Accounts are in one node's memory, each with a lock word of its own.
// Clients move money between them and count it meanwhile. A client posts all of a transfer at once:
// acquire two locks, change two balances, release. The target executes it when it has the locks, so
// nobody ever sees money under way, and a transfer takes one round trip.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "roce/lock/lock_word.h"
#include "roce/lock/region.h"
#include "roce/lock/scope_builder.h"
#include "support.h"

using example::must;
using namespace rockhopper;
using roce::lock::ScopeBuilder;

namespace {

constexpr unsigned kAccounts = 4;
constexpr unsigned kRounds = 200;
constexpr std::int64_t kEach = 1000;

struct Account {
  std::uint64_t word;  ///< its lock; 0 is free
  std::int64_t balance;
};
/// `all` is held shared by who changes some accounts, and exclusively by who counts them all.
struct Table {
  std::uint64_t all;
  std::array<Account, kAccounts> accounts;
};

/// A connection to the table, with one scope under way at a time.
struct Client {
  Client(Node& own, const Node& bank, roce::QueuePair& bank_qp, const roce::MemoryRegion& table)
      : far(table), domain(own.engine().allocate_pd()) {
    qp = must(own.engine().create_qp({.pd = domain,
                                      .send_cq = completions.get(),
                                      .recv_cq = completions.get(),
                                      .lock_execution = true}));
    example::connect(*qp, own, bank, bank_qp);
    region =
        must(own.engine().register_memory(domain, &found, sizeof found, roce::kAccessLocalWrite));
  }

  [[nodiscard]] roce::lock::Word word(std::uint64_t offset, bool shared = false) const {
    return {.addr = far.iova + offset, .rkey = far.key, .shared = shared};
  }
  [[nodiscard]] static std::uint64_t place(unsigned account) {
    return offsetof(Table, accounts) + account * sizeof(Account);
  }
  [[nodiscard]] bool add(ScopeBuilder& scope, unsigned account, std::int64_t amount) const {
    const roce::Sge old{region.iova, sizeof(std::uint64_t), region.key};
    return scope.access({.sg_list = {&old, 1},
                         .opcode = roce::WrOpcode::atomic_fetch_and_add,
                         .remote_addr = far.iova + place(account) + offsetof(Account, balance),
                         .rkey = far.key,
                         .compare_add = static_cast<std::uint64_t>(amount)});
  }
  /// Both accounts exclusively, and the table shared.
  [[nodiscard]] bool transfer(unsigned from, unsigned to, std::int64_t amount) {
    ScopeBuilder scope(word(place(from)));
    return scope.also(word(place(to))) && scope.also(word(offsetof(Table, all), true)) &&
           add(scope, from, -amount) && add(scope, to, amount) && post(scope);
  }
  /// The table exclusively: no transfer is halfway.
  [[nodiscard]] bool count() {
    ScopeBuilder scope(word(offsetof(Table, all)));
    const roce::Sge here{region.iova, sizeof found, region.key};
    return scope.read(here, far.iova + offsetof(Table, accounts), far.key) && post(scope);
  }
  [[nodiscard]] bool post(ScopeBuilder& scope) {
    return scope.post(*qp, 1, &result) == roce::PostResult::ok;
  }

  std::unique_ptr<roce::CompletionQueue> completions = must(roce::CompletionQueue::create(64));
  std::array<Account, kAccounts> found{};  ///< what a count has read
  roce::lock::ScopeResult result;
  roce::MemoryRegion far;  ///< the table
  roce::ProtectionDomain domain;
  roce::MemoryRegion region;
  roce::QueuePair* qp = nullptr;
};

}  // namespace

int main() {
  alignas(64) Table table{};
  for (Account& account : table.accounts) {
    account.balance = kEach;
  }
  roce::lock::Region locks(&table, sizeof table, {});
  const auto none = must(roce::CompletionQueue::create(1));
  // Clients outlive the nodes, which use their completion queues.
  std::array<std::unique_ptr<Client>, 3> clients;
  example::TwoNodes nodes;

  roce::Engine& bank = nodes.far->engine();
  const roce::ProtectionDomain domain = bank.allocate_pd();
  const roce::MemoryRegion region =
      must(bank.register_memory(domain, &table, sizeof table, roce::kAccessAll));
  bank.attach_locks(locks);  // it serves them from now on
  for (auto& client : clients) {
    roce::QueuePair* qp = must(bank.create_qp(
        {.pd = domain, .send_cq = none.get(), .recv_cq = none.get(), .lock_execution = true}));
    client = std::make_unique<Client>(*nodes.near, *nodes.far, *qp, region);
    example::connect(*qp, *nodes.far, *nodes.near, *client->qp);
  }

  // Two clients send money in circles; the third counts meanwhile.
  std::array<unsigned, 3> begun{};
  std::array<unsigned, 3> ended{};
  bool good = true;
  const auto begin = [&](unsigned who) {
    const unsigned turn = begun[who]++;
    const unsigned from = (who + turn) % kAccounts;
    good = good && (who == 2 ? clients[2]->count()
                             : clients[who]->transfer(from, (from + 1 + who) % kAccounts, 7));
  };
  for (unsigned who = 0; who < clients.size(); ++who) {
    begin(who);
  }
  while (good && (ended[0] < kRounds || ended[1] < kRounds || ended[2] < kRounds)) {
    nodes.turn();
    for (unsigned who = 0; who < clients.size(); ++who) {
      roce::Completion completion;  // one for each scope; `result` says what became of it
      if (clients[who]->completions->poll({&completion, 1}) == 0) continue;
      ++ended[who];
      good = good && clients[who]->result.status == roce::WcStatus::success;
      std::int64_t sum = 0;
      for (const Account& account : clients[who]->found) {
        sum += account.balance;
      }
      if (who == 2) good = good && sum == kEach * kAccounts;
      if (begun[who] < kRounds) begin(who);
    }
  }
  example::verify(good, "each scope got its locks, and no count saw money under way");
  std::int64_t sum = 0;
  bool free = true;
  for (const Account& account : table.accounts) {
    sum += account.balance;
    free = free && roce::lock::LockWord::from(account.word).is_free();
  }
  example::verify(sum == kEach * kAccounts, "no money is lost");
  example::verify(free, "all locks are free again");
  std::printf("%u transfers and %u counts; %llu requests waited at the target\n",
              ended[0] + ended[1], ended[2], 0ull + locks.statistics().waits.load());
  return 0;
}
