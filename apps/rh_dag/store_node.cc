// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/store_node.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/counters.h"
#include "apps/common/signals.h"
#include "apps/rh_dag/functions.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::uint64_t kTurnsPerDecision = 16;

/// Above those of a server that was here before, if it has made fewer than 2^18 records a second
/// since it began; below 2^48 for 34 years. So what still points to its records finds none.
std::uint64_t first_incarnation() {
  using std::chrono::seconds;
  constexpr auto kBegin = seconds(1'735'689'600);  // 2025
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto passed = std::max(std::chrono::duration_cast<seconds>(now) - kBegin, seconds(1));
  return static_cast<std::uint64_t>(passed.count()) << 18;
}

}  // namespace

StoreNode::~StoreNode() {
  unpublish();
  // It tells the home of clients that are gone.
  server_.reset();
  parser_.reset();
}

Expected<std::unique_ptr<StoreNode>> StoreNode::create(const ServeOptions& options,
                                                       const EndpointConfig& config,
                                                       const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  std::unique_ptr<StoreNode> node(new StoreNode(options, std::move(endpoint)));
  ROCKHOPPER_TRY(node->set_up());
  return node;
}

Expected<void> StoreNode::set_up() {
  // As many as a window of nodes has under way.
  ROCKHOPPER_TRY(open_dc({.responder_resources = roce::kMaxRdAtomic}));
  ROCKHOPPER_TRY(memory_, PageMemory::allocate(options_.memory_bytes));
  ROCKHOPPER_TRY(
      store_, dag::Store::create(memory_.bytes(),
                                 {.records = options_.records,
                                  .hash_bits = options_.hash_bits,
                                  .capacity_max = static_cast<std::uint32_t>(options_.record_max),
                                  .quarantine_ns = options_.quarantine_ns,
                                  .first_incarnation = first_incarnation()}));
  ROCKHOPPER_TRY(make_home());
  ROCKHOPPER_TRY(server_,
                 dag::Server::create(engine(), *dc(), *store_, *this,
                                     {.max_clients = options_.clients_max,
                                      .lease_ns = options_.lease_ns,
                                      .path_mtu = static_cast<roce::PathMtu>(offer().path_mtu),
                                      .timeout = static_cast<std::uint8_t>(options_.ack_timeout),
                                      .application = home_.get(),
                                      .application_memory = board_.bytes()}));
  ROCKHOPPER_TRY(publish("dag_server", "dag", *server_));
  return publish("dag_home", "home", *home_);
}

Expected<void> StoreNode::make_home() {
  ROCKHOPPER_TRY(functions_, make_functions(Wait::sleep, &stop_requested));
  const dag::HomeConfig config{.board = {.runs = options_.runs, .workers = options_.workers}};
  ROCKHOPPER_TRY(board_, PageMemory::allocate(config.board.bytes()));
  ROCKHOPPER_TRY(home_, dag::Home::create(*store_, board_.bytes(), *this, config));
  parser_ = std::make_unique<GraphParser>(functions_, config.limits);
  return {};
}

Offer StoreNode::offer() const { return {.path_mtu = own_path_mtu(options_.path_mtu)}; }

Expected<Welcome> StoreNode::admit(const Hello& hello) {
  ROCKHOPPER_TRY(auto own, endpoint().address_of_family(hello.gid.is_ipv4()));
  ROCKHOPPER_TRY(endpoint().check_peer(hello.gid));
  const auto client = target_address(
      own, {.gid = hello.gid, .qpn = hello.target.value, .psn = 0, .access_key = hello.access_key});
  ROCKHOPPER_TRY(auto grant, server_->add_client(client, update_time()));
  return Welcome{.gid = own, .grant = grant};
}

void StoreNode::dismiss(dag::ClientId id) { server_->remove_client(id, update_time()); }

void StoreNode::on_fenced(dag::ClientId id) {
  if (on_fenced_) on_fenced_(id);
}

void StoreNode::on_submitted(dag::RunId run, std::vector<std::byte> image) {
  parser_->submit(run, std::move(image));
}

void StoreNode::on_run_changed(dag::RunId run, dag::RunPhase /*phase*/) {
  changed_runs_.push_back(run);
}

bool StoreNode::decide_runs() {
  auto parsed = parser_->take();
  if (parsed) home_->decide(parsed->run, std::move(parsed->graph));
  return parsed.has_value();
}

void StoreNode::print_changed_runs() {
  for (const dag::Home::RunStatus& run : home_->runs()) {
    if (std::find(changed_runs_.begin(), changed_runs_.end(), run.id) == changed_runs_.end()) {
      continue;
    }
    fmt::print(stderr, "run {}: {}{}{}\n", run.name, dag::to_string(run.phase),
               run.text.empty() ? "" : ": ", run.text);
  }
  changed_runs_.clear();
}

bool StoreNode::progress(std::uint64_t now_ns) {
  if (stopped_) return false;
  bool worked = server_->progress(now_ns);
  if (++turns_ % kTurnsPerDecision == 0) worked = decide_runs() || worked;
  worked = home_->progress(now_ns) || worked;
  if (!changed_runs_.empty()) print_changed_runs();
  return worked;
}

nlohmann::json StoreNode::report() const {
  return {{"records", store_->size()},
          {"free_bytes", store_->free_bytes()},
          {"counters", counters_to_json(*server_)},
          {"home", counters_to_json(*home_)}};
}

}  // namespace rockhopper::apps::dag_node
