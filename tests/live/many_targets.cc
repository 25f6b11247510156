// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

/// The two kinds of process of test_many_targets.py:
///
///   many-targets --targets 1250 --bytes 2048 --list FILE --dump FILE     targets
///   many-targets --work FILE LIST...                                     their initiator
///
/// Targets have a protection domain, and memory under a key of it, each to itself: what arrives by
/// way of another target is refused. They go on until SIGTERM and then write their memory to the
/// dump. The initiator has one DCI, does the WRITEs of the work file in order, and then waits for
/// SIGTERM, so that its memory can be looked at.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/command_line.h"
#include "apps/common/dc_endpoint.h"
#include "apps/common/endpoint.h"
#include "apps/common/option_set.h"
#include "apps/common/page_memory.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "tests/live/counters.h"

namespace {

using namespace rockhopper;

struct Options {
  std::uint32_t targets = 0;
  std::uint32_t bytes = 4096;
  std::string list;
  std::string dump;
  std::vector<std::string> lists;
  std::string work;
  std::uint32_t window = 64;
  unsigned timeout = 18;
  apps::EndpointOptions endpoint;
};

/// A WRITE of the work file, in host order.
struct Work {
  std::uint32_t target;
  std::uint32_t offset;
  std::array<std::byte, 16> value;
};

void add_options(apps::OptionSet app, Options& options) {
  const apps::Option targets = app.add_option("--targets", options.targets, "Be so many targets");
  app.add_option("--bytes", options.bytes, "Memory of each target").needs(targets);
  app.add_option("--list", options.list, "Where to tell who they are").needs(targets);
  app.add_option("--dump", options.dump, "Where to write their memory at the end").needs(targets);
  app.add_option("lists", options.lists, "Targets to write to").excludes(targets);
  app.add_option("--work", options.work, "What to write").excludes(targets);
  app.add_option("--window", options.window, "Requests outstanding");
  app.add_option("--qp-timeout", options.timeout, "Local ACK timeout code");
  apps::add_endpoint_options(app, options.endpoint, "-d,--device");
}

class Process {
 public:
  [[nodiscard]] Expected<void> open(const Options& options, const stack::Arguments& arguments) {
    auto config = apps::make_endpoint_config(options.endpoint,
                                             {.use_eal_ports = !arguments.embedded, .path_mtu = 0});
    if (!config) return tl::make_unexpected(config.error());
    auto endpoint = apps::Endpoint::create(*config, arguments);
    if (!endpoint) return tl::make_unexpected(endpoint.error());
    endpoint_ = std::move(*endpoint);
    auto dc = apps::DcEndpoint::create(endpoint_->engine());
    if (!dc) return tl::make_unexpected(dc.error());
    dc_ = std::move(*dc);
    return endpoint_->wait_for_link();
  }

  [[nodiscard]] apps::Endpoint& endpoint() { return *endpoint_; }
  [[nodiscard]] const apps::DcEndpoint& dc() const { return dc_; }
  [[nodiscard]] roce::Engine& engine() { return endpoint_->engine(); }
  [[nodiscard]] const stack::IpAddress& address() const {
    return endpoint_->addresses().front().address;
  }

  void serve_until_stopped() {
    while (!apps::stop_requested()) {
      (void)endpoint_->turn();
    }
  }

