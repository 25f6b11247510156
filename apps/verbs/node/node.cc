// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/node.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include <rte_mbuf.h>
#include <unistd.h>

#include "apps/verbs/node/memory_check.h"
#include "stack/time_units.h"

namespace rockhopper::verbs {
namespace {

constexpr std::uint32_t kMbufs = 2048;
/// Faults hold packets back.
constexpr std::uint32_t kMbufsWithFaults = 8192;
/// Bursts that settle() sends at most.
constexpr unsigned kLastBursts = 64;
/// settle() waits for room for so long at most, which is longer than a link waits for it, and looks
/// for it so often.
constexpr std::uint64_t kRoomNs = 2 * kNsPerSecond;
constexpr long kRoomLookNs = 50'000;
/// The PSNs of queue pairs are listed so often, and more rarely where there are many: so long for
/// each.
constexpr std::uint64_t kListPeriodNs = 10 * kNsPerMs;
constexpr std::uint64_t kListQueuePairNs = 50 * kNsPerUs;
/// All of them at once is what some programs try.
constexpr std::uint32_t kQueuePairsMax = 16'384;

}  // namespace

Node::Node(Settings settings)
    : settings_(std::move(settings)), progress_(*this, settings_.progress) {}

Expected<std::unique_ptr<Node>> Node::open(Settings settings) {
  std::unique_ptr<Node> node(new Node(std::move(settings)));
  ROCKHOPPER_TRY(node->make_link());
  ROCKHOPPER_TRY(node->make_host());
  ROCKHOPPER_TRY(node->make_engine());
  node->make_tellers();
  node->worker_ = std::make_unique<stack::Worker>(node->link_->link(), *node->host_, node->clock_);
  ROCKHOPPER_TRY(node->progress_.start(*node->link_));
  return node;
}

Node::~Node() {
  progress_.stop();
  if (tallies_ != nullptr) tallies_->write();
}

Expected<void> Node::make_link() {
  ROCKHOPPER_TRY(pool_,
                 stack::PlainPool::create({.size = settings_.faults ? kMbufsWithFaults : kMbufs,
                                           .data_room = kMtu + stack::kFrameOverhead}));
  ROCKHOPPER_TRY(link_,
                 NodeLink::open(settings_, pool_->get(), clock_.wall_offset_ns(), random_.next()));
  mac_ = link_->link().mac();
  return {};
}

Expected<void> Node::make_host() {
  stack::HostConfig config;
  config.mac = mac_;
  config.mtu = link_->link().mtu();
  config.packet_pool = pool_->get();
  config.shared_mac = true;  // by all members of the segment
  // For all of them rh-switch answers.
  config.silent = settings_.uplink == UplinkKind::rh_switch;
  config.socket = link_->socket_end();
  config.omits_icrc = link_->omits_icrc();
  config.seed = random_.next();
  config.drop_observer = link_->drop_observer();
  ROCKHOPPER_TRY(host_, stack::Host::create(config));
  for (const stack::DeviceAddress& own : settings_.addresses) {
    ROCKHOPPER_TRY(host_->add_address(own.address, own.prefix_length));
  }
  return {};
}

Expected<void> Node::make_engine() {
  roce::EngineConfig config;
  config.host = host_.get();
  config.packet_pool = pool_->get();
  config.random = &random_;
  config.max_qp = kQueuePairsMax;
  config.drop_observer = link_->drop_observer();
  config.async_notifier = &events_;
  config.qpns = &link_->numbers();
  config.pager = &pager_;
  ROCKHOPPER_TRY(engine_, roce::Engine::create(config));
  return {};
}

void Node::make_tellers() {
  tallies_ = std::make_unique<TallyWriter>(membership().own_tallies(), *link_, *engine_);
  resources_ = std::make_unique<Resources>(membership().resources_path());
  opened_ns_ = clock_.now_ns() + clock_.wall_offset_ns();
  process_.show(*resources_, describe_process());
  for (const stack::DeviceAddress& own : settings_.addresses) {
    ResourceRecord record{.kind = ResourceKind::address, .type = own.prefix_length};
    std::memcpy(record.values.data(), own.address.bytes.data(), own.address.bytes.size());
    (void)resources_->add(record);  // for as long as the process has the device
  }
}

ResourceRecord Node::describe_process() const {
  ResourceRecord record{.kind = ResourceKind::process};
  record.id = static_cast<std::uint32_t>(getpid());
  if (settings_.uplink == UplinkKind::udp) record.state |= ResourceRecord::kUplink;
  if (link_->receives_for_all()) record.state |= ResourceRecord::kReceives;
  record.set_text(program_invocation_short_name);
  record.set_wide(record.values.size() - 2, opened_ns_);
  return record;
}

void Node::list(std::uint64_t now_ns) {
  listed_ns_ = now_ns;
  listed_changes_ = engine_->state_changes();
  std::size_t count = 0;
  for (EventSink* sink : sinks_) {
    count += sink->list_queue_pairs();
  }
  list_pause_ns_ = count * kListQueuePairNs;
  list_period_ns_ = std::max(kListPeriodNs, list_pause_ns_);
  process_.show(*resources_, describe_process());
}

bool Node::Pager::page_in(const std::byte* data, std::uint64_t length, bool writes) {
  return check_memory(data, length, writes) == 0;
}

void Node::abandon() noexcept {
  abandoned_.store(true, std::memory_order_relaxed);
  if (link_ != nullptr) link_->abandon();
  if (resources_ != nullptr) resources_->let_go();
}

std::uint64_t Node::next_deadline_ns() const {
  const std::uint64_t own_ns = worker_->next_deadline_ns();
  return service_ == nullptr ? own_ns : std::min(own_ns, service_->next_deadline_ns());
}

void Node::finish() {
  if (service_ != nullptr) service_->end();
  settle();
  link_->flush_capture();
}

void Node::settle() {
  send_what_waits();
  tallies_->write();
}

void Node::send_what_waits() {
  for (unsigned i = 0; i < kLastBursts && worker_->send_now(); ++i) {
  }
  const std::uint64_t begin_ns = clock_.now_ns();
  while (link_->segment().holds_frames() || worker_->backlogged()) {
    const timespec pause{0, kRoomLookNs};
    (void)nanosleep(&pause, nullptr);
    const std::uint64_t now_ns = clock_.now_ns();
    if (now_ns - begin_ns > kRoomNs) return;
    if (worker_->backlogged()) (void)worker_->transmit(now_ns);
    // It puts what is held, and the peer may be waiting for room too.
    (void)worker_->receive(now_ns);
  }
}

void Node::distribute_events() {
  events_.pending = false;
  while (const auto event = engine_->poll_async_event()) {
    for (EventSink* sink : sinks_) {
      sink->on_async_event(*event);
    }
  }
}

}  // namespace rockhopper::verbs
