// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/common/cm_node.h"
#include "apps/common/dc_endpoint.h"
#include "apps/common/signals.h"
#include "roce/lock/region.h"
#include "tests/live/counters.h"
#include "tests/live/lock_node.h"

namespace rockhopper::live {

bool is_running(pid_t child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

Expected<void> LockNode::share_mailbox() {
  auto memory = SharedMemory::allocate(sizeof(Mailbox));
  if (!memory) return tl::make_unexpected(memory.error());
  mailbox_memory_ = std::move(*memory);
  mailbox_ = new (mailbox_memory_.data()) Mailbox;
  return {};
}

namespace {

using roce::cm::Event;
using roce::cm::EventType;

constexpr std::uint32_t kContexts = 4096;  // sessions of DC

class LockTarget final : public LockNode {
 public:
  explicit LockTarget(const LockOptions& options) : options_(options) {}

  [[nodiscard]] Expected<void> share() override {
    if (auto shared = share_mailbox(); !shared) return shared;
    auto memory =
        SharedMemory::allocate(options_.records * record_stride(options_.bytes), options_.memory);
    if (!memory) return tl::make_unexpected(memory.error());
    memory_ = std::move(*memory);
    return {};
  }
  [[nodiscard]] Expected<void> run_engine(apps::Endpoint& endpoint) override;
  void run_application(pid_t engine) override;
  void report() override { fmt::print("{}\n", mailbox().report.data()); }

 private:
  struct Peer {
    roce::QueuePair* qp;
    roce::cm::Connection* connection;
    std::array<std::uint8_t, kIntroductionBytes> introduction;
  };

  [[nodiscard]] Expected<void> serve(apps::Endpoint& endpoint);
  [[nodiscard]] Expected<void> serve_connections(apps::Endpoint& endpoint);
  [[nodiscard]] Expected<void> accept(apps::CmNode& node, const Event& request);
  void leave(apps::CmNode& node, const Peer& peer) const;
  [[nodiscard]] Expected<void> serve_dynamic_connections(apps::Endpoint& endpoint);

  const LockOptions& options_;
  SharedMemory memory_;
  std::optional<roce::lock::Region> region_;
  roce::ProtectionDomain pd_{};
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::list<Peer> peers_;
  nlohmann::json counters_;
};

/// The application: it owns the memory, and tells others of it.
void LockTarget::run_application(pid_t engine) {
  const Mailbox& known = mailbox();
  const nlohmann::json introduction{{"engine", engine},
                                    {"address", known.address.to_string()},
                                    {"base", reinterpret_cast<std::uintptr_t>(memory_.data())},
                                    {"records", options_.records},
                                    {"stride", record_stride(options_.bytes)},
                                    {"rkey", static_cast<std::uint32_t>(known.key)},
                                    {"number", known.number.value},
                                    {"access_key", known.access_key}};
  fmt::print("{}\n", introduction.dump());
  std::fflush(stdout);
  while (!apps::stop_requested() && is_running(engine)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Expected<void> LockTarget::run_engine(apps::Endpoint& endpoint) {
  roce::Engine& engine = endpoint.engine();
  pd_ = engine.allocate_pd();
  auto registered = engine.register_memory(pd_, memory_.data(), memory_.size(), roce::kAccessAll);
  if (!registered) return tl::make_unexpected(registered.error());
  auto cq = roce::CompletionQueue::create(16);
  if (!cq) return tl::make_unexpected(cq.error());
  cq_ = std::move(*cq);
  region_.emplace(memory_.data(), memory_.size(),
                  roce::lock::Region::Config{.lease_us = options_.lease_us});
  engine.attach_locks(*region_);
  mailbox().key = registered->key;
  mailbox().address = endpoint.addresses().front().address;
  auto served = serve(endpoint);
  (void)engine.detach_locks(*region_);
  region_->visit_counters(
      [](void* to, const char* name, std::uint64_t value) {
        (*static_cast<nlohmann::json*>(to))["locks"][name] = value;
      },
      &counters_);
  const std::string report = counters_.dump();
  std::copy_n(report.data(), std::min(report.size(), mailbox().report.size() - 1),
              mailbox().report.data());
  return served;
}

Expected<void> LockTarget::serve(apps::Endpoint& endpoint) {
  if (auto up = endpoint.wait_for_link(); !up) return up;
  return options_.transport == "rc" ? serve_connections(endpoint)
                                    : serve_dynamic_connections(endpoint);
}

Expected<void> LockTarget::serve_connections(apps::Endpoint& endpoint) {
  auto made = apps::CmNode::create(endpoint, {});
  if (!made) return tl::make_unexpected(made.error());
  apps::CmNode& node = **made;
  if (auto listening = node.listen(roce::cm::ip_service_id(roce::cm::PortSpace::tcp, kLockPort),
                                   512, roce::cm::kCapabilityLocks);
      !listening) {
    return listening;
  }
  mailbox().ready.store(true);
  while (!apps::stop_requested()) {
    node.serve();
    while (const auto event = node.manager().poll_event()) {
      if (event->type == EventType::connect_request) {
        if (auto accepted = accept(node, *event); !accepted) return accepted;
      }
    }
  }
  for (const Peer& peer : peers_) {
    leave(node, peer);
  }
  return {};
}

void LockTarget::leave(apps::CmNode& node, const Peer& peer) const {
  node.manager().release(*peer.connection);
  node.engine().destroy_qp(peer.qp);
}

Expected<void> LockTarget::accept(apps::CmNode& node, const Event& request) {
  // Whoever comes in a new life has no connections from an earlier one.
  Peer peer{.qp = nullptr, .connection = request.connection, .introduction = {}};
  const auto told = request.private_data.view();
  if (told.size() < roce::cm::IpServiceHeader::kSize + kIntroductionBytes) {
    return fail(ErrorCode::io, "a client without introduction");
  }
  std::copy_n(told.begin() + roce::cm::IpServiceHeader::kSize, kIntroductionBytes,
              peer.introduction.begin());
  std::erase_if(peers_, [&](const Peer& other) {
    const bool gone =
        other.introduction[0] == peer.introduction[0] && other.introduction != peer.introduction;
    if (gone) leave(node, other);
    return gone;
  });
  auto qp = node.engine().create_qp({.pd = pd_,
                                     .send_cq = cq_.get(),
                                     .recv_cq = cq_.get(),
                                     .max_send_wr = 1,
                                     .max_recv_wr = 0,
                                     .lock_execution = true});
  if (!qp) return tl::make_unexpected(qp.error());
  peer.qp = *qp;
  peers_.push_back(peer);
  return node.manager().accept(*request.connection, **qp, {.access_flags = roce::kAccessAll});
}

Expected<void> LockTarget::serve_dynamic_connections(apps::Endpoint& endpoint) {
  roce::Engine& engine = endpoint.engine();
  dc::EndpointConfig config;
  config.sessions.contexts = kContexts;
  config.lock_execution = true;
  auto dc = apps::DcEndpoint::create(engine, config);
  if (!dc) return tl::make_unexpected(dc.error());
  auto srq = engine.create_srq({.pd = pd_, .attributes = {.max_wr = 1}});
  if (!srq) return tl::make_unexpected(srq.error());
  dc::DctInit init;
  init.pd = pd_;
  init.srq = *srq;
  init.recv_cq = cq_.get();
  init.access_flags = roce::kAccessAll;
  auto dct = (*dc)->create_dct(init);
  if (!dct) return tl::make_unexpected(dct.error());
  mailbox().number = (*dct)->number();
  mailbox().access_key = (*dct)->access_key();
  mailbox().ready.store(true);
  while (!apps::stop_requested()) {
    (void)endpoint.turn();
  }
  counters_["dc"] = to_json(*dc);
  (*dc)->destroy_dct(*dct);
  return engine.destroy_srq(*srq);
}

}  // namespace

std::unique_ptr<LockNode> make_lock_target(const LockOptions& options) {
  return std::make_unique<LockTarget>(options);
}

}  // namespace rockhopper::live
