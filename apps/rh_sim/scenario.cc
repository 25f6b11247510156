// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/scenario.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/json.h"
#include "apps/common/personality_file.h"
#include "apps/rh_sim/arrivals.h"
#include "roce/qp_attributes.h"

namespace rockhopper::apps::sim {
namespace {

using roce::QpType;
using roce::WrOpcode;
using stack::sim::NodeIndex;

constexpr std::size_t kFlowsMax = 1 << 16;
constexpr std::uint64_t kTimeMaxNs = 1'000'000'000'000;
constexpr std::uint64_t kSamples = 200;
constexpr std::uint64_t kFatTreePortsMax = 24;  // 3456 hosts
constexpr std::uint64_t kMessageMax = std::uint64_t{1} << 26;

constexpr std::array kTransports = {std::pair{std::string_view("rc"), QpType::rc},
                                    std::pair{std::string_view("uc"), QpType::uc},
                                    std::pair{std::string_view("ud"), QpType::ud}};
constexpr std::array kAlgorithms = {
    std::pair{std::string_view("none"), roce::CongestionAlgorithm::none},
    std::pair{std::string_view("dcqcn"), roce::CongestionAlgorithm::dcqcn},
    std::pair{std::string_view("swift"), roce::CongestionAlgorithm::swift}};
constexpr std::array kRecoveryAlgorithms = {
    std::pair{std::string_view("go-back-n"), roce::RecoveryAlgorithm::go_back_n},
    std::pair{std::string_view("selective"), roce::RecoveryAlgorithm::selective_repeat}};
constexpr std::array kOperations = {
    std::pair{std::string_view("write"), WrOpcode::rdma_write},
    std::pair{std::string_view("write_imm"), WrOpcode::rdma_write_with_imm},
    std::pair{std::string_view("send"), WrOpcode::send},
    std::pair{std::string_view("read"), WrOpcode::rdma_read},
    std::pair{std::string_view("cas"), WrOpcode::atomic_cmp_and_swp},
    std::pair{std::string_view("faa"), WrOpcode::atomic_fetch_and_add}};

/// Reads one document. Nodes are known by name, and groups of equal nodes by theirs.
class Reader {
 public:
  explicit Reader(std::optional<std::uint64_t> seed) : seed_(seed) {}

  Expected<Scenario> read(const nlohmann::json& document) {
    JsonObject root(document, "", errors_);
    read_head(root);
    for (JsonObject& host : root.objects("hosts")) {
      add_nodes(host, true);
    }
    for (JsonObject& fabric : root.objects("switches")) {
      add_nodes(fabric, false);
    }
    if (auto tree = root.object("fat_tree")) add_fat_tree(*tree);
    for (JsonObject& link : root.objects("links")) {
      add_links(link);
    }
    for (JsonObject& flow : root.objects("flows")) {
      add_flows(flow);
    }
    root.finish();
    if (scenario_.flows.empty()) root.fail("flows", "there is none");
    check_hosts(root);
    if (errors_.any()) return tl::make_unexpected(errors_.first());
    return std::move(scenario_);
  }

 private:
  struct SwitchDefaults {
    std::uint64_t queue_bytes = 0;
    stack::net::EcnMarking ecn{};
  };

  void check_hosts(JsonObject& root) const {
    std::vector<std::size_t> links(scenario_.nodes.size());
    for (const LinkSpec& link : scenario_.links) {
      ++links[link.first];
      ++links[link.second];
    }
    for (std::size_t node = 0; node < links.size(); ++node) {
      if (scenario_.nodes[node].is_host && links[node] != 1) {
        root.fail("links",
                  fmt::format("{} has {}, not one", scenario_.nodes[node].name, links[node]));
      }
    }
  }

