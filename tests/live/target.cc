// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <rte_ether.h>

#include "apps/common/dc_endpoint.h"
#include "apps/common/page_memory.h"
#include "apps/common/signals.h"
#include "tests/live/counters.h"
#include "tests/live/node.h"

namespace rockhopper::live {
namespace {

constexpr std::uint32_t kReceives = 16;

dc::EndpointConfig endpoint_config(const TargetOptions& options) {
  dc::EndpointConfig config;
  config.sessions.contexts = options.contexts;
  config.sessions.tombstone_ns = std::uint64_t{options.tombstone_ms} * 1'000'000;
  config.lease_us = options.lease_ms * 1000;
  config.idle_ns = std::uint64_t{options.idle_us} * 1000;
  config.cnaks_per_second = options.cnaks_per_second;
  return config;
}

std::string to_string(const rte_ether_addr& mac) {
  return fmt::format("{:02x}", fmt::join(mac.addr_bytes, ":"));
}

class Target {
 public:
  Target(apps::Endpoint& endpoint, const TargetOptions& options)
      : endpoint_(endpoint), options_(options) {}

  [[nodiscard]] Expected<void> make() {
    roce::Engine& engine = endpoint_.engine();
    auto made = apps::DcEndpoint::create(engine, endpoint_config(options_));
    if (!made) return tl::make_unexpected(made.error());
    dc_ = std::move(*made);
    auto memory = apps::PageMemory::allocate(options_.words * kWordBytes + options_.memory);
    if (!memory) return tl::make_unexpected(memory.error());
    memory_ = std::move(*memory);
    const roce::ProtectionDomain pd = engine.allocate_pd();
    auto region = engine.register_memory(pd, memory_.data(), memory_.size(), roce::kAccessAll);
    if (!region) return tl::make_unexpected(region.error());
    region_ = *region;
    auto cq = roce::CompletionQueue::create(kReceives);
    if (!cq) return tl::make_unexpected(cq.error());
    cq_ = std::move(*cq);
    auto srq = engine.create_srq({.pd = pd, .attributes = {.max_wr = kReceives}});
    if (!srq) return tl::make_unexpected(srq.error());
    srq_ = *srq;
    return make_targets(pd);
  }

  ~Target() {
    for (dc::Dct* dct : targets_) {
      dc_->destroy_dct(dct);
    }
    if (srq_ != nullptr) (void)endpoint_.engine().destroy_srq(srq_);
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  void introduce() const {
    nlohmann::json targets = nlohmann::json::array();
    for (const dc::Dct* dct : targets_) {
      targets.push_back({{"number", dct->number().value}, {"access_key", dct->access_key()}});
    }
    print({{"address", endpoint_.addresses().front().address.to_string()},
           {"mac", to_string(endpoint_.mac())},
           {"words", region_.iova},
           {"memory", region_.iova + options_.words * kWordBytes},
           {"rkey", static_cast<std::uint32_t>(region_.key)},
           {"targets", std::move(targets)}});
  }

  void report() const {
    nlohmann::json words = nlohmann::json::array();
    for (std::uint32_t i = 0; i < options_.words; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, memory_.data() + i * kWordBytes, kWordBytes);
      words.push_back(word);
    }
    print({{"words", std::move(words)}, {"dc", to_json(dc_)}});
  }

 private:
  [[nodiscard]] Expected<void> make_targets(roce::ProtectionDomain pd) {
    for (std::uint32_t i = 0; i < options_.targets; ++i) {
      dc::DctInit init;
      init.pd = pd;
      init.srq = srq_;
      init.recv_cq = cq_.get();
      init.access_flags = roce::kAccessAll;
      init.path_mtu = roce::PathMtu::mtu_4096;
      auto dct = dc_->create_dct(init);
      if (!dct) return tl::make_unexpected(dct.error());
      targets_.push_back(*dct);
    }
    return {};
  }

  static void print(const nlohmann::json& object) {
    fmt::print("{}\n", object.dump());
    std::fflush(stdout);
  }

  apps::Endpoint& endpoint_;
  const TargetOptions& options_;
  apps::PageMemory memory_;
  roce::MemoryRegion region_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  roce::SharedReceiveQueue* srq_ = nullptr;
  apps::DcEndpoint dc_;
  std::vector<dc::Dct*> targets_;
};

}  // namespace

Expected<void> run_target(apps::Endpoint& endpoint, const TargetOptions& options) {
  Target target(endpoint, options);
  if (auto made = target.make(); !made) return made;
  if (auto up = endpoint.wait_for_link(); !up) return up;
  target.introduce();
  while (!apps::stop_requested()) {
    (void)endpoint.turn();
  }
  target.report();
  return {};
}

}  // namespace rockhopper::live
