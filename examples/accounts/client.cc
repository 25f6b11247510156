// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <array>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/page_memory.h"
#include "apps/common/progress.h"
#include "apps/common/steady_clock.h"
#include "examples/accounts/accounts.h"
#include "roce/lock/fallback.h"
#include "roce/lock/scope_builder.h"

namespace rockhopper::apps::accounts {

using roce::PostResult;
using roce::WcStatus;
using roce::WrOpcode;
using roce::cm::Event;
using roce::cm::EventType;
using roce::lock::FallbackScope;
using roce::lock::ScopeBuilder;
using roce::lock::ScopeResult;
using wire::LockCause;

namespace {

/// Of READs, and of what atomics return; for each connection.
struct Buffers {
  std::array<Account, kAccountsMax> accounts;
  std::array<std::uint64_t, 4> found;
  std::uint64_t scratch;
};

struct Counts {
  std::uint64_t transfers = 0;
  std::uint64_t audits = 0;
  std::uint64_t waited_too_long = 0;
};

/// A connection, with one scope on its way at a time.
class Teller {
 public:
  Teller(CmNode& node, const Options& options, Buffers& buffers, roce::MemoryKey key)
      : node_(node), options_(options), buffers_(buffers), key_(key) {}
  ~Teller();
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;

  [[nodiscard]] Expected<void> connect(roce::ProtectionDomain pd, const roce::AddressVector& path);
  [[nodiscard]] Expected<void> on_established(const Event& event);
  [[nodiscard]] bool is(const roce::cm::Connection* connection) const {
    return connection_ == connection;
  }
  void begin(std::uint64_t transfers) { left_ = transfers; }
  /// Goes on: false when all is done.
  [[nodiscard]] Expected<bool> turn();
  [[nodiscard]] Expected<void> disconnect();
  [[nodiscard]] bool is_over() const {
    return connection_->state() == roce::cm::State::timewait ||
           connection_->state() == roce::cm::State::closed;
  }

  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] const std::optional<TableInfo>& table() const { return table_; }
  [[nodiscard]] bool locks_at_target() const { return fallback_ == nullptr; }

 private:
  [[nodiscard]] Expected<void> post_transfer();
  [[nodiscard]] Expected<void> post_audit();
  [[nodiscard]] Expected<void> post();
  [[nodiscard]] Expected<void> on_done();
  [[nodiscard]] Expected<void> check_audit();
  [[nodiscard]] roce::lock::Word word(std::uint64_t addr, bool shared = false) const {
    return {.addr = addr, .rkey = roce::MemoryKey{table_->rkey}, .shared = shared};
  }
  [[nodiscard]] bool add(std::uint64_t addr, std::uint64_t amount, std::uint64_t& found);

