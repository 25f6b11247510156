// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// An end of active messages as a process. The initiator has many instructions outstanding at a
// target that is stopped, and says what became of each when it is killed (AM-22).
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "apps/common/command_line.h"
#include "apps/common/dc_endpoint.h"
#include "apps/common/endpoint.h"
#include "apps/common/option_set.h"
#include "apps/common/page_memory.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/services/ami/adapter.h"
#include "apps/services/ami/context.h"

namespace {

using namespace rockhopper;

constexpr std::uint64_t kLimitNs = 60'000'000'000;
constexpr std::uint64_t kAfterNs = 1'000'000'000;
constexpr std::uint32_t kTurnsPerLook = 256;
constexpr std::size_t kMemoryBytes = 16'384;
constexpr std::uint16_t kHandler = 1;

const apps::ProgramText kText{
    "ami-node", "A target of active messages, or an initiator whose target dies.",
    "  ami-node target --transport rc --peer INITIATOR --ip 10.42.0.1/24 --memif-role client ...\n"
    "  ami-node initiator --transport rc --peer TARGET --go FILE --ip 10.42.0.2/24 ...\n"};

struct Options {
  std::string role;
  std::string transport = "rc";
  std::string mode = "mask";
  std::string peer;  ///< file with what the other end has printed at its start
  std::string go;    ///< when that file is there, the initiator injects
  std::uint32_t instructions = 10'000;
  std::uint8_t timeout = 14;  ///< local ACK timeout code
  apps::EndpointOptions endpoint;
};

void add_options(apps::OptionSet app, Options& options) {
  app.add_option("role", options.role).one_of({"target", "initiator"}).required();
  apps::add_endpoint_options(app, options.endpoint, "--device");
  app.add_option("--transport", options.transport).one_of({"rc", "dc"});
  app.add_option("--mode", options.mode).one_of({"mask", "counter"});
  app.add_option("--peer", options.peer).required();
  app.add_option("--go", options.go);
  app.add_option("--instructions", options.instructions).range(1, 16'000);
  app.add_option("--timeout", options.timeout).range(1, 31);
}

void print(const nlohmann::json& object) {
  fmt::print("{}\n", object.dump());
  std::fflush(stdout);
}

/// What became of the instructions.
struct Outcomes {
  std::vector<unsigned> calls;
  std::map<std::string, std::uint64_t> statuses;

  static void on_end(void* context, std::uint64_t cookie, ami::Status status) {
    auto& self = *static_cast<Outcomes*>(context);
    ++self.calls.at(cookie);
    ++self.statuses[std::string(to_string(status))];
  }
};

class AmiNode {
 public:
  AmiNode(apps::Endpoint& endpoint, const Options& options)
      : endpoint_(endpoint), options_(options), initiator_(options.role == "initiator") {}

  [[nodiscard]] Expected<void> run() {
    if (auto made = make(); !made) return made;
    if (auto up = endpoint_.wait_for_link(); !up) return up;
    introduce();
    if (auto connected = connect(); !connected) return connected;
    return initiator_ ? initiate() : serve();
  }

 private:
  [[nodiscard]] Expected<void> make() {
    roce::Engine& engine = endpoint_.engine();
    if (options_.transport == "dc") {
      auto made = apps::DcEndpoint::create(engine, {});
      if (!made) return tl::make_unexpected(made.error());
      dc_.emplace(std::move(*made));
    }
    auto adapter = ami::Adapter::create(engine, dc_ ? dc_->operator->() : nullptr,
                                        {.transfers = 1u << 16, .timeout = options_.timeout});
    if (!adapter) return tl::make_unexpected(adapter.error());
    adapter_ = std::move(*adapter);
    auto lane = adapter_->add_lane(
        {.self = self(),
         .fifo = {.completion = options_.mode == "mask" ? ami::CompletionMode::mask
                                                        : ami::CompletionMode::counter,
                  .slots = 1u << 15}});
    if (!lane) return tl::make_unexpected(lane.error());
    lane_ = *lane;
    context_ = std::make_unique<ami::Context>(*lane_, 0);
    context_->set_handler(kHandler, [](const ami::Message&) {});
    auto memory = apps::PageMemory::allocate(kMemoryBytes);
    if (!memory) return tl::make_unexpected(memory.error());
    memory_ = std::move(*memory);
    auto region =
        engine.register_memory(adapter_->pd(), memory_.data(), memory_.size(), roce::kAccessAll);
    if (!region) return tl::make_unexpected(region.error());
    region_ = *region;
    if (dc_) return {};
    auto qp = engine.create_qp(adapter_->qp_init(*lane_));
    if (!qp) return tl::make_unexpected(qp.error());
    qp_ = *qp;
    return {};
  }

  [[nodiscard]] ami::EndpointId self() const { return initiator_ ? 1 : 0; }
  [[nodiscard]] ami::EndpointId other() const { return initiator_ ? 0 : 1; }

  void introduce() const {
    nlohmann::json line{{"address", endpoint_.addresses().front().address.to_string()},
                        {"memory", region_.iova},
                        {"rkey", static_cast<std::uint32_t>(region_.key)}};
    if (dc_) {
      line["number"] = adapter_->target(*lane_).number().value;
      line["access_key"] = adapter_->target(*lane_).access_key();
    } else {
      line["number"] = qp_->number().value;
    }
    print(line);
  }

  [[nodiscard]] Expected<void> connect() {
    nlohmann::json peer;
    const auto read = [&] {
      std::ifstream file(options_.peer);
      std::string line;
      if (!std::getline(file, line) || file.eof()) return false;  // without its end, so far
      peer = nlohmann::json::parse(line, nullptr, false);
      return peer.is_object();
    };
    if (!turn_until(read, kLimitNs)) return fail(ErrorCode::timeout, "no peer");
    const auto address = stack::IpAddress::parse(peer["address"].get<std::string>());
    if (!address) return fail(ErrorCode::invalid_argument, "no address");
    remote_ = {.endpoint = other(),
               .addr = peer["memory"],
               .rkey = roce::MemoryKey{peer["rkey"].get<std::uint32_t>()}};
    const roce::AddressVector av{.source = endpoint_.addresses().front().address,
                                 .destination = *address};
    const wire::Qpn number{peer["number"].get<std::uint32_t>()};
    if (dc_) {
      auto added = adapter_->add_peer(
          *lane_, other(),
          dc::TargetAddress{.av = av, .number = number, .access_key = peer["access_key"]});
      if (!added) return added;
      return adapter_->open(*lane_);
    }
    roce::QpAttributes attributes;
    attributes.ah_attr = av;
    attributes.dest_qp_num = number;
    attributes.path_mtu = roce::PathMtu::mtu_1024;
    attributes.qp_access_flags = roce::kAccessAll;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
    attributes.min_rnr_timer = 1;
    attributes.timeout = options_.timeout;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    if (auto up = qp_->bring_up(attributes, roce::QpState::rts); !up) return up;
    if (auto added = adapter_->add_peer(*lane_, other(), *qp_); !added) return added;
    return adapter_->open(*lane_);
  }

  void turn() {
    (void)endpoint_.turn();
    (void)adapter_->progress(endpoint_.now_ns());
    (void)context_->advance();
  }
  /// False: it was not to be in that time.
  [[nodiscard]] bool turn_until(const std::function<bool()>& done, std::uint64_t limit_ns) {
    const std::uint64_t end_ns = apps::steady_now_ns() + limit_ns;
    for (std::uint32_t turns = 0; !apps::stop_requested(); ++turns) {
      turn();
      if (turns % kTurnsPerLook != 0) continue;
      if (done()) return true;
      if (apps::steady_now_ns() > end_ns) return false;
    }
    return false;
  }

  [[nodiscard]] Expected<void> serve() {
    while (!apps::stop_requested()) {
      turn();
    }
    return {};
  }

  /// None of them can complete without the peer.
  [[nodiscard]] ami::Injected inject(std::uint32_t which) {
    const ami::Completion remote{
        .level = ami::Level::remote,
        .callback = {.function = &Outcomes::on_end, .context = &outcomes_, .cookie = which}};
    const ami::Completion handled{.level = ami::Level::handled, .callback = remote.callback};
    const ami::Local eight{region_.iova, 8, region_.key};
    switch (which % 6) {
      case 0:
        return context_->put({region_.iova, 4096, region_.key}, remote_, remote);
      case 1:
        return context_->put_notify(eight, remote_, remote_.addr + 8, which, remote);
      case 2:
        return context_->get(eight, remote_, remote);
      case 3:
        return context_->fetch_add(eight, remote_, 1, remote);
      case 4:
        return context_->send(other(), kHandler, {}, ami::Local{region_.iova, 8192, region_.key},
                              handled);
      default:
        return context_->send(other(), kHandler, {}, eight, handled);
    }
  }

  [[nodiscard]] Expected<void> initiate() {
    const std::uint32_t count = options_.instructions;
    outcomes_.calls.resize(count);
    const auto none_pends = [this] { return context_->pending() == 0; };
    // Each kind once while the peer lives.
    for (std::uint32_t i = 0; i < 6; ++i) {
      if (inject(i) != ami::Injected::yes) return fail(ErrorCode::invalid_state, "no room");
    }
    if (!turn_until(none_pends, kLimitNs)) return fail(ErrorCode::timeout, "no answer");
    if (outcomes_.statuses != std::map<std::string, std::uint64_t>{{"ok", 6}}) {
      return fail(ErrorCode::io, "the peer is there, and something failed");
    }
    outcomes_ = {.calls = std::vector<unsigned>(count), .statuses = {}};
    print({{"ready", true}});
    const auto may_go = [this] {
      struct stat status = {};
      return stat(options_.go.c_str(), &status) == 0;
    };
    if (!turn_until(may_go, kLimitNs)) return fail(ErrorCode::timeout, "nobody says go");
    const std::uint64_t began_ns = apps::steady_now_ns();
    for (std::uint32_t i = 0; i < count; ++i) {
      if (inject(i) != ami::Injected::yes) return fail(ErrorCode::invalid_state, "no room");
    }
    for (std::uint32_t i = 0; i < kTurnsPerLook; ++i) {
      turn();  // some are on their way
    }
    print({{"outstanding", context_->pending()}});
    const bool ended = turn_until(none_pends, kLimitNs);
    const double seconds = static_cast<double>(apps::steady_now_ns() - began_ns) * 1e-9;
    (void)turn_until([] { return false; }, kAfterNs);  // none is called again
    std::uint64_t once = 0;
    for (const unsigned calls : outcomes_.calls) {
      once += calls == 1 ? 1 : 0;
    }
    print({{"ended", ended},
           {"once", once},
           {"statuses", outcomes_.statuses},
           {"idle", adapter_->idle()},
           {"seconds", seconds}});
    return {};
  }

  apps::Endpoint& endpoint_;
  const Options& options_;
  bool initiator_;
  apps::PageMemory memory_;
  std::optional<apps::DcEndpoint> dc_;
  std::unique_ptr<ami::Adapter> adapter_;
  ami::Lane* lane_ = nullptr;
  std::unique_ptr<ami::Context> context_;
  roce::MemoryRegion region_;
  roce::QueuePair* qp_ = nullptr;
  ami::Remote remote_;
  Outcomes outcomes_;
};

Expected<void> run(const Options& options, const apps::EndpointConfig& config,
                   const stack::Arguments& arguments) {
  auto endpoint = apps::Endpoint::create(config, arguments);
  if (!endpoint) return tl::make_unexpected(endpoint.error());
  return AmiNode(**endpoint, options).run();
}

}  // namespace

int main(int argc, char** argv) {
  apps::CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  const auto config = apps::make_endpoint_config(
      options.endpoint, {.role = options.role == "target" ? apps::Role::server : apps::Role::client,
                         .use_eal_ports = !line.arguments().embedded});
  if (!config) return line.usage_error(config.error());
  apps::catch_stop_signals();
  return line.finish(run(options, *config, line.arguments()));
}
