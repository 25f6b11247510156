// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <array>
#include <cstring>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/page_memory.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "stack/random.h"
#include "tests/live/node.h"

namespace rockhopper::live {
namespace {

constexpr std::uint64_t kFinishNs = 60'000'000'000;
constexpr std::uint32_t kTurnsPerClock = 256;

/// What a target has said of itself.
struct Peer {
  struct Target {
    wire::Qpn number;
    std::uint64_t access_key;
  };
  stack::IpAddress address;
  std::uint64_t words = 0;
  std::uint64_t memory = 0;
  roce::MemoryKey rkey{};
  std::vector<Target> targets;
};

Expected<Peer> read_peer(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return fail(ErrorCode::invalid_argument, "{}: no target in it", path);
  Peer peer;
  const auto address = stack::IpAddress::parse(json["address"].get<std::string>());
  if (!address) return fail(ErrorCode::invalid_argument, "{}: no address in it", path);
  peer.address = *address;
  peer.words = json["words"];
  peer.memory = json["memory"];
  peer.rkey = roce::MemoryKey{json["rkey"].get<std::uint32_t>()};
  for (const auto& target : json["targets"]) {
    peer.targets.push_back({wire::Qpn{target["number"]}, target["access_key"]});
  }
  return peer;
}

/// One request at a time goes through a slot; it has memory of its own at both ends.
struct Slot {
  dc::Dci* dci = nullptr;
  std::uint8_t stream = 0;
  std::uint32_t target = 0;
  bool written = false;
};

class Initiator {
 public:
  Initiator(apps::Endpoint& endpoint, const InitiatorOptions& options, Peer peer,
            std::uint64_t seed)
      : endpoint_(endpoint),
        options_(options),
        peer_(std::move(peer)),
        random_(seed),
        fetches_(options.operation == "faa"),
        bytes_(fetches_ ? kWordBytes : options.size),
        outcomes_(peer_.targets.size()) {}
  ~Initiator() {
    for (dc::Dci* dci : initiators_) {
      dc_->destroy_dci(dci);
    }
    if (ah_ != nullptr) endpoint_.engine().destroy_ah(ah_);
  }
  Initiator(const Initiator&) = delete;
  Initiator& operator=(const Initiator&) = delete;

  [[nodiscard]] Expected<void> make();
  [[nodiscard]] Expected<void> run();

 private:
  struct Outcomes {
    std::uint64_t succeeded = 0;
    std::uint64_t unknown = 0;
  };

  [[nodiscard]] Expected<void> make_initiators(roce::ProtectionDomain pd);
  [[nodiscard]] Expected<void> post(std::size_t index, roce::WrOpcode opcode);
  [[nodiscard]] Expected<void> poll(bool more);
  [[nodiscard]] Expected<void> finish();
  [[nodiscard]] Expected<void> read_back();
  [[nodiscard]] std::byte* memory_of(std::size_t slot) const {
    return memory_.data() + slot * 2 * bytes_;
  }
  [[nodiscard]] bool wants_more(std::uint64_t now_ns) const {
    return !apps::stop_requested() && (options_.messages == 0 || posted_ < options_.messages) &&
           (options_.seconds == 0 ||
            static_cast<double>(now_ns - began_ns_) * 1e-9 < options_.seconds);
  }
  void report(double seconds) const;

