// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// A connection manager and its application against a peer that sends any message, most of them with
// the numbers that let them in. The input is a list of actions of both and of time. Limits hold,
// no event is about what has been released, and after the release of everything nothing is left.
#include <algorithm>
#include <array>
#include <vector>

#include "tests/fuzz/eal.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input.h"
#include "tests/sim/cm_network.h"

namespace rockhopper::fuzz {
namespace {

using namespace roce::cm;
using test::Bytes;
using wire::cm::Attribute;

constexpr std::uint64_t kService = 0x0000000001061c06;  ///< as in the captures
constexpr std::uint32_t kMaxConnections = 12;
constexpr std::uint32_t kMaxLookups = 4;
constexpr std::uint32_t kPeerId = 0x11223344;
constexpr std::uint32_t kPeerQpn = 0x2222;
constexpr std::size_t kMaxActions = 200;
constexpr std::size_t kMaxQps = 40;
constexpr std::uint64_t kRestLimitNs = 100'000'000'000'000;

sim::PoolSet& pools() {
  static sim::PoolSet* const set = [] {
    ensure_eal();
    return new sim::PoolSet(1023, 1024, 2047);
  }();
  return *set;
}

sim::CmNetworkConfig network_config() {
  sim::CmNetworkConfig config{.network = {}, .managers = {}, .bare_peer = true};
  config.network.pools = &pools();
  config.managers[0].max_connections = kMaxConnections;
  config.managers[0].max_lookups = kMaxLookups;
  config.managers[0].max_retries = 2;
  return config;
}

class ManagerRun {
 public:
  explicit ManagerRun(std::span<const std::uint8_t> input) : input_(input), net_(network_config()) {
    net_.on_event = [this](unsigned, const Event& event) { on_event(event); };
    sim::must(manager().listen(kService, 4));
  }
  void run();

 private:
  [[nodiscard]] ConnectionManager& manager() { return net_.manager(0); }
  void act(std::uint8_t action);
  void on_event(const Event& event);
  void connect();
  void accept();
  void resolve();
  void send();
  void fit(sim::MadPeer::Mad& mad);
  void learn();
  void end();
  [[nodiscard]] std::size_t choose(std::size_t count) { return input_.u8() % count; }
  [[nodiscard]] roce::QpType choose_type() {
    return (input_.u8() & 3) == 3 ? roce::QpType::uc : roce::QpType::rc;
  }

