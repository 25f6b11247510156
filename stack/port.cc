// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/port.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>

#include <net/if.h>
#include <rte_bus.h>
#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stack/clock.h"
#include "stack/descriptor.h"
#include "stack/device_limits.h"
#include "stack/driver_folder.h"
#include "stack/interrupt_thread.h"
#include "stack/memif_guard.h"
#include "stack/time_units.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint16_t kMtuMin = 576;
constexpr std::uint32_t kMbufsInFlight = 4096;

Expected<std::uint16_t> find_port(const std::string& name) {
  std::uint16_t port_id = 0;
  if (rte_eth_dev_get_port_by_name(name.c_str(), &port_id) == 0) return port_id;
  for (port_id = 0; port_id < RTE_MAX_ETHPORTS; ++port_id) {
    rte_eth_dev_info info{};  // a PCI port may have another name than its device
    if (rte_eth_dev_is_valid_port(port_id) != 0 && rte_eth_dev_info_get(port_id, &info) == 0 &&
        name == rte_dev_name(info.device)) {
      return port_id;
    }
  }
  return fail(ErrorCode::not_found, "there is no port {}", name);
}

Expected<void> check(const PortConfig& config) {
  if (config.mtu < kMtuMin || config.mtu > kMtuMax) {
    return fail(ErrorCode::invalid_argument, "MTU {}: {} to {} are possible", config.mtu, kMtuMin,
                kMtuMax);
  }
  if (config.queues == 0) return fail(ErrorCode::invalid_argument, "a port needs a queue");
  return {};
}

/// Makes the device; what DPDK returns. rte_dev_probe() would tell other processes of it too, in a
/// message that takes no more than 127 bytes of arguments (DPDK 24.11 then refuses): less than the
/// path of a socket may have. Nobody else is to know of a virtual device.
int plug(const std::string& devargs) {
  rte_devargs parsed{};
  if (const int result = rte_devargs_parse(&parsed, devargs.c_str()); result != 0) return result;
  const bool is_virtual = std::strcmp(rte_bus_name(parsed.bus), "vdev") == 0;
  const int result =
      is_virtual ? rte_vdev_init(parsed.name, parsed.args) : rte_dev_probe(devargs.c_str());
  rte_devargs_reset(&parsed);
  return result;
}

/// Finds out why the driver would refuse the device, as far as it does not say so itself.
Expected<void> check_device(const std::string& device) {
  constexpr std::string_view kPackets = "net_af_packet";
  constexpr std::string_view kInterface = "iface=";
  if (device.find_first_of("_:,") == std::string::npos || device.starts_with("mlx") ||
      ::access(("/sys/class/infiniband/" + device).c_str(), F_OK) == 0) {
    return fail(ErrorCode::invalid_argument,
                "{} is no device of DPDK, as net_af_packet0,iface=eth1 or 0000:01:00.0; for RDMA "
                "devices there is rh-perf --backend verbs",
                device);
  }
  if (!device.starts_with(kPackets)) return {};
  const std::size_t at = device.find(kInterface);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + kInterface.size();
  const std::string name = device.substr(begin, device.find(',', begin) - begin);
  if (if_nametoindex(name.c_str()) == 0) {
    return fail(ErrorCode::not_found, "{}: there is no network interface {}", device, name);
  }
  const Descriptor probe(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!probe && errno == EPERM) {
    return fail(ErrorCode::invalid_state, "{}: the program lacks the right to it (CAP_NET_RAW)",
                device);
  }
  return {};
}

tl::unexpected<Error> refused(const std::string& port, const char* what, int result) {
  return fail(ErrorCode::io, "port {}: {}: {}", port, what, rte_strerror(-result));
}

/// Keeps the memif driver from calling errors what are none.
class QuietMemif {
 public:
  QuietMemif() {
    if (level_ >= 0) rte_log_set_level(type(), RTE_LOG_EMERG);
  }
  QuietMemif(const QuietMemif&) = delete;
  QuietMemif& operator=(const QuietMemif&) = delete;
  ~QuietMemif() {
    if (level_ >= 0) rte_log_set_level(type(), static_cast<std::uint32_t>(level_));
  }

 private:
  static std::uint32_t type() {
    static const int registered = rte_log_register("pmd.net.memif");
    return static_cast<std::uint32_t>(registered);
  }
  const int level_ = rte_log_get_level(type());
};

}  // namespace