  apps::Endpoint& endpoint_;
  const InitiatorOptions& options_;
  const Peer peer_;
  stack::Random random_;
  bool fetches_;
  std::uint32_t bytes_;
  apps::PageMemory memory_;  ///< of each slot: what is sent, and what READs return
  roce::MemoryRegion region_;
  std::unique_ptr<roce::CompletionQueue> cq_;
  std::unique_ptr<dc::Endpoint> dc_;
  roce::AddressHandle* ah_ = nullptr;
  std::vector<dc::Dci*> initiators_;
  std::vector<Slot> slots_;
  std::vector<Outcomes> outcomes_;
  std::uint64_t began_ns_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
};

Expected<void> Initiator::make() {
  roce::Engine& engine = endpoint_.engine();
  auto made = dc::Endpoint::create(engine, {.sessions = {.contexts = 1, .tombstones = 1}});
  if (!made) return tl::make_unexpected(made.error());
  dc_ = std::move(*made);
  slots_.resize(std::size_t{options_.initiators} * options_.streams * options_.window);
  auto memory = apps::PageMemory::allocate(slots_.size() * 2 * bytes_);
  if (!memory) return tl::make_unexpected(memory.error());
  memory_ = std::move(*memory);
  for (std::byte& byte : memory_.bytes()) {
    byte = static_cast<std::byte>(random_.next());
  }
  const roce::ProtectionDomain pd = engine.allocate_pd();
  auto region = engine.register_memory(pd, memory_.data(), memory_.size(), roce::kAccessLocalWrite);
  if (!region) return tl::make_unexpected(region.error());
  region_ = *region;
  auto cq = roce::CompletionQueue::create(static_cast<std::uint32_t>(slots_.size()));
  if (!cq) return tl::make_unexpected(cq.error());
  cq_ = std::move(*cq);
  const bool ipv4 = peer_.address.is_ipv4();
  const auto source = endpoint_.address_of_family(ipv4);
  if (!source) return tl::make_unexpected(source.error());
  auto ah = engine.create_ah(pd, {.source = *source, .destination = peer_.address});
  if (!ah) return tl::make_unexpected(ah.error());
  ah_ = *ah;
  return make_initiators(pd);
}

Expected<void> Initiator::make_initiators(roce::ProtectionDomain pd) {
  std::size_t slot = 0;
  for (std::uint32_t i = 0; i < options_.initiators; ++i) {
    dc::DciInit init;
    init.pd = pd;
    init.send_cq = cq_.get();
    init.max_send_wr = options_.window;
    init.sq_sig_all = true;
    init.streams = static_cast<std::uint8_t>(options_.streams);
    init.path_mtu = static_cast<roce::PathMtu>(dc_->max_path_mtu() >= 4096 ? 4096 : 1024);
    init.timeout = options_.timeout;
    init.connect_tries = UINT16_MAX;  // there may be fewer contexts than streams
    auto dci = dc_->create_dci(init);
    if (!dci) return tl::make_unexpected(dci.error());
    initiators_.push_back(*dci);
    for (std::uint32_t n = 0; n < options_.streams * options_.window; ++n) {
      slots_[slot].dci = *dci;
      slots_[slot].stream = static_cast<std::uint8_t>(n / options_.window);
      slots_[slot++].target = static_cast<std::uint32_t>(random_.below(peer_.targets.size()));
    }
  }
  return {};
}

Expected<void> Initiator::post(std::size_t index, roce::WrOpcode opcode) {
  Slot& slot = slots_[index];
  const bool reads = opcode == roce::WrOpcode::rdma_read;
  const auto targets = static_cast<std::uint32_t>(peer_.targets.size());
  if (!reads && targets > 1) {
    slot.target =
        (slot.target + 1 + static_cast<std::uint32_t>(random_.below(targets - 1))) % targets;
  }
  const std::uint64_t own = region_.iova + index * 2 * bytes_;
  const roce::Sge sge{
      .addr = fetches_ || reads ? own + bytes_ : own, .length = bytes_, .lkey = region_.key};
  roce::SendWr wr;
  wr.wr_id = index;
  wr.sg_list = {&sge, 1};
  wr.opcode = opcode;
  wr.ah = ah_;
  wr.remote_qpn = peer_.targets[slot.target].number;
  wr.dc_access_key = peer_.targets[slot.target].access_key;
  wr.rkey = peer_.rkey;
  wr.remote_addr = fetches_
                       ? peer_.words + (std::uint64_t{options_.place} + slot.target) * kWordBytes
                       : peer_.memory + options_.place + index * bytes_;
  wr.compare_add = 1;
  const auto result = slot.dci->post_send(wr, slot.stream);
  if (result != roce::PostResult::ok) {
    return fail(ErrorCode::invalid_state, "a request was refused: {}", to_string(result));
  }
  ++posted_;
  return {};
}

/// Takes what has completed, and puts the next request in its place if there is to be one.
Expected<void> Initiator::poll(bool more) {
  std::array<roce::Completion, 64> completions;
  const std::size_t count = cq_->poll(completions);
  for (std::size_t i = 0; i < count; ++i) {
    const roce::Completion& done = completions[i];
    Slot& slot = slots_.at(done.wr_id);
    ++completed_;
    if (done.status == roce::WcStatus::success) {
      ++outcomes_[slot.target].succeeded;
      slot.written = true;
    } else if (done.status == roce::WcStatus::outcome_unknown) {
      ++outcomes_[slot.target].unknown;
    } else {
      return fail(ErrorCode::io, "a request ended with {}", to_string(done.status));
    }
    if (more && (options_.messages == 0 || posted_ < options_.messages)) {
      if (auto posted = post(done.wr_id, fetches_ ? roce::WrOpcode::atomic_fetch_and_add
                                                  : roce::WrOpcode::rdma_write);
          !posted) {
        return posted;
      }
    }
  }
  return {};
}

Expected<void> Initiator::finish() {
  const std::uint64_t deadline_ns = apps::steady_now_ns() + kFinishNs;
  while (completed_ < posted_) {
    if (apps::steady_now_ns() > deadline_ns) {
      return fail(ErrorCode::timeout, "{} requests do not complete", posted_ - completed_);
    }
    (void)endpoint_.turn();
    if (auto polled = poll(false); !polled) return polled;
  }
  return {};
}

Expected<void> Initiator::read_back() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].written) continue;
    if (auto posted = post(i, roce::WrOpcode::rdma_read); !posted) return posted;
  }
  if (auto finished = finish(); !finished) return finished;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].written && std::memcmp(memory_of(i), memory_of(i) + bytes_, bytes_) != 0) {
      return fail(ErrorCode::io, "a READ returned other bytes than the WRITE before sent");
    }
  }
  return {};
}

