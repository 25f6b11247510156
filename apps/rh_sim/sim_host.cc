// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/sim_host.h"

#include <algorithm>
#include <array>
#include <utility>

namespace rockhopper::apps::sim {
namespace {

constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::uint8_t kRdAtomic = 16;
constexpr std::uint64_t kIova = 0x10000000;

stack::IpAddress address_of(stack::sim::NodeIndex node, bool ipv6) {
  const unsigned number = node + 1u;
  if (!ipv6) return stack::IpAddress::from_ipv4(0x0a000000 + number);
  stack::IpAddress address{{0xfd, 0x52, 0x6f}};
  address.bytes[14] = static_cast<std::uint8_t>(number >> 8);
  address.bytes[15] = static_cast<std::uint8_t>(number);
  return address;
}

bool takes_receive(const FlowSpec& flow) {
  return flow.operation == roce::WrOpcode::send ||
         flow.operation == roce::WrOpcode::rdma_write_with_imm;
}

}  // namespace

SimHost::SimHost(const Config& config)
    : config_(config),
      network_(*config.network),
      nic_(config.network->nic(config.node)),
      address_(address_of(config.node, config.scenario->ipv6)),
      random_(config.scenario->seed * stack::sim::kNodesMax + config.node),
      start_ns_(config.network->now_ns()) {}

SimHost::~SimHost() = default;

Expected<std::unique_ptr<SimHost>> SimHost::create(const Config& config) {
  std::unique_ptr<SimHost> host(new SimHost(config));
  ROCKHOPPER_TRY(host->build());
  return host;
}

Expected<void> SimHost::build() {
  const Scenario& scenario = *config_.scenario;
  NodeConfig node{
      .port = LinkPort{{&nic_}},
      .addresses = {{address_, static_cast<std::uint8_t>(scenario.ipv6 ? 64 : 8)}},
      .pcap = {.path = config_.capture, .interface_name = scenario.nodes[config_.node].name},
      .clock = &network_.clock(),
      .packet_pool = config_.pool};
  node.host.seed = scenario.seed;
  node.engine.random = &random_;
  node.engine.max_qp = std::max(config_.queue_pairs, 1u);
  node.engine.max_unacked_packets = scenario.max_unacked_packets;
  node.engine.line_rate = line_rate();
  node.personality = scenario.nodes[config_.node].personality;
  node.engine.cnp.min_time_between_ns = scenario.min_time_between_cnps_ns;
  ROCKHOPPER_TRY(node_, Node::open(std::move(node)));
  pd_ = node_->engine().allocate_pd();
  // At an address of its own: that of the process differs from run to run.
  ROCKHOPPER_TRY(
      region_, node_->engine().register_memory_iova(pd_, config_.memory.base, config_.memory.bytes,
                                                    roce::kAccessAll, kIova));
  for (auto* queue : {&send_cq_, &recv_cq_}) {
    ROCKHOPPER_TRY(*queue, roce::CompletionQueue::create(std::max(config_.completions, 16u)));
  }
  station_ = std::make_unique<stack::sim::Station>(network_.events(), network_.clock(), nic_,
                                                   node_->links().link(0), node_->host(),
                                                   static_cast<stack::Application*>(this));
  station_->set_poll_interval(scenario.nodes[config_.node].poll_interval_ns);
  return {};
}

std::uint64_t SimHost::line_rate() const {
  const auto& links = config_.scenario->links;
  const auto own = std::find_if(links.begin(), links.end(), [this](const LinkSpec& link) {
    return link.first == config_.node || link.second == config_.node;
  });
  return own == links.end() ? 0 : own->rate_bits_per_s;
}

Expected<roce::QueuePair*> SimHost::make_qp(const FlowSpec& flow, bool receives) {
  return node_->engine().create_qp({.qp_type = flow.transport,
                                    .pd = pd_,
                                    .send_cq = send_cq_.get(),
                                    .recv_cq = recv_cq_.get(),
                                    .max_send_wr = flow.window,
                                    .max_recv_wr = receives ? flow.receives : 0,
                                    .max_inline_data = 0});
}

Expected<void> SimHost::join(Flow& flow, SimHost& from, SimHost& to) {
  const FlowSpec& spec = flow.spec();
  struct End {
    SimHost& host;
    SimHost& peer;
    roce::QueuePair* qp;
  };
  std::array<End, 2> ends{End{from, to, nullptr}, End{to, from, nullptr}};
  for (End& end : ends) {
    ROCKHOPPER_TRY(end.qp, end.host.make_qp(spec, &end.host == &to && takes_receive(spec)));
    ROCKHOPPER_TRY(
        end.host.node_->host().add_static_neighbour(end.peer.address_, end.peer.nic_.mac()));
  }
  const wire::Psn psn[2] = {from.node_->engine().random_psn(), to.node_->engine().random_psn()};
  const bool connected = spec.transport != roce::QpType::ud;
  for (unsigned i = 0; i < 2; ++i) {
    roce::QpAttributes a;
    a.qp_access_flags = roce::kAccessAll;
    a.qkey = kQkey;
    a.path_mtu = spec.path_mtu;
    a.dest_qp_num = ends[1 - i].qp->number();
    a.rq_psn = psn[1 - i];
    a.sq_psn = psn[i];
    a.max_rd_atomic = a.max_dest_rd_atomic = kRdAtomic;
    a.timeout = spec.timeout;
    a.retry_cnt = spec.retry_cnt;
    a.ah_attr = {.source = ends[i].host.address_,
                 .destination = ends[1 - i].host.address_,
                 .traffic_class = spec.traffic_class};
    ROCKHOPPER_TRY(ends[i].qp->set_congestion_control(spec.congestion));
    if (spec.transport == roce::QpType::rc) {
      ROCKHOPPER_TRY(ends[i].qp->set_loss_recovery(spec.recovery));
    }
    ROCKHOPPER_TRY(ends[i].qp->bring_up(a, roce::QpState::rts));
  }
  roce::AddressHandle* ah = nullptr;
  if (!connected) {
    ROCKHOPPER_TRY(ah,
                   from.node_->engine().create_ah(from.pd_, {.source = from.address_,
                                                             .destination = to.address_,
                                                             .traffic_class = spec.traffic_class}));
  }
  flow.connect(*ends[0].qp,
               {.source = from.region_.iova,
                .source_key = from.region_.key,
                .target = to.region_.iova,
                .target_key = to.region_.key},
               ah, ends[1].qp->number(), kQkey);
  from.flows_.push_back(&flow);
  if (takes_receive(spec)) {
    for (std::uint32_t i = 0; i < spec.receives; ++i) {
      to.post_receive(*ends[1].qp, flow);
    }
  }
  return {};
}

void SimHost::post_receive(roce::QueuePair& qp, Flow& flow) {
  const roce::Sge sge{region_.iova, static_cast<std::uint32_t>(region_.length), region_.key};
  (void)qp.post_recv({.wr_id = flow.id(), .sg_list = {&sge, 1}});
}

std::uint64_t SimHost::turn(std::uint64_t now_ns) {
  take_sends(now_ns);
  take_receives();
  if (now_ns >= next_post_ns_) {
    next_post_ns_ = stack::kNever;
    for (Flow* flow : flows_) {
      flow->post(now_ns);
      next_post_ns_ = std::min(next_post_ns_, flow->next_post_ns(now_ns));
    }
  }
  return next_post_ns_;
}

void SimHost::take_sends(std::uint64_t now_ns) {
  while (const std::size_t count = send_cq_->poll(completions_)) {
    for (const roce::Completion& completion : std::span(completions_).first(count)) {
      Flow& flow = Flow::of_id(completion.wr_id);
      flow.on_completion(completion, now_ns, config_.scenario->measure_from_ns);
      if (completion.status != roce::WcStatus::success) continue;
      (*config_.latencies)[flow.spec().group].add(flow.last_latency_ns());
      flow.post(now_ns);
      next_post_ns_ = std::min(next_post_ns_, flow.next_post_ns(now_ns));
    }
  }
}

void SimHost::take_receives() {
  while (const std::size_t count = recv_cq_->poll(completions_)) {
    for (const roce::Completion& completion : std::span(completions_).first(count)) {
      if (completion.status != roce::WcStatus::success) continue;
      Flow& flow = Flow::of_id(completion.wr_id);
      flow.on_delivery();
      post_receive(*node_->engine().find_qp(completion.qp_num), flow);
    }
  }
}

}  // namespace rockhopper::apps::sim