Expected<void> set_device(PortConfig& config, const std::string& device) {
  const bool is_number =
      !device.empty() && device.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) {
    config.devargs = device;
    return {};
  }
  std::uint32_t id = 0;
  const auto parsed = std::from_chars(device.data(), device.data() + device.size(), id);
  if (parsed.ec != std::errc{} || id >= RTE_MAX_ETHPORTS) {
    return fail(ErrorCode::not_found, "there is no port {}", device);
  }
  config.port_id = static_cast<std::uint16_t>(id);
  return {};
}

Port::Port() = default;

Expected<std::unique_ptr<Port>> Port::open(const PortConfig& config) {
  ROCKHOPPER_TRY(check(config));
  std::unique_ptr<Port> port(new Port);
  port->mtu_ = config.mtu;
  ROCKHOPPER_TRY(port->attach(config));
  ROCKHOPPER_TRY(port->configure(config));
  ROCKHOPPER_TRY(port->start(config));
  return port;
}

Expected<void> Port::attach(const PortConfig& config) {
  if (config.devargs.empty()) {
    if (rte_eth_dev_is_valid_port(config.port_id) == 0) {
      return fail(ErrorCode::not_found, "there is no port {}", config.port_id);
    }
    port_id_ = config.port_id;
  } else {
    const std::string name = config.devargs.substr(0, config.devargs.find(','));
    auto found = find_port(name);
    if (found && name != config.devargs) {
      return fail(ErrorCode::busy, "device {} is there already", name);
    }
    if (!found) {
      ROCKHOPPER_TRY(devargs_,
                     complete_devargs(config.devargs, config.mtu + kFrameOverhead, config.queues));
      clear_dead_sockets(devargs_);
      ROCKHOPPER_TRY(guard_, MemifGuard::create(devargs_, config.queues));
      ROCKHOPPER_TRY(check_device(devargs_));
      ROCKHOPPER_TRY(DriverFolder::load_for(devargs_));
      const std::string& plugged = guard_ != nullptr ? guard_->devargs() : devargs_;
      if (const int result = plug(plugged); result != 0) {
        // Many drivers return -1 for whatever went wrong; they log more.
        return fail(ErrorCode::io, "cannot plug {}: {}", devargs_,
                    result == -1        ? "the driver refuses"
                    : result == -EFAULT ? "DPDK has no driver of that name"
                                        : rte_strerror(-result));
      }
      ROCKHOPPER_TRY(found, find_port(name));
      plugged_ = true;
      if (guard_ != nullptr) ROCKHOPPER_TRY(guard_->open());
    }
    port_id_ = *found;
  }
  std::array<char, RTE_ETH_NAME_MAX_LEN> name{};
  if (rte_eth_dev_get_name_by_port(port_id_, name.data()) == 0) name_ = name.data();

  rte_eth_dev_owner owner{};
  int result = rte_eth_dev_owner_new(&owner.id);
  std::strcpy(owner.name, "rockhopper");
  if (result == 0) result = rte_eth_dev_owner_set(port_id_, &owner);
  if (result != 0) return fail(ErrorCode::busy, "port {} is in use", name_);
  owner_id_ = owner.id;
  return {};
}

Expected<void> Port::configure(const PortConfig& config) {
  rte_eth_dev_info info{};
  if (const int result = rte_eth_dev_info_get(port_id_, &info); result != 0) {
    return refused(name_, "no device information", result);
  }
  driver_ = info.driver_name;
  if (config.queues > info.max_rx_queues || config.queues > info.max_tx_queues) {
    return fail(ErrorCode::unsupported, "port {}: {} queue pairs, but {} has {} at most", name_,
                config.queues, driver_, std::min(info.max_rx_queues, info.max_tx_queues));
  }
  ROCKHOPPER_TRY(const auto plan, plan_frames(info, devargs_, config.mtu));

  const std::uint32_t frame = config.mtu + kFrameOverhead;
  // Some devices take receive buffers in steps of 1024 bytes and ignore the rest.
  std::uint32_t data_room =
      config.data_room != 0
          ? config.data_room
          : std::max<std::uint32_t>(RTE_MBUF_DEFAULT_DATAROOM, RTE_ALIGN_CEIL(frame, 1024u));
  data_room = std::max(data_room, plan.data_room_min);

  rte_eth_conf conf{};
  conf.rxmode.mtu = plan.configured_mtu;
  if (data_room < frame) conf.rxmode.offloads |= info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
  conf.txmode.offloads |= info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  multi_segment_ = conf.txmode.offloads != 0 || sends_chains_unasked(info);
  if (config.checksum_offload) {
    conf.rxmode.offloads |= info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
    conf.txmode.offloads |= info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
    ipv4_checksum_offload_ = (conf.txmode.offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) != 0;
  }
  if (!multi_segment_ && data_room < frame) {
    return fail(ErrorCode::unsupported,
                "port {}: {} sends no chains, so the data room must be {} bytes", name_, driver_,
                frame);
  }
  const std::uint64_t rss = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP;
  if (config.queues > 1 && (info.flow_type_rss_offloads & rss) != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & rss;
  }
  if (const int result = rte_eth_dev_configure(port_id_, config.queues, config.queues, &conf);
      result != 0) {
    return refused(name_, "the driver refuses the configuration", result);
  }
  return set_up_queues(config, static_cast<std::uint16_t>(data_room));
}