 private:
  std::unique_ptr<apps::Endpoint> endpoint_;
  apps::DcEndpoint dc_;
};

Expected<void> run_targets(Process& process, const Options& options) {
  roce::Engine& engine = process.engine();
  auto memory = apps::PageMemory::allocate(std::size_t{options.targets} * options.bytes);
  if (!memory) return tl::make_unexpected(memory.error());
  auto cq = roce::CompletionQueue::create(1);
  if (!cq) return tl::make_unexpected(cq.error());
  // WRITEs take no receive request, but a target needs a queue for them.
  auto srq = engine.create_srq({.pd = engine.allocate_pd(), .attributes = {.max_wr = 1}});
  if (!srq) return tl::make_unexpected(srq.error());
  const std::string unfinished = options.list + ".new";
  std::ofstream list(unfinished);
  for (std::uint32_t i = 0; i < options.targets; ++i) {
    const roce::ProtectionDomain pd = engine.allocate_pd();
    auto region =
        engine.register_memory(pd, memory->data() + std::size_t{i} * options.bytes, options.bytes,
                               roce::kAccessLocalWrite | roce::kAccessRemoteWrite);
    if (!region) return tl::make_unexpected(region.error());
    dc::DctInit init;
    init.pd = pd;
    init.srq = *srq;
    init.recv_cq = cq->get();
    init.access_flags = roce::kAccessRemoteWrite;
    auto dct = process.dc()->create_dct(init);
    if (!dct) return tl::make_unexpected(dct.error());
    list << fmt::format("{} {:x} {:x} {:x} {:x}\n", process.address().to_string(),
                        (*dct)->number().value, (*dct)->access_key(),
                        static_cast<std::uint32_t>(region->key), region->iova);
  }
  list.close();
  if (!list || std::rename(unfinished.c_str(), options.list.c_str()) != 0) {
    return fail(ErrorCode::io, "{}: cannot be written", options.list);
  }
  process.serve_until_stopped();
  std::ofstream dump(options.dump, std::ios::binary);
  dump.write(reinterpret_cast<const char*>(memory->data()),
             static_cast<std::streamsize>(memory->size()));
  dump.close();
  if (!dump) return fail(ErrorCode::io, "{}: cannot be written", options.dump);
  fmt::print("{}\n", live::to_json(process.dc()).dump());
  return {};
}

/// What an application keeps of a target: the transport keeps nothing.
struct Target {
  roce::AddressHandle* ah;
  wire::Qpn number;
  roce::MemoryKey rkey;
  std::uint64_t access_key;
  std::uint64_t base;
};

class Initiator {
 public:
  Initiator(Process& process, const Options& options) : process_(process), options_(options) {}

  [[nodiscard]] Expected<void> run() {
    pd_ = process_.engine().allocate_pd();
    targets_.reserve(1u << 14);  // once: what a growing vector leaves behind would count as ours
    for (const std::string& path : options_.lists) {
      if (auto read = read_list(path); !read) return read;
    }
    return read_work().and_then([this] { return create_dci(); }).and_then([this] {
      return write_all();
    });
  }

 private:
  [[nodiscard]] Expected<void> read_list(const std::string& path) {
    std::ifstream list(path);
    std::string host;
    std::string known;
    roce::AddressHandle* ah = nullptr;
    std::uint32_t number = 0;
    std::uint32_t rkey = 0;
    std::uint64_t access_key = 0;
    std::uint64_t base = 0;
    while (list >> host >> std::hex >> number >> access_key >> rkey >> base) {
      if (host != known) {
        const auto address = stack::IpAddress::parse(host);
        if (!address) return fail(ErrorCode::invalid_argument, "{}: {}: no address", path, host);
        auto made = process_.engine().create_ah(
            pd_, {.source = process_.address(), .destination = *address});
        if (!made) return tl::make_unexpected(made.error());
        ah = *made;
        known = host;
      }
      targets_.push_back(
          {ah, wire::Qpn{number}, static_cast<roce::MemoryKey>(rkey), access_key, base});
    }
    if (!list.eof()) return fail(ErrorCode::io, "{}: not a list of targets", path);
    return {};
  }