  CmNode& node_;
  const Options& options_;
  Buffers& buffers_;
  roce::MemoryKey key_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  roce::QueuePair* qp_ = nullptr;
  roce::cm::Connection* connection_ = nullptr;
  std::optional<TableInfo> table_;
  std::unique_ptr<FallbackScope> fallback_;
  std::unique_ptr<ScopeBuilder> scope_;
  ScopeResult result_;
  bool busy_ = false;
  bool audits_ = false;  ///< what is on its way
  std::uint64_t left_ = 0;
  std::int64_t expected_sum_ = 0;  ///< that of the first audit; 0: there was none
  Counts counts_;
};

Teller::~Teller() {
  if (connection_ != nullptr) node_.manager().release(*connection_);
  if (qp_ != nullptr) node_.engine().destroy_qp(qp_);
}

Expected<void> Teller::connect(roce::ProtectionDomain pd, const roce::AddressVector& path) {
  ROCKHOPPER_TRY(cq_, roce::CompletionQueue::create(64));
  ROCKHOPPER_TRY(qp_, node_.engine().create_qp({.pd = pd,
                                                .send_cq = cq_.get(),
                                                .recv_cq = cq_.get(),
                                                .max_send_wr = 32,
                                                .max_recv_wr = 0,
                                                .lock_execution = !options_.standard}));
  const auto header = node_.ip_header(path);
  const roce::cm::ConnectParameters parameters{
      .path = path,
      .pkey_index = node_.pkey_index(),
      .service_id = roce::cm::ip_service_id(roce::cm::PortSpace::tcp, options_.port),
      .private_data = header,
      .qp = {.ack_timeout = static_cast<std::uint8_t>(options_.ack_timeout)},
      .offer = options_.standard ? roce::cm::kNoCapabilities : roce::cm::kCapabilityLocks};
  ROCKHOPPER_TRY(connection_, node_.manager().connect(*qp_, parameters));
  return {};
}

Expected<void> Teller::on_established(const Event& event) {
  table_ = TableInfo::parse(event.private_data.view());
  if (!table_) return fail(ErrorCode::io, "the server is no rh-accounts");
  if ((connection_->agreed() & roce::cm::kCapabilityLocks) == 0) {
    const roce::Sge scratch{reinterpret_cast<std::uintptr_t>(&buffers_.scratch),
                            sizeof buffers_.scratch, key_};
    fallback_ =
        std::make_unique<FallbackScope>(*qp_, scratch, buffers_.scratch, FallbackScope::Config{});
  }
  return {};
}

bool Teller::add(std::uint64_t addr, std::uint64_t amount, std::uint64_t& found) {
  const roce::Sge to{reinterpret_cast<std::uintptr_t>(&found), sizeof found, key_};
  roce::SendWr wr;
  wr.sg_list = {&to, 1};
  wr.opcode = WrOpcode::atomic_fetch_and_add;
  wr.remote_addr = addr;
  wr.rkey = roce::MemoryKey{table_->rkey};
  wr.compare_add = amount;
  return scope_->access(wr);
}

/// Both accounts exclusively and the table shared; where the target knows no locks, all of it.
Expected<void> Teller::post_transfer() {
  auto& random = node_.endpoint().random();
  const std::uint32_t among = options_.hot == 0
                                  ? table_->accounts
                                  : std::min<std::uint32_t>(options_.hot, table_->accounts);
  const auto from = static_cast<std::uint32_t>(random.below(among));
  const auto to = static_cast<std::uint32_t>((from + 1 + random.below(among - 1)) % among);
  const std::uint64_t amount = 1 + random.below(100);
  const std::uint64_t a = table_->account(from);
  const std::uint64_t b = table_->account(to);
  bool fits = true;
  if (locks_at_target()) {
    scope_ = std::make_unique<ScopeBuilder>(word(a));
    fits = scope_->also(word(b)) && scope_->also(word(table_->table_word(), true));
  } else {
    scope_ = std::make_unique<ScopeBuilder>(word(table_->table_word()));
  }
  fits = fits && add(a + offsetof(Account, balance), 0 - amount, buffers_.found[0]) &&
         add(a + offsetof(Account, transfers), 1, buffers_.found[1]) &&
         add(b + offsetof(Account, balance), amount, buffers_.found[2]) &&
         add(b + offsetof(Account, transfers), 1, buffers_.found[3]);
  if (!fits) return fail(ErrorCode::exhausted, "the scope of a transfer is too long");
  audits_ = false;
  return post();
}

Expected<void> Teller::post_audit() {
  scope_ = std::make_unique<ScopeBuilder>(word(table_->table_word()));
  const auto bytes = static_cast<std::uint32_t>(table_->accounts * sizeof(Account));
  const roce::Sge to{reinterpret_cast<std::uintptr_t>(buffers_.accounts.data()), bytes, key_};
  if (!scope_->read(to, table_->account(0), roce::MemoryKey{table_->rkey})) {
    return fail(ErrorCode::exhausted, "the scope of an audit is too long");
  }
  audits_ = true;
  return post();
}

Expected<void> Teller::post() {
  scope_->wait_us(options_.wait_us).owner(static_cast<std::uint16_t>(qp_->number().value));
  result_ = {};
  const PostResult posted = locks_at_target()
                                ? scope_->post(*qp_, 1, &result_)
                                : fallback_->post(*scope_, &result_, node_.endpoint().now_ns());
  if (posted != PostResult::ok) {
    return fail(ErrorCode::io, "a scope was refused: {}", to_string(posted));
  }
  busy_ = true;
  return {};
}

Expected<bool> Teller::turn() {
  const std::uint64_t now_ns = node_.endpoint().now_ns();
  std::array<roce::Completion, 8> completions;
  const std::size_t count = cq_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) {
    const roce::Completion& completion = completions[i];
    if (fallback_ != nullptr) {
      (void)fallback_->take(completion, now_ns);
      continue;
    }
    if (completion.status != WcStatus::success && completion.status != WcStatus::lock_failed) {
      return fail(ErrorCode::io, "a scope ended with {}", to_string(completion.status));
    }
    ROCKHOPPER_TRY(on_done());
  }
  if (fallback_ != nullptr && busy_) {
    fallback_->poll(now_ns);
    if (!fallback_->busy()) ROCKHOPPER_TRY(on_done());
  }
  if (busy_) return true;
  const std::uint64_t done = counts_.transfers;
  const bool due = options_.audit_every != 0 && done % options_.audit_every == 0 &&
                   counts_.audits < done / options_.audit_every;
  if (left_ == 0 && audits_) return false;
  ROCKHOPPER_TRY(left_ == 0 || due ? post_audit() : post_transfer());
  return true;
}