Expected<void> Port::set_up_pool(const PortConfig& config, std::uint32_t rings,
                                 std::uint16_t data_room) {
  if (config.shared_pool != nullptr) {
    const int holds = rte_pktmbuf_data_room_size(config.shared_pool) - RTE_PKTMBUF_HEADROOM;
    if (holds < data_room) {
      return fail(ErrorCode::invalid_argument,
                  "port {}: buffers of the shared pool hold {} bytes, {} are needed", name_, holds,
                  data_room);
    }
    shared_pool_ = config.shared_pool;
    return {};
  }
  std::uint32_t size = config.pool_size;
  if (size == 0) {
    size = rte_align32pow2(config.queues * (rings + config.pool_cache * 2u) + kMbufsInFlight) - 1;
  }
  ROCKHOPPER_TRY(pool_, MbufPool::create({.name = fmt::format("port-{}", port_id_),
                                          .size = size,
                                          .cache = config.pool_cache,
                                          .data_room = data_room,
                                          .of_this_process = !shares_buffers(devargs_)}));
  return {};
}

Expected<void> Port::set_up_queues(const PortConfig& config, std::uint16_t data_room) {
  std::uint16_t rx_descriptors = config.rx_descriptors;
  std::uint16_t tx_descriptors = config.tx_descriptors;
  int result = rte_eth_dev_adjust_nb_rx_tx_desc(port_id_, &rx_descriptors, &tx_descriptors);
  if (result != 0) return refused(name_, "descriptor numbers", result);

  const std::uint32_t rings = static_cast<std::uint32_t>(rx_descriptors + tx_descriptors);
  ROCKHOPPER_TRY(set_up_pool(config, rings, data_room));

  const int socket = rte_eth_dev_socket_id(port_id_);
  const auto socket_id = static_cast<unsigned>(socket);  // SOCKET_ID_ANY is -1 in either type
  for (std::uint16_t i = 0; i < config.queues; ++i) {
    result = rte_eth_rx_queue_setup(port_id_, i, rx_descriptors, socket_id, nullptr, pool());
    if (result == 0) {
      result = rte_eth_tx_queue_setup(port_id_, i, tx_descriptors, socket_id, nullptr);
    }
    if (result != 0) return refused(name_, "the driver refuses a queue", result);
    queues_.push_back(std::make_unique<PortQueue>(*this, i));
  }
  return {};
}

Expected<void> Port::start(const PortConfig& config) {
  if (driver_ == "net_memif" && devargs_value(devargs_, "role") != "server") reconnection_.enable();
  if (driver_ == "net_memif") {
    ROCKHOPPER_TRY(gate_, InterruptGate::get());
  }
  if (const int result = start_device(); result == 0) {
    reconnection_.on_started(TscClock().now_ns(), guard_ != nullptr);
  } else if (!reconnection_.is_enabled()) {
    return refused(name_, "the driver does not start", result);
  }
  rte_eth_dev_info info{};
  if (const int result = rte_eth_dev_info_get(port_id_, &info); result != 0) {
    return refused(name_, "no device information", result);
  }
  if (const int result = rte_eth_macaddr_get(port_id_, &mac_); result != 0) {
    return refused(name_, "no MAC address", result);
  }
  if (rte_is_zero_ether_addr(&mac_) != 0 || shares_mac_with_kernel(info)) {
    rte_eth_random_addr(mac_.addr_bytes);
  }
  // Neighbour discovery is multicast.
  receive_all_multicast();
  if (config.promiscuous) {
    const int result = rte_eth_promiscuous_enable(port_id_);
    if (result != 0 && result != -ENOTSUP) return refused(name_, "promiscuous mode", result);
  }
  return {};
}