  void read_head(JsonObject& root) {
    scenario_.name = root.text("name", "");
    scenario_.seed = root.number("seed", 0, UINT64_MAX, 1);
    if (seed_) scenario_.seed = *seed_;
    scenario_.duration_ns = root.time_ns("duration");
    if (scenario_.duration_ns == 0 || scenario_.duration_ns > kTimeMaxNs) {
      root.fail("duration", "a time above 0 and up to 1000s is expected");
    }
    scenario_.measure_from_ns = root.time_ns("measure_from", 0);
    if (scenario_.measure_from_ns >= std::max<std::uint64_t>(scenario_.duration_ns, 1)) {
      root.fail("measure_from", "a time before the end is expected");
    }
    scenario_.sample_ns =
        root.time_ns("sample", std::max<std::uint64_t>(scenario_.duration_ns / kSamples, 1));
    if (scenario_.sample_ns == 0 || scenario_.duration_ns / scenario_.sample_ns > 100'000) {
      root.fail("sample", "at most 100,000 samples can be taken");
      scenario_.sample_ns = scenario_.duration_ns + 1;
    }
    scenario_.poll_interval_ns = root.time_ns("poll_interval", 0);
    scenario_.ipv6 = root.number("ip_version", 4, 6, 4) == 6;
    if (root.has("dscp_priorities")) {
      auto parsed =
          stack::parse_dscp_priorities(root.text("dscp_priorities"), scenario_.priorities.of_dscp);
      if (!parsed) root.fail("dscp_priorities", parsed.error().message);
    }
    scenario_.max_unacked_packets =
        static_cast<std::uint32_t>(root.number("max_unacked_packets", 1, 1 << 16, 128));
    scenario_.min_time_between_cnps_ns = root.time_ns("min_time_between_cnps", 50'000);
    scenario_.mbufs = static_cast<std::uint32_t>(root.number("mbufs", 0, 1 << 23, 0));
  }

  static void read_dcqcn(JsonObject& object, roce::DcqcnParameters& p) {
    p.rpg_max_rate = object.rate("rpg_max_rate", p.rpg_max_rate);
    p.rpg_min_rate = object.rate("rpg_min_rate", p.rpg_min_rate);
    p.rpg_ai_rate = object.rate("rpg_ai_rate", p.rpg_ai_rate);
    p.rpg_hai_rate = object.rate("rpg_hai_rate", p.rpg_hai_rate);
    p.rpg_time_reset_ns = object.time_ns("rpg_time_reset", p.rpg_time_reset_ns);
    p.rpg_byte_reset = object.bytes("rpg_byte_reset", p.rpg_byte_reset);
    p.rpg_threshold =
        static_cast<std::uint32_t>(object.number("rpg_threshold", 1, 1000, p.rpg_threshold));
    p.dce_tcp_g = object.real("dce_tcp_g", 0, 1, p.dce_tcp_g);
    p.dce_tcp_rtt_ns = object.time_ns("dce_tcp_rtt", p.dce_tcp_rtt_ns);
    p.initial_alpha_value = object.real("initial_alpha_value", 0, 1, p.initial_alpha_value);
    p.rate_reduce_monitor_period_ns =
        object.time_ns("rate_reduce_monitor_period", p.rate_reduce_monitor_period_ns);
    p.nak_cnp_period_ns = object.time_ns("nak_cnp_period", p.nak_cnp_period_ns);
  }

  static void read_swift(JsonObject& object, roce::SwiftParameters& p) {
    constexpr double kMost = 1e6;
    p.base_target_delay_ns = object.time_ns("base_target_delay", p.base_target_delay_ns);
    p.fs_range_ns = object.time_ns("fs_range", p.fs_range_ns);
    p.fs_min_cwnd = object.real("fs_min_cwnd", 0, kMost, p.fs_min_cwnd);
    p.fs_max_cwnd = object.real("fs_max_cwnd", 0, kMost, p.fs_max_cwnd);
    p.ai = object.real("ai", 0, kMost, p.ai);
    p.beta = object.real("beta", 0, kMost, p.beta);
    p.max_mdf = object.real("max_mdf", 0, 1, p.max_mdf);
    p.min_cwnd = object.real("min_cwnd", 0, kMost, p.min_cwnd);
    p.max_cwnd = object.real("max_cwnd", 0, kMost, p.max_cwnd);
    p.retx_reset_threshold = static_cast<std::uint32_t>(
        object.number("retx_reset_threshold", 1, 1000, p.retx_reset_threshold));
  }

  /// {"algorithm": "dcqcn", parameters as in docs/congestion-control.md}
  static void read_congestion(JsonObject& object, FlowSpec& flow) {
    auto congestion = object.object("congestion");
    if (!congestion) return;
    roce::CongestionConfig& config = flow.congestion;
    config.algorithm = congestion->choice<roce::CongestionAlgorithm>("algorithm", kAlgorithms);
    if (config.algorithm == roce::CongestionAlgorithm::dcqcn) {
      read_dcqcn(*congestion, config.dcqcn);
    } else if (config.algorithm == roce::CongestionAlgorithm::swift) {
      read_swift(*congestion, config.swift);
    }
    congestion->finish();
    if (const auto checked = roce::check_congestion_config(config); !checked) {
      congestion->fail(checked.error().message);
    }
    if (config.algorithm != roce::CongestionAlgorithm::none &&
        (flow.transport == QpType::ud ||
         (flow.transport == QpType::uc && config.algorithm == roce::CongestionAlgorithm::swift))) {
      congestion->fail("algorithm", "the transport does not have it");
    }
  }

  /// {"algorithm": "selective", "adaptive_timeout": true, parameters as in docs/loss-recovery.md}
  static void read_recovery(JsonObject& object, FlowSpec& flow) {
    auto recovery = object.object("recovery");
    if (!recovery) return;
    roce::RecoveryConfig& config = flow.recovery;
    config.algorithm = recovery->choice<roce::RecoveryAlgorithm>("algorithm", kRecoveryAlgorithms,
                                                                 std::optional(config.algorithm));
    roce::SelectiveRepeatParameters& selective = config.selective_repeat;
    if (config.algorithm == roce::RecoveryAlgorithm::selective_repeat) {
      selective.window = static_cast<std::uint32_t>(
          recovery->number("window", 1, roce::HeldPackets::kWindow, selective.window));
      selective.reordering = static_cast<std::uint32_t>(
          recovery->number("reordering", 1, roce::HeldPackets::kWindow - 1, selective.reordering));
    }
    config.adaptive_timeout = recovery->flag("adaptive_timeout", false);
    if (config.adaptive_timeout) {
      config.timeout.min_ns = recovery->time_ns("min_timeout", config.timeout.min_ns);
    }
    recovery->finish();
    if (const auto checked = roce::check_recovery_config(config); !checked) {
      recovery->fail(checked.error().message);
    }
    if (flow.transport != QpType::rc) recovery->fail("only rc recovers from losses");
  }

  void add_nodes(JsonObject& object, bool hosts) {
    const std::string name = object.text("name");
    const std::uint64_t count = object.number("count", 1, stack::sim::kNodesMax, 1);
    NodeSpec node{.name = name, .is_host = hosts};
    SwitchDefaults defaults{.queue_bytes = std::uint64_t{1} << 22};
    if (!hosts) {
      defaults.queue_bytes = object.bytes("queue", defaults.queue_bytes);
      defaults.ecn = ecn_of(object, {});
      node.pfc = pfc_of(object);
    } else {
      node.poll_interval_ns = object.time_ns("poll_interval", scenario_.poll_interval_ns);
      if (object.has("personality")) {
        auto personality = parse_personality(object.text("personality"));
        if (personality) {
          node.personality = *personality;
        } else {
          object.fail("personality", personality.error().message);
        }
      }
    }
    const bool numbered = object.has("count");
    object.finish();
    append_nodes(object, std::move(node), numbered ? std::optional(count) : std::nullopt, defaults);
  }

  /// Appends one node, or a group of `count` whose names end in their numbers.
  void append_nodes(JsonObject& object, NodeSpec node, std::optional<std::uint64_t> count,
                    const SwitchDefaults& defaults) {
    const std::string name = node.name;
    if (names_.contains(name) || name.empty()) object.fail("name", "is empty or taken");
    if (scenario_.nodes.size() + count.value_or(1) > stack::sim::kNodesMax) {
      object.fail("count", fmt::format("there are at most {} nodes", stack::sim::kNodesMax));
      return;
    }
    for (std::uint64_t i = 0; i < count.value_or(1); ++i) {
      const auto index = static_cast<NodeIndex>(scenario_.nodes.size());
      if (count) {
        node.name = fmt::format("{}{}", name, i);
        if (names_.contains(node.name)) object.fail("name", node.name + " is taken");
        names_[node.name] = {index};
      }
      names_[name].push_back(index);
      scenario_.nodes.push_back(node);
      defaults_.push_back(defaults);
    }
  }

  static std::optional<stack::sim::PfcThresholds> pfc_of(JsonObject& object) {
    auto pfc = object.object("pfc");
    if (!pfc) return {};
    const stack::sim::PfcThresholds thresholds{.xoff_bytes = pfc->bytes("xoff"),
                                               .xon_bytes = pfc->bytes("xon")};
    if (thresholds.xon_bytes > thresholds.xoff_bytes) pfc->fail("xon", "is above xoff");
    pfc->finish();
    return thresholds;
  }

  /// Appends a three-tier fat tree of switches with k ports (Al-Fares et al., SIGCOMM 2008): k pods
  /// of k/2 edge and k/2 aggregation switches, k/2 hosts at each edge switch, (k/2)^2 core
  /// switches.
  void add_fat_tree(JsonObject& object) {
    const std::uint64_t k = object.number("k", 2, kFatTreePortsMax);
    if (k % 2 != 0) return object.fail("k", "an even number is expected");
    LinkSpec link{.rate_bits_per_s = object.rate("rate"),
                  .delay_ns = object.time_ns("delay", 1000)};
    link.queue_bytes = object.bytes("queue", std::uint64_t{1} << 22);
    link.ecn = ecn_of(object, {});
    const NodeSpec fabric{.is_host = false, .pfc = pfc_of(object)};
    const NodeSpec host{.poll_interval_ns =
                            object.time_ns("poll_interval", scenario_.poll_interval_ns)};
    object.finish();
    const std::uint64_t half = k / 2;
    const auto append = [&](const char* name, NodeSpec node, std::uint64_t count) {
      const std::size_t first = scenario_.nodes.size();
      node.name = name;
      append_nodes(object, std::move(node), count, {link.queue_bytes, link.ecn});
      return first;
    };
    const std::size_t hosts = append("h", host, k * half * half);
    const std::size_t edges = append("edge", fabric, k * half);
    const std::size_t aggregations = append("aggregation", fabric, k * half);
    const std::size_t cores = append("core", fabric, half * half);
    if (errors_.any()) return;
    const auto join = [&](std::size_t lower, std::size_t upper) {
      link.first = static_cast<NodeIndex>(lower);
      link.second = static_cast<NodeIndex>(upper);
      scenario_.links.push_back(link);
    };
    for (std::uint64_t fabric_number = 0; fabric_number < k * half; ++fabric_number) {
      const std::uint64_t pod = fabric_number / half;
      const std::uint64_t place = fabric_number % half;
      for (std::uint64_t port = 0; port < half; ++port) {
        join(hosts + fabric_number * half + port, edges + fabric_number);
        join(edges + fabric_number, aggregations + pod * half + port);
        join(aggregations + fabric_number, cores + place * half + port);
      }
    }
  }

  static stack::net::EcnMarking ecn_of(JsonObject& object, stack::net::EcnMarking otherwise) {
    const std::string text = object.text("ecn", "");
    if (text.empty()) return otherwise;
    const auto marking = stack::net::parse_ecn_marking(text);
    if (marking) return *marking;
    object.fail("ecn", marking.error().message);
    return otherwise;
  }

  /// The node of a name, or all nodes of a group.
  const std::vector<NodeIndex>& find(JsonObject& object, const char* key) {
    static const std::vector<NodeIndex> nobody;
    const std::string name = object.text(key);
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second;
    if (!name.empty()) object.fail(key, fmt::format("there is no node \"{}\"", name));
    return nobody;
  }

  void add_links(JsonObject& object) {
    const auto first = find(object, "from");
    const auto second = find(object, "to");
    LinkSpec link;
    link.rate_bits_per_s = object.rate("rate");
    link.delay_ns = object.time_ns("delay", 1000);
    const bool own_queue = object.has("queue");
    const std::uint64_t queue_bytes = object.bytes("queue", 0);
    const bool own_ecn = object.has("ecn");
    const stack::net::EcnMarking ecn = ecn_of(object, {});
    link.faults = object.text("faults", "");
    if (const auto faults = stack::parse_faults(link.faults); !faults) {
      object.fail("faults", faults.error().message);
    }
    object.finish();
    for (const NodeIndex from : first) {
      for (const NodeIndex to : second) {
        if (from == to) continue;
        link.first = from;
        link.second = to;
        const NodeIndex fabric = scenario_.nodes[from].is_host ? to : from;
        link.queue_bytes = own_queue ? queue_bytes : defaults_[fabric].queue_bytes;
        link.ecn = own_ecn ? ecn : defaults_[fabric].ecn;
        scenario_.links.push_back(link);
      }
    }
  }

  void read_flow(JsonObject& object, FlowSpec& flow) {
    flow.transport = object.choice<QpType>("transport", kTransports, QpType::rc);
    flow.operation = object.choice<WrOpcode>("operation", kOperations, WrOpcode::rdma_write);
    const bool atomic = flow.operation == WrOpcode::atomic_cmp_and_swp ||
                        flow.operation == WrOpcode::atomic_fetch_and_add;
    const bool response = atomic || flow.operation == WrOpcode::rdma_read;
    const bool one_sided = response || flow.operation == WrOpcode::rdma_write ||
                           flow.operation == WrOpcode::rdma_write_with_imm;
    if ((response && flow.transport != QpType::rc) || (one_sided && flow.transport == QpType::ud)) {
      object.fail("operation", "the transport does not have it");
    }
    const std::uint64_t mtu = object.number("path_mtu", 256, 4096, 1024);
    if ((mtu & (mtu - 1)) != 0) object.fail("path_mtu", "a power of two is expected");
    flow.path_mtu = static_cast<roce::PathMtu>(mtu);
    const std::uint64_t size = object.bytes("size", atomic ? 8 : 4096);
    if (size > kMessageMax || (atomic && size != 8) ||
        (flow.transport == QpType::ud && size > mtu)) {
      object.fail("size", "up to 64 MiB; 8 of an atomic; the path MTU of a datagram");
    }
    flow.size = static_cast<std::uint32_t>(size);
    flow.count = object.number("count", 1, UINT64_MAX / 2, 0);
    flow.start_ns = object.time_ns("start", 0);
    flow.stop_ns = object.time_ns("stop", scenario_.duration_ns);
    flow.window = static_cast<std::uint32_t>(object.number("window", 1, roce::kMaxQpWr / 2, 16));
    flow.receives = static_cast<std::uint32_t>(
        object.number("receives", 1, roce::kMaxQpWr, 2 * std::uint64_t{flow.window}));
    flow.rate_bits_per_s = object.rate("rate", 0);
    flow.traffic_class = static_cast<std::uint8_t>(object.number("dscp", 0, 63, 0) << 2);
    flow.timeout = static_cast<std::uint8_t>(object.number("timeout", 0, 31, 14));
    flow.retry_cnt = static_cast<std::uint8_t>(object.number("retry_cnt", 0, 7, 7));
    read_congestion(object, flow);
    read_recovery(object, flow);
  }

  static SizeDistribution read_sizes(JsonObject& object) {
    std::vector<SizeDistribution::Point> points;
    for (JsonObject& point : object.objects("sizes")) {
      points.push_back({point.real("fraction", 0, 1), point.bytes("size")});
      point.finish();
    }
    if (const auto problem = SizeDistribution::problem_of(points)) {
      object.fail("sizes", *problem);
    } else if (points.back().bytes > kMessageMax) {
      object.fail("sizes", "messages are up to 64 MiB");
    }
    return SizeDistribution(std::move(points));
  }

  /// Appends a flow of one message for each arrival of a Poisson process between random hosts.
  void add_arrivals(JsonObject& object, JsonObject& arrivals, FlowSpec flow,
                    const std::vector<NodeIndex>& from, const std::vector<NodeIndex>& to) {
    for (const char* key : {"size", "count", "window", "rate", "stagger", "copies", "one_to_one"}) {
      if (object.has(key)) object.fail(key, "is not for arrivals, each of which is one message");
    }
    const double load = arrivals.real("load", 0, 1);
    const SizeDistribution sizes = read_sizes(arrivals);
    arrivals.finish();
    object.finish();
    if (load == 0) arrivals.fail("load", "a fraction above 0 is expected");
    if (flow.transport == QpType::ud || flow.operation == WrOpcode::atomic_cmp_and_swp ||
        flow.operation == WrOpcode::atomic_fetch_and_add) {
      object.fail("arrivals", "messages have sizes of their own: neither ud nor atomics");
    }
    for (const NodeIndex node : from) {
      if (!scenario_.nodes[node].is_host) object.fail("from", "is no host");
    }
    for (const NodeIndex node : to) {
      if (!scenario_.nodes[node].is_host) object.fail("to", "is no host");
    }
    if (from.empty() || to.empty() || (from.size() == 1 && from == to)) {
      object.fail("it goes from a host to itself");
    }
    if (errors_.any()) return;
    const ArrivalProcess process{.from = from,
                                 .to = to,
                                 .bits_per_s = load * rate_of(from),
                                 .start_ns = flow.start_ns,
                                 .stop_ns = flow.stop_ns,
                                 .seed = scenario_.seed * kFlowsMax + flow.group};
    if (process.bits_per_s == 0) return object.fail("from", "has no link");
    scenario_.groups.push_back(flow.name);
    const std::string group = flow.name;
    const std::size_t room = kFlowsMax - scenario_.flows.size();
    std::size_t number = 0;
    for (const Arrival& arrival : draw_arrivals(process, sizes, room + 1)) {
      if (number == room) return object.fail(fmt::format("there are at most {} flows", kFlowsMax));
      flow.name = fmt::format("{}.{}", group, number++);
      flow.from = arrival.from;
      flow.to = arrival.to;
      flow.size = arrival.bytes;
      flow.start_ns = arrival.at_ns;
      flow.stop_ns = scenario_.duration_ns;
      flow.count = 1;
      flow.window = 1;
      flow.receives = 1;
      scenario_.flows.push_back(flow);
    }
    if (number == 0) object.fail("arrivals", "none comes before the end");
  }

  /// The sum of the rates of the hosts' links.
  [[nodiscard]] double rate_of(const std::vector<NodeIndex>& hosts) const {
    std::vector<std::uint64_t> rates(scenario_.nodes.size());
    for (const LinkSpec& link : scenario_.links) {
      rates[link.first] = rates[link.second] = link.rate_bits_per_s;
    }
    double sum = 0;
    for (const NodeIndex host : hosts) {
      sum += static_cast<double>(rates[host]);
    }
    return sum;
  }

  void add_flows(JsonObject& object) {
    FlowSpec flow{.group = scenario_.groups.size(), .name = object.text("name", "")};
    if (flow.name.empty()) flow.name = fmt::format("flow{}", flow.group);
    const auto from = find(object, "from");
    const auto to = find(object, "to");
    read_flow(object, flow);
    if (auto arrivals = object.object("arrivals")) {
      return add_arrivals(object, *arrivals, std::move(flow), from, to);
    }
    const std::uint64_t stagger_ns = object.time_ns("stagger", 0);
    const std::uint64_t copies = object.number("copies", 1, 4096, 1);
    const bool one_to_one = object.flag("one_to_one", false);
    object.finish();
    if (one_to_one && from.size() != to.size()) {
      object.fail("one_to_one", "the two groups are to be of one size");
      return;
    }
    scenario_.groups.push_back(flow.name);
    const std::string group = flow.name;
    std::size_t number = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      for (std::size_t j = one_to_one ? i : 0; j < (one_to_one ? i + 1 : to.size()); ++j) {
        if (from[i] == to[j]) continue;
        for (const NodeIndex node : {from[i], to[j]}) {
          if (!scenario_.nodes[node].is_host) {
            object.fail(scenario_.nodes[node].name + " is no host");
            return;
          }
        }
        for (std::uint64_t copy = 0; copy < copies; ++copy, ++number) {
          if (scenario_.flows.size() == kFlowsMax) {
            return object.fail(fmt::format("there are at most {} flows", kFlowsMax));
          }
          flow.from = from[i];
          flow.to = to[j];
          flow.name = fmt::format("{}.{}", group, number);
          scenario_.flows.push_back(flow);
          flow.start_ns += stagger_ns;
        }
      }
    }
    if (number == 0) object.fail("it goes from a host to itself");
    if (number == 1) scenario_.flows.back().name = group;
  }

  std::optional<std::uint64_t> seed_;  ///< instead of the document's
  Scenario scenario_;
  JsonErrors errors_;
  std::map<std::string, std::vector<NodeIndex>> names_;
  std::vector<SwitchDefaults> defaults_;  ///< by node
};

}  // namespace

std::string_view operation_name(WrOpcode operation) {
  return std::find_if(kOperations.begin(), kOperations.end(),
                      [&](const auto& known) { return known.second == operation; })
      ->first;
}

Expected<Scenario> parse_scenario(std::string_view json_text, std::optional<std::uint64_t> seed) {
  ROCKHOPPER_TRY(auto document, parse_json(json_text));
  return Reader(seed).read(document);
}

Expected<Scenario> read_scenario(const std::string& path, std::optional<std::uint64_t> seed) {
  ROCKHOPPER_TRY(auto text, read_text_file(path));
  auto scenario = parse_scenario(text, seed);
  if (!scenario) return fail(ErrorCode::invalid_argument, "{}: {}", path, scenario.error().message);
  return scenario;
}

}  // namespace rockhopper::apps::sim