Expected<void> Teller::on_done() {
  busy_ = false;
  if (result_.status == WcStatus::success) {
    if (audits_) {
      ++counts_.audits;
      return check_audit();
    }
    ++counts_.transfers;
    --left_;
    return {};
  }
  if (result_.status == WcStatus::lock_failed && result_.cause == LockCause::wait) {
    ++counts_.waited_too_long;  // nothing was done: once more
    audits_ = false;
    return {};
  }
  if (result_.status == WcStatus::lock_failed && result_.cause == LockCause::expired) {
    return fail(ErrorCode::io, "the server took the locks back in the middle of a scope (--lease)");
  }
  return fail(ErrorCode::io, "a scope ended with {}", to_string(result_.status));
}

Expected<void> Teller::check_audit() {
  const auto accounts = std::span(buffers_.accounts).first(table_->accounts);
  const std::int64_t sum =
      std::accumulate(accounts.begin(), accounts.end(), std::int64_t{0},
                      [](std::int64_t so_far, const Account& one) { return so_far + one.balance; });
  if (expected_sum_ == 0) expected_sum_ = sum;
  if (sum != expected_sum_) {
    return fail(ErrorCode::io, "the balances add up to {} in one audit and to {} in another",
                expected_sum_, sum);
  }
  return {};
}

Expected<void> Teller::disconnect() { return node_.manager().disconnect(*connection_); }

class Client {
 public:
  Client(CmNode& node, const Options& options) : node_(node), options_(options) {}
  ~Client() {
    tellers_.clear();
    if (region_.base != nullptr) (void)node_.engine().deregister_memory(region_.key);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] Expected<void> connect();
  [[nodiscard]] Expected<void> work();
  [[nodiscard]] Expected<void> disconnect();
  [[nodiscard]] nlohmann::json report() const;

 private:
  [[nodiscard]] Counts sum() const;

  CmNode& node_;
  const Options& options_;
  PageMemory memory_;
  roce::MemoryRegion region_{};
  std::deque<Teller> tellers_;
  double seconds_ = 0;
};