int Port::start_device() {
  if (guard_ != nullptr && !guard_->dial()) return -ECONNREFUSED;
  int result = 0;
  if (reconnection_.is_enabled()) {
    // A memif client without a server is no error, but its driver calls it one.
    const QuietMemif quiet;
    result = control(rte_eth_dev_start);
  } else {
    result = control(rte_eth_dev_start);
  }
  if (guard_ != nullptr) guard_->started(result == 0);
  if (result == 0) started_.store(true, std::memory_order_release);
  return result;
}

void Port::stop_device() {
  if (started_.exchange(false, std::memory_order_acq_rel)) (void)control(rte_eth_dev_stop);
}

int Port::control(int (*call)(std::uint16_t port_id)) {
  if (driver_ != "net_memif") return call(port_id_);
  return call_in_interrupt_thread([this, call] { return call(port_id_); });
}

void Port::maintain_link(std::uint64_t now_ns) {
  if (!reconnection_.begin_look(now_ns)) return;
  const bool joining =
      guard_ != nullptr && guard_->is_joining() && reconnection_.is_in_handshake(now_ns);
  if (!link_up() && !joining) {
    stop_device();
    if (start_device() == 0) reconnection_.on_started(now_ns, guard_ != nullptr);
  }
  reconnection_.end_look();
}

// What the device filters.

Expected<void> Port::add_flow_rule(const FlowRule& rule) {
  if (rule.queue >= queues_.size()) {
    return fail(ErrorCode::invalid_argument, "port {}: a rule for queue {} of {}", name_,
                rule.queue, queues_.size());
  }
  for (const bool over_ipv4 : {true, false}) {
    if (const auto created = create_flow(port_id_, rule, over_ipv4); !created) {
      return fail(created.error().code, "port {}: {} takes {}", name_, driver_,
                  created.error().message);
    }
    has_flow_rules_ = true;
  }
  return {};
}

const char* to_string(MulticastFilter filter) {
  switch (filter) {
    case MulticastFilter::none:
      return "the driver has no filter";
    case MulticastFilter::all:
      return "all groups";
    case MulticastFilter::list:
      return "a list of groups";
  }
  return "invalid";
}

void Port::receive_all_multicast() {
  set_multicast_filter(rte_eth_allmulticast_enable(port_id_) == 0 ? MulticastFilter::all
                                                                  : MulticastFilter::none);
}

MulticastFilter Port::set_multicast_macs(std::span<const rte_ether_addr> macs) {
  // The interface takes a list that it does not change by a pointer to what could be.
  std::vector<rte_ether_addr> list(macs.begin(), macs.end());
  const int result =
      rte_eth_dev_set_mc_addr_list(port_id_, list.data(), static_cast<std::uint32_t>(list.size()));
  if (result == 0) {
    (void)rte_eth_allmulticast_disable(port_id_);
    set_multicast_filter(MulticastFilter::list);
  } else if (multicast_filter_ == MulticastFilter::list) {
    receive_all_multicast();  // too many for the device
  }
  return multicast_filter_;
}

void Port::set_multicast_filter(MulticastFilter filter) {
  if (filter == multicast_filter_) return;
  multicast_filter_ = filter;
  static const int log_type =
      rte_log_register_type_and_pick_level("rockhopper.port", RTE_LOG_NOTICE);
  rte_log(RTE_LOG_INFO, static_cast<std::uint32_t>(log_type), "port %s receives multicast: %s\n",
          name_.c_str(), to_string(filter));
}

Port::~Port() {
  if (guard_ != nullptr) guard_->close();
  if (owner_id_ != RTE_ETH_DEV_NO_OWNER) {
    if (has_flow_rules_) flush_flows(port_id_);
    stop_device();
    rte_eth_dev_owner_unset(port_id_, owner_id_);
  }
  if (!plugged_) return;
  rte_eth_dev_info info{};
  rte_device* device = rte_eth_dev_info_get(port_id_, &info) == 0 ? info.device : nullptr;
  {
    const QuietMemif quiet;  // it misses its socket's file, whose name the guard has taken away
    (void)control(rte_eth_dev_close);
  }
  if (device != nullptr) (void)rte_dev_remove(device);
}