void Initiator::report(double seconds) const {
  nlohmann::json succeeded = nlohmann::json::array();
  nlohmann::json unknown = nlohmann::json::array();
  std::uint64_t all = 0;
  for (const Outcomes& outcomes : outcomes_) {
    succeeded.push_back(outcomes.succeeded);
    unknown.push_back(outcomes.unknown);
    all += outcomes.succeeded;
  }
  const dc::Counters& counters = dc_->counters();
  const double rate = static_cast<double>(all) / seconds;
  const nlohmann::json report{{"succeeded", std::move(succeeded)},
                              {"unknown", std::move(unknown)},
                              {"connects", counters.tx_connect.value()},
                              {"accepts", counters.rx_accept.value()},
                              {"restarts", counters.restarts.value()},
                              {"lost_sessions", counters.lost_sessions.value()},
                              {"seconds", seconds},
                              {"mops", rate * 1e-6},
                              {"gbit_per_s", rate * bytes_ * 8e-9}};
  fmt::print("{}\n", report.dump());
}

Expected<void> Initiator::run() {
  began_ns_ = apps::steady_now_ns();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (auto posted =
            post(i, fetches_ ? roce::WrOpcode::atomic_fetch_and_add : roce::WrOpcode::rdma_write);
        !posted) {
      return posted;
    }
  }
  bool more = true;
  for (std::uint32_t turns = 0; more; ++turns) {
    (void)endpoint_.turn();
    if (turns % kTurnsPerClock == 0) more = wants_more(apps::steady_now_ns());
    if (auto polled = poll(more); !polled) return polled;
  }
  if (auto finished = finish(); !finished) return finished;
  const double seconds = static_cast<double>(apps::steady_now_ns() - began_ns_) * 1e-9;
  const auto outcomes = outcomes_;
  if (!fetches_) {
    if (auto same = read_back(); !same) return same;
    outcomes_ = outcomes;
  }
  report(seconds);
  return {};
}

}  // namespace

Expected<void> run_initiator(apps::Endpoint& endpoint, const InitiatorOptions& options,
                             std::uint64_t seed) {
  auto peer = read_peer(options.peer);
  if (!peer) return tl::make_unexpected(peer.error());
  Initiator initiator(endpoint, options, std::move(*peer), seed);
  if (auto made = initiator.make(); !made) return made;
  if (auto up = endpoint.wait_for_link(); !up) return up;
  return initiator.run();
}

}  // namespace rockhopper::live