Expected<void> Client::connect() {
  const auto server = stack::IpAddress::parse(options_.host);
  if (!server) return fail(ErrorCode::invalid_argument, "{}: no IP address", options_.host);
  ROCKHOPPER_TRY(auto own, node_.endpoint().address_of_family(server->is_ipv4()));
  const roce::AddressVector path{
      .source = own,
      .destination = *server,
      .traffic_class = static_cast<std::uint8_t>(options_.endpoint.traffic_class)};
  ROCKHOPPER_TRY(memory_, PageMemory::allocate(options_.connections * sizeof(Buffers)));
  const roce::ProtectionDomain pd = node_.engine().allocate_pd();
  ROCKHOPPER_TRY(region_, node_.engine().register_memory(pd, memory_.data(), memory_.size(),
                                                         roce::kAccessLocalWrite));
  auto* buffers = reinterpret_cast<Buffers*>(memory_.data());
  for (std::uint32_t i = 0; i < options_.connections; ++i) {
    Teller& teller = tellers_.emplace_back(node_, options_, buffers[i], region_.key);
    ROCKHOPPER_TRY(teller.connect(pd, path));
  }
  for (std::uint32_t i = 0; i < options_.connections; ++i) {
    ROCKHOPPER_TRY(auto event, node_.wait_event("the server's answer"));
    if (event.type != EventType::established) return tl::make_unexpected(describe(event));
    for (Teller& teller : tellers_) {
      if (!teller.is(event.connection)) continue;
      ROCKHOPPER_TRY(teller.on_established(event));
    }
  }
  return {};
}

Counts Client::sum() const {
  Counts all;
  for (const Teller& teller : tellers_) {
    all.transfers += teller.counts().transfers;
    all.audits += teller.counts().audits;
    all.waited_too_long += teller.counts().waited_too_long;
  }
  return all;
}

Expected<void> Client::work() {
  const std::uint64_t each = options_.transfers / options_.connections;
  std::uint64_t rest = options_.transfers % options_.connections;
  for (Teller& teller : tellers_) {
    teller.begin(each + (rest > 0 ? 1 : 0));
    rest -= rest > 0 ? 1 : 0;
  }
  Progress progress("transfers");
  const std::uint64_t start_ns = steady_now_ns();
  Expected<void> outcome;
  auto waited = node_.wait(
      [&] {
        bool more = false;
        for (Teller& teller : tellers_) {
          auto goes_on = teller.turn();
          if (!goes_on) {
            outcome = tl::make_unexpected(goes_on.error());
            return true;
          }
          more = more || *goes_on;
        }
        progress.update(sum().transfers, options_.transfers);
        while (const auto event = node_.manager().poll_event()) {
          outcome = tl::make_unexpected(describe(*event));
          return true;
        }
        return !more;
      },
      "the transfers", true);
  seconds_ = static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  return waited ? outcome : waited;
}

Expected<void> Client::disconnect() {
  for (Teller& teller : tellers_) {
    ROCKHOPPER_TRY(teller.disconnect());
  }
  return node_.wait(
      [&] {
        return std::ranges::all_of(tellers_, [](const Teller& one) { return one.is_over(); });
      },
      "the server to confirm the end");
}

nlohmann::json Client::report() const {
  const Counts counts = sum();
  return nlohmann::json{
      {"program", "rh-accounts"},
      {"role", "client"},
      {"locks_at_target", tellers_.front().locks_at_target()},
      {"connections", tellers_.size()},
      {"transfers", counts.transfers},
      {"audits", counts.audits},
      {"waited_too_long", counts.waited_too_long},
      {"seconds", seconds_},
      {"transfers_per_second", static_cast<double>(counts.transfers) / std::max(seconds_, 1e-9)}};
}

}  // namespace

Expected<nlohmann::json> transfer(CmNode& node, const Options& options) {
  Client client(node, options);
  ROCKHOPPER_TRY(client.connect());
  ROCKHOPPER_TRY(client.work());
  ROCKHOPPER_TRY(client.disconnect());
  return client.report();
}

}  // namespace rockhopper::apps::accounts