PortQueue& Port::queue(std::uint16_t index) {
  assert(index < queues_.size());
  return *queues_[index];
}

std::uint16_t Port::queue_count() const { return static_cast<std::uint16_t>(queues_.size()); }

bool Port::link_up() const {
  rte_eth_link link{};
  return started_.load(std::memory_order_acquire) &&
         rte_eth_link_get_nowait(port_id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

std::uint64_t Port::link_rate() const {
  rte_eth_link link{};
  if (is_virtual(driver_) || rte_eth_link_get_nowait(port_id_, &link) != 0 ||
      link.link_status != RTE_ETH_LINK_UP || link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN) {
    return 0;
  }
  return std::uint64_t{link.link_speed} * 1'000'000;
}

bool Port::wait_for_link(std::uint32_t timeout_ms) {
  const TscClock clock;
  const std::uint64_t end_ns = clock.now_ns() + timeout_ms * kNsPerMs;
  while (!link_up()) {
    if (clock.now_ns() >= end_ns) return false;
    if (reconnection_.is_enabled()) maintain_link(clock.now_ns());
    rte_delay_us_sleep(1000);
  }
  return true;
}

void Port::visit_counters(CounterVisitor visit, void* context) const {
  rte_eth_stats stats{};
  if (rte_eth_stats_get(port_id_, &stats) == 0) {
    visit(context, "ipackets", stats.ipackets);
    visit(context, "opackets", stats.opackets);
    visit(context, "ibytes", stats.ibytes);
    visit(context, "obytes", stats.obytes);
    visit(context, "imissed", stats.imissed);
    visit(context, "ierrors", stats.ierrors);
    visit(context, "oerrors", stats.oerrors);
    visit(context, "rx_nombuf", stats.rx_nombuf);
  }
  const auto sum = [this](auto counter) {
    std::uint64_t total = 0;
    for (const auto& queue : queues_) {
      total += (queue->counters().*counter).value();
    }
    return total;
  };
  visit(context, "tx_backpressure", sum(&PortQueueCounters::tx_backpressure));
  visit(context, "tx_oversize", sum(&PortQueueCounters::tx_oversize));
  visit(context, "tx_rejected", sum(&PortQueueCounters::tx_rejected));
  visit(context, "tx_linearised", sum(&PortQueueCounters::tx_linearised));
  visit(context, "tx_no_mbuf", sum(&PortQueueCounters::tx_no_mbuf));
  if (guard_ != nullptr) guard_->visit_counters(visit, context);
}

void Port::describe_counters(CounterTextVisitor visit, void* context) {
  visit(context, "ipackets", "packets received");
  visit(context, "opackets", "packets sent");
  visit(context, "ibytes", "bytes received");
  visit(context, "obytes", "bytes sent");
  visit(context, "imissed", "packets lost, as the device's receive queues were full");
  visit(context, "ierrors", "packets received in error");
  visit(context, "oerrors", "packets that the device failed to send");
  visit(context, "rx_nombuf", "failed allocations of buffers to receive into");
  visit(context, "tx_backpressure", "packets handed back, as the device took no more; each once");
  visit(context, "tx_oversize", "packets dropped as longer than the MTU");
  visit(context, "tx_rejected", "packets dropped, as they ask for an offload that cannot be");
  visit(context, "tx_linearised", "chains of buffers copied into one buffer for the driver");
  visit(context, "tx_no_mbuf", "packets handed back, as there was no buffer for such a copy");
  MemifGuard::describe_counters(visit, context);
}

std::vector<std::pair<std::string, std::uint64_t>> Port::xstats() const {
  const int count = rte_eth_xstats_get_names(port_id_, nullptr, 0);
  if (count <= 0) return {};
  const auto size = static_cast<std::size_t>(count);
  std::vector<rte_eth_xstat_name> names(size);
  std::vector<rte_eth_xstat> values(size);
  if (rte_eth_xstats_get_names(port_id_, names.data(), static_cast<unsigned>(size)) != count ||
      rte_eth_xstats_get(port_id_, values.data(), static_cast<unsigned>(size)) != count) {
    return {};
  }
  std::vector<std::pair<std::string, std::uint64_t>> result;
  result.reserve(size);
  for (const rte_eth_xstat& value : values) {
    result.emplace_back(names[value.id].name, value.value);
  }
  return result;
}

}  // namespace rockhopper::stack