  Input input_;
  sim::CmNetwork net_;
  std::vector<Connection*> connections_;  ///< not released
  std::vector<Lookup*> lookups_;          ///< ours, not released
  std::vector<Lookup*> requests_;         ///< the peer's, not answered
  std::vector<std::uint32_t> ids_{0};     ///< of the manager, as the peer has seen them
  std::size_t qps_ = 0;
};

void ManagerRun::run() {
  for (std::size_t i = 0; i < kMaxActions && !input_.empty(); ++i) {
    act(input_.u8());
    check(manager().connection_count() <= kMaxConnections);
    check(requests_.size() <= kMaxLookups);
  }
  end();
}

void ManagerRun::act(std::uint8_t action) {
  switch (action % 16) {
    case 0:
      return connect();
    case 1:
      return accept();
    case 2:
      if (!connections_.empty()) (void)manager().reject(*connections_[choose(connections_.size())]);
      return;
    case 3:
      if (!connections_.empty()) {
        (void)manager().disconnect(*connections_[choose(connections_.size())]);
      }
      return;
    case 4:
      if (!connections_.empty()) {
        const auto at =
            connections_.begin() + static_cast<std::ptrdiff_t>(choose(connections_.size()));
        Connection* connection = *at;
        connections_.erase(at);
        manager().release(*connection);
      }
      return;
    case 5:
      return resolve();
    case 6:
      if (!requests_.empty()) {
        Lookup* lookup = requests_.back();
        requests_.pop_back();
        sim::must(manager().answer(*lookup, wire::Qpn{input_.u8()}, input_.u8()));
      }
      return;
    case 7:
      return net_.run_for(std::uint64_t{input_.u8()} << (input_.u8() % 32));
    default:
      return send();
  }
}

void ManagerRun::on_event(const Event& event) {
  const auto contains = [](const auto& list, const auto* item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  };
  switch (event.type) {
    case EventType::connect_request:
      check(!contains(connections_, event.connection));
      connections_.push_back(event.connection);
      return;
    case EventType::lookup_request:
      check(!contains(requests_, event.lookup));
      requests_.push_back(event.lookup);
      return;
    case EventType::resolved:
    case EventType::lookup_failed:
      check(contains(lookups_, event.lookup));
      return;
    default:
      check(contains(connections_, event.connection));
  }
}

void ManagerRun::connect() {
  if (++qps_ > kMaxQps) return;
  const auto made = manager().connect(net_.make_qp(0, choose_type()),
                                      {.path = net_.path(0), .service_id = kService});
  if (made) connections_.push_back(*made);
}

void ManagerRun::accept() {
  if (connections_.empty() || ++qps_ > kMaxQps) return;
  Connection& connection = *connections_[choose(connections_.size())];
  const State before = connection.state();
  roce::QueuePair& qp = net_.make_qp(0, choose_type());
  const auto accepted = manager().accept(connection, qp, {});
  check(!accepted || before == State::req_rcvd);
  if (!accepted) net_.engine(0).destroy_qp(&qp);
}

void ManagerRun::resolve() {
  const auto made = manager().resolve({.path = net_.path(0), .service_id = kService});
  if (made) {
    lookups_.push_back(*made);
  } else if (!lookups_.empty()) {
    manager().release(*lookups_.back());
    lookups_.pop_back();
  }
}

/// A datagram of the input's, as it is or with the numbers that let it in.
void ManagerRun::send() {
  net_.settle();
  learn();
  const std::uint8_t how = input_.u8();
  sim::MadPeer::Mad mad{};
  if ((how & 1) != 0) {
    input_.read(mad);
  } else {
    // Zeros with a few bytes changed.
    mad[0] = wire::MadHeader::kBaseVersion;
    mad[1] = wire::cm::kManagementClass;
    mad[2] = wire::cm::kClassVersion;
    mad[3] = wire::cm::kMethodSend;
    mad[17] = static_cast<std::uint8_t>(0x10 + input_.u8() % 12);
    for (std::size_t count = input_.u8() % 24; count > 0; --count) {
      const std::size_t offset = wire::MadHeader::kSize + input_.u8() % 232;
      mad[offset] = input_.u8();
    }
  }
  if ((how & 2) == 0) fit(mad);
  net_.peer().send(net_.path(1), mad);
  net_.run_for(10'000);
}

void ManagerRun::fit(sim::MadPeer::Mad& mad) {
  constexpr std::size_t kBody = wire::MadHeader::kSize;
  const std::uint32_t own = ids_[choose(ids_.size())];
  const std::uint32_t variant = input_.u8() % 4;
  const auto attribute = static_cast<Attribute>(wire::load_be16(&mad[16]));
  const auto set32 = [&](std::size_t offset, std::uint32_t value) {
    wire::store_be32(&mad[kBody + offset], value);
  };
  set32(0, kPeerId + variant);
  switch (attribute) {
    case Attribute::req: {
      const roce::AddressVector path = net_.path(1);
      wire::store_be64(&mad[kBody + 8], kService);
      wire::store_be24(&mad[kBody + 32], kPeerQpn + variant);
      mad[kBody + 50] = static_cast<std::uint8_t>(0x10 + (mad[kBody + 50] & 0x3f));
      std::copy(path.source.bytes.begin(), path.source.bytes.end(), mad.begin() + kBody + 56);
      std::copy(path.destination.bytes.begin(), path.destination.bytes.end(),
                mad.begin() + kBody + 72);
      return;
    }
    case Attribute::sidr_req:
      wire::store_be64(&mad[kBody + 8], kService);
      return;
    case Attribute::sidr_rep:
      set32(0, own);
      return;
    default:
      set32(4, own);
      if (attribute == Attribute::rep) wire::store_be24(&mad[kBody + 12], kPeerQpn + variant);
      if (attribute == Attribute::dreq && !connections_.empty()) {
        wire::store_be24(&mad[kBody + 8],
                         connections_[choose(connections_.size())]->local_qpn().value);
      }
      return;
  }
}

/// The first number of each message is the manager's own.
void ManagerRun::learn() {
  for (const auto& received : net_.peer().take()) {
    ids_.push_back(wire::load_be32(&received.bytes[wire::MadHeader::kSize]));
  }
}

void ManagerRun::end() {
  for (Connection* connection : std::exchange(connections_, {})) {
    manager().release(*connection);
  }
  for (Lookup* lookup : std::exchange(lookups_, {})) {
    manager().release(*lookup);
  }
  for (Lookup* lookup : std::exchange(requests_, {})) {
    manager().release(*lookup);
  }
  // What had not been taken from the queue pair yet may still ask.
  net_.on_event = [this](unsigned, const Event& event) {
    if (event.type == EventType::connect_request) {
      manager().release(*event.connection);
    } else {
      check(event.type == EventType::lookup_request);
      manager().release(*event.lookup);
    }
  };
  check(net_.run_to_rest(net_.now_ns() + kRestLimitNs));
  check(manager().connection_count() == 0);
  check(net_.busy_deadlines() == 0);
}

void run(std::span<const std::uint8_t> input) {
  const std::uint32_t before = pools().in_use();
  // It has given its buffers back when it is gone: here, at the end of the statement.
  ManagerRun(input).run();
  check(pools().in_use() == before);
}

/// A connection of each role brought up, then the captured datagram as it is and fitted.
Bytes make_input(const test::RocePacket& packet) {
  const auto transport = packet.transport();
  const std::size_t offset = std::min<std::size_t>(transport.size(), 20);
  Bytes mad(transport.begin() + static_cast<std::ptrdiff_t>(offset), transport.end());
  mad.resize(wire::kMadBytes);
  Bytes input{0, 0, 8, 0, 3, 0, 1, 0};            // connect, REP
  input.insert(input.end(), {8, 0, 0, 0, 0, 1});  // REQ
  input.insert(input.end(), {1, 1, 0});           // accept
  for (const std::uint8_t how : {std::uint8_t{3}, std::uint8_t{1}}) {
    input.insert(input.end(), {8, how});
    input.insert(input.end(), mad.begin(), mad.end());
    input.insert(input.end(), {1, 0, 0});
  }
  input.insert(input.end(), {3, 0, 7, 200, 24});
  return input;
}

const FuzzTarget kTarget("connection_manager", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
