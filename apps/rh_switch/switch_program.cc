// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_switch/switch_program.h"

#include <algorithm>
#include <utility>

#include "stack/device_limits.h"
#include "stack/memif.h"

namespace rockhopper::apps::ethernet_switch {
namespace {

Expected<stack::PortConfig> port_config(const PortSettings& port, PortNumber number) {
  stack::PortConfig config;
  config.promiscuous = true;  // frames are for others
  if (!port.device.empty()) {
    ROCKHOPPER_TRY(stack::set_device(config, port.device));
  } else {
    const stack::MemifConfig memif{.role = stack::MemifRole::server,
                                   .device = fmt::format("net_memif_switch{}", number),
                                   .socket = port.memif_socket};
    ROCKHOPPER_TRY(stack::check_memif_socket(memif));
    ROCKHOPPER_TRY(config.devargs, stack::memif_devargs(memif));
  }
  return config;
}

/// The switch's counters of a port, and those of what is behind it.
void describe_with(void (*describe_device)(stack::CounterTextVisitor, void*),
                   stack::CounterTextVisitor visit, void* context) {
  stack::net::LearningSwitch::describe_port_counters(visit, context);
  struct Device {
    stack::CounterTextVisitor visit;
    void* context;
  } device{visit, context};
  describe_device(
      [](void* to, const char* name, const char* text) {
        const auto& target = *static_cast<const Device*>(to);
        target.visit(target.context, fmt::format("device_{}", name).c_str(),
                     fmt::format("at the device: {}", text).c_str());
      },
      &device);
}

}  // namespace

Expected<std::unique_ptr<SwitchProgram>> SwitchProgram::create(const Options& options,
                                                               const stack::Arguments& arguments) {
  std::unique_ptr<SwitchProgram> program(new SwitchProgram(options));
  ROCKHOPPER_TRY(program->eal_,
                 stack::Eal::start(arguments, {.memory_mb = embedded_memory_mb(options)}));
  ROCKHOPPER_TRY(program->build());
  return program;
}

Expected<void> SwitchProgram::build() {
  clock_ = std::make_unique<stack::TscClock>();
  const bool shared =
      std::any_of(options_.ports.begin(), options_.ports.end(), [](const PortSettings& port) {
        return !port.device.empty() && stack::shares_buffers(port.device);
      });
  ROCKHOPPER_TRY(pool_, stack::MbufPool::create({.size = pool_size(options_),
                                                 .data_room = data_room(options_),
                                                 .of_this_process = !shared}));

  std::vector<stack::net::OutputPortConfig> outputs;
  std::vector<stack::PriorityMap> priorities;
  for (const PortSettings& port : options_.ports) {
    outputs.push_back(port.output);
    priorities.push_back(port.priorities);
  }
  switch_ = std::make_unique<stack::net::LearningSwitch>(stack::net::LearningSwitchConfig{
      .ports = static_cast<PortNumber>(options_.ports.size()),
      .mac_table_size = options_.mac_table_size,
      .mac_ageing_ns = static_cast<std::uint64_t>(options_.mac_ageing_s * 1e9),
      .outputs = std::move(outputs),
      .priorities = std::move(priorities),
      .seed = *options_.seed});
  std::vector<stack::net::ForwarderPort> links;
  for (std::size_t i = 0; i < options_.ports.size(); ++i) {
    ROCKHOPPER_TRY(open_port(static_cast<PortNumber>(i)));
    const SwitchPort& port = ports_.back();
    if (port.segment) switch_->fix_station(port.mac(), static_cast<PortNumber>(i));
    const stack::Port* device = port.port.get();  // a segment is always up
    links.push_back({port.link, [device] { return device == nullptr || device->link_up(); }});
  }
  forwarder_ = std::make_unique<stack::net::Forwarder>(*switch_, std::move(links));
  return publish_counters();
}

Expected<void> SwitchProgram::open_port(PortNumber number) {
  const PortSettings& settings = options_.ports[number];
  SwitchPort port;
  ROCKHOPPER_TRY(settings.segment ? open_segment(settings, port) : open_device(settings, port));
  if (!settings.pcap.empty()) {
    const std::string name = fmt::format("port {} {}", number, port.name());
    ROCKHOPPER_TRY(port.pcap, stack::PcapWriter::open(
                                  *port.link, {.path = settings.pcap,
                                               .interface_name = name,
                                               .time_offset_ns = clock_->wall_offset_ns()}));
    port.link = port.pcap.get();
    switch_->set_drop_observer(number, port.pcap.get());
  }
  if (settings.faults) {
    port.faults = std::make_unique<stack::FaultInjector>(*port.link, pool_.get(), *settings.faults);
    port.link = port.faults.get();
  }
  ports_.push_back(std::move(port));
  return {};
}

Expected<void> SwitchProgram::open_device(const PortSettings& settings, SwitchPort& port) {
  ROCKHOPPER_TRY(auto config, port_config(settings, static_cast<PortNumber>(ports_.size())));
  config.mtu = options_.mtu;
  config.shared_pool = pool_.get();
  ROCKHOPPER_TRY(port.port, stack::Port::open(config));
  port.link = &port.port->queue(0);
  return {};
}

/// Behind the devices, so that what they can carry is known.
Expected<void> SwitchProgram::open_segment(const PortSettings& settings, SwitchPort& port) {
  std::uint16_t mtu = options_.mtu;
  for (const SwitchPort& other : ports_) {
    mtu = std::min(mtu, other.mtu());
  }
  ROCKHOPPER_TRY(port.segment, SegmentGateway::open({.directory = settings.segment->directory,
                                                     .addresses = settings.segment->addresses,
                                                     .mtu = mtu,
                                                     .pool = pool_.get(),
                                                     .seed = *options_.seed}));
  port.link = port.segment.get();
  return {};
}

Expected<void> SwitchProgram::publish_counters() {
  const auto add = [this](std::string name, stack::CounterGroup::Visit visit,
                          stack::CounterGroup::Describe describe) -> Expected<void> {
    ROCKHOPPER_TRY(auto group,
                   stack::CounterGroup::add(std::move(name), std::move(visit), describe));
    groups_.push_back(std::move(group));
    return {};
  };
  auto added = add(
      "mac_table",
      [this](stack::CounterVisitor visit, void* context) {
        switch_->visit_mac_counters(visit, context);
      },
      &stack::net::LearningSwitch::describe_mac_counters);
  for (PortNumber number = 0; added && number < ports_.size(); ++number) {
    added = add(
        fmt::format("port{}", number),
        [this, number](stack::CounterVisitor visit, void* context) {
          visit_port_counters(number, visit, context);
        },
        ports_[number].segment ? &describe_segment_counters : &describe_port_counters);
    const stack::FaultInjector* faults = ports_[number].faults.get();
    if (!added || faults == nullptr) continue;
    added = add(
        fmt::format("port{}_faults", number),
        [faults](stack::CounterVisitor visit, void* context) {
          faults->visit_counters(visit, context);
        },
        &stack::FaultInjector::describe_counters);
  }
  return added;
}

void SwitchProgram::visit_port_counters(PortNumber port, stack::CounterVisitor visit,
                                        void* context) const {
  switch_->visit_port_counters(port, visit, context);
  struct Device {
    stack::CounterVisitor visit;
    void* context;
  } device{visit, context};
  // The device counts on the other side of captures and faults, under similar names.
  const auto visit_device = [](void* to, const char* name, std::uint64_t value) {
    const auto& target = *static_cast<const Device*>(to);
    target.visit(target.context, fmt::format("device_{}", name).c_str(), value);
  };
  if (const SegmentGateway* segment = ports_[port].segment.get()) {
    segment->visit_counters(visit_device, &device);
  } else {
    ports_[port].port->visit_counters(visit_device, &device);
  }
}

void SwitchProgram::describe_port_counters(stack::CounterTextVisitor visit, void* context) {
  describe_with(&stack::Port::describe_counters, visit, context);
}

void SwitchProgram::describe_segment_counters(stack::CounterTextVisitor visit, void* context) {
  describe_with(&SegmentGateway::describe_counters, visit, context);
}

void SwitchProgram::turn() {
  const bool moved = forwarder_->turn(clock_->now_ns());
  if (idler_.is_time(moved)) idler_.rest(kLongIdleSleepNs);
}

Expected<void> SwitchProgram::finish() {
  for (SwitchPort& port : ports_) {
    if (port.pcap && !port.pcap->flush()) {
      return fail(ErrorCode::io, "the capture of port {} is not complete: it could not be written",
                  port.name());
    }
  }
  return {};
}

}  // namespace rockhopper::apps::ethernet_switch