  [[nodiscard]] Expected<void> read_work() {
    std::ifstream file(options_.work, std::ios::binary | std::ios::ate);
    const auto bytes = static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0));
    auto memory = apps::PageMemory::allocate(bytes);
    if (!memory) return tl::make_unexpected(memory.error());
    memory_ = std::move(*memory);
    file.seekg(0);
    file.read(reinterpret_cast<char*>(memory_.data()), static_cast<std::streamsize>(bytes));
    if (!file) return fail(ErrorCode::io, "{}: cannot be read", options_.work);
    work_ = {reinterpret_cast<const Work*>(memory_.data()), bytes / sizeof(Work)};
    for (const Work& work : work_) {
      if (work.target >= targets_.size()) {
        return fail(ErrorCode::invalid_argument, "no target {}", work.target);
      }
    }
    auto region = process_.engine().register_memory(pd_, memory_.data(), bytes, 0);
    if (!region) return tl::make_unexpected(region.error());
    region_ = *region;
    return {};
  }

  [[nodiscard]] Expected<void> create_dci() {
    auto cq = roce::CompletionQueue::create(options_.window);
    if (!cq) return tl::make_unexpected(cq.error());
    cq_ = std::move(*cq);
    auto dci = process_.dc()->create_dci({.pd = pd_,
                                          .send_cq = cq_.get(),
                                          .max_send_wr = options_.window,
                                          .sq_sig_all = true,
                                          .timeout = static_cast<std::uint8_t>(options_.timeout)});
    if (!dci) return tl::make_unexpected(dci.error());
    dci_ = *dci;
    return {};
  }

  [[nodiscard]] roce::PostResult post(const Work& work) {
    const Target& target = targets_[work.target];
    const roce::Sge value{reinterpret_cast<std::uintptr_t>(work.value.data()),
                          static_cast<std::uint32_t>(work.value.size()), region_.key};
    roce::SendWr wr;
    wr.sg_list = {&value, 1};
    wr.opcode = roce::WrOpcode::rdma_write;
    wr.remote_addr = target.base + work.offset;
    wr.rkey = target.rkey;
    wr.ah = target.ah;
    wr.remote_qpn = target.number;
    wr.dc_access_key = target.access_key;
    return dci_->post_send(wr);
  }

  [[nodiscard]] Expected<void> write_all() {
    std::size_t posted = 0;
    std::size_t completed = 0;
    const std::uint64_t start_ns = apps::steady_now_ns();
    std::array<roce::Completion, 32> completions;
    while (completed < work_.size() && !apps::stop_requested()) {
      while (posted < work_.size() && posted - completed < options_.window) {
        if (post(work_[posted]) != roce::PostResult::ok) {
          return fail(ErrorCode::invalid_state, "WRITE {} was not taken", posted);
        }
        ++posted;
      }
      (void)process_.endpoint().turn();
      const std::size_t count = cq_->poll(completions);
      for (std::size_t i = 0; i < count; ++i) {
        if (completions[i].status != roce::WcStatus::success) {
          return fail(ErrorCode::io, "WRITE {} failed: {}", completed + i,
                      roce::to_string(completions[i].status));
        }
      }
      completed += count;
    }
    const double seconds = static_cast<double>(apps::steady_now_ns() - start_ns) * 1e-9;
    fmt::print("{}\n", nlohmann::json{{"writes", completed},
                                      {"seconds", seconds},
                                      {"counters", live::to_json(process_.dc())}}
                           .dump());
    (void)std::fflush(stdout);
    process_.serve_until_stopped();
    return {};
  }

  Process& process_;
  const Options& options_;
  roce::ProtectionDomain pd_{};
  std::vector<Target> targets_;
  apps::PageMemory memory_;
  std::span<const Work> work_;
  roce::MemoryRegion region_{};
  std::unique_ptr<roce::CompletionQueue> cq_;
  dc::Dci* dci_ = nullptr;
};

Expected<void> run(const Options& options, const stack::Arguments& arguments) {
  Process process;
  if (auto opened = process.open(options, arguments); !opened) return opened;
  return options.targets > 0 ? run_targets(process, options) : Initiator(process, options).run();
}

}  // namespace

int main(int argc, char** argv) {
  apps::CommandLine line(argc, argv,
                         {"many-targets", "One DC initiator and a great many targets", ""});
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  apps::catch_stop_signals();
  return line.finish(run(options, line.arguments()));
}
