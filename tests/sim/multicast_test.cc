// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// UD multicast through a switch, under seeded faults: each queue pair that is attached gets what
// was sent to its groups, one copy of each datagram, in each sender's order, and nothing else.
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/node/node.h"
#include "stack/sim/network.h"
#include "stack/sim/station.h"
#include "tests/sim/rng.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim::multicast_test {
namespace {

constexpr std::uint64_t kSeeds = 1'000;
constexpr std::uint32_t kGrhBytes = 40;
constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::uint32_t kGroups = 3;
constexpr std::uint32_t kLengthMax = 200;

struct Profile {
  const char* name;
  stack::FaultRates rates;
  bool exact = false;       ///< everything arrives
  bool duplicates = false;  ///< and may do so more than once, and late
};

struct Totals {
  std::uint64_t sent = 0;
  std::uint64_t delivered = 0;
  std::uint64_t missed = 0;  ///< by a member
  std::uint64_t twice = 0;
  std::uint64_t refused = 0;  ///< for their Q_Key
  std::uint64_t unjoined = 0;
};

/// What each datagram begins with; the rest follows from it.
struct Label {
  std::uint32_t sender;
  std::uint32_t group;
  std::uint32_t sequence;  ///< of the sender
  friend auto operator<=>(const Label&, const Label&) = default;
};

std::uint8_t filler(const Label& label, std::size_t at) {
  return static_cast<std::uint8_t>(label.sender * 31 + label.sequence * 7 + at);
}

struct Member {
  roce::QueuePair* qp = nullptr;
  std::set<std::uint32_t> groups;
  std::map<Label, unsigned> received;
  std::map<std::uint32_t, std::uint32_t> next;  ///< by sender: not before this sequence
};

class Host final : public stack::Application {
 public:
  Host(std::uint32_t index, Rng& rng, const Profile& profile, stack::sim::Network& network,
       rte_mempool* pool, bool ipv6)
      : index_(index), rng_(rng), profile_(profile), random_(rng.next()) {
    stack::sim::Nic& nic = network.nic(static_cast<stack::sim::NodeIndex>(index + 1));
    own_ = must_parse(ipv6 ? fmt::format("fd42::{}", index + 1)
                           : fmt::format("10.42.0.{}", index + 1));
    NodeConfig node{.port = LinkPort{{&nic}},
                    .mtu = 1500,
                    .addresses = {{own_, static_cast<std::uint8_t>(ipv6 ? 64 : 24)}},
                    .engine = {.random = &random_, .max_qp = 16},
                    .clock = &network.clock(),
                    .packet_pool = pool};
    node.host.seed = rng.next();
    node_ = must(Node::open(std::move(node)));
    station_ = std::make_unique<stack::sim::Station>(network.events(), network.clock(), nic, nic,
                                                     node_->host(), this);
    for (std::uint32_t group = 0; group < kGroups; ++group) {
      groups_[group] = must_parse(ipv6 ? fmt::format("ff0e::42:{}", group + 1)
                                       : fmt::format("239.1.0.{}", group + 1));
    }
  }

  /// Queue pairs, those that receive attached to some of the groups.
  void set_up(std::uint32_t messages, std::uint32_t most) {
    messages_ = messages;
    pd_ = node_->engine().allocate_pd();
    const std::uint32_t members = rng_.between32(0, 3);
    memory_.resize(kLengthMax + std::size_t{members} * most * (kGrhBytes + kLengthMax));
    region_ = must(node_->engine().register_memory(pd_, memory_.data(), memory_.size(),
                                                   std::uint32_t{roce::kAccessAll}));
    send_cq_ = must(roce::CompletionQueue::create(64));
    recv_cq_ = must(roce::CompletionQueue::create(members * most + 1));
    sender_ = &make_qp(1);
    for (const stack::IpAddress& group : groups_) {
      ahs_.push_back(must(node_->engine().create_ah(pd_, {.source = own_, .destination = group})));
    }
    std::uint64_t place = kLengthMax;
    for (std::uint32_t i = 0; i < members; ++i) {
      Member member{.qp = &make_qp(most)};
      for (std::uint32_t group = 0; group < kGroups; ++group) {
        if (rng_.chance(60)) {
          must(node_->engine().attach_multicast(*member.qp, groups_[group]));
          member.groups.insert(group);
        }
      }
      for (std::uint32_t n = 0; n < most; ++n, place += kGrhBytes + kLengthMax) {
        const roce::Sge sge{
            .addr = address(place), .length = kGrhBytes + kLengthMax, .lkey = region_.key};
        if (member.qp->post_recv({.wr_id = place, .sg_list = {&sge, 1}}) != roce::PostResult::ok) {
          die("a receive request was refused");
        }
      }
      members_.push_back(std::move(member));
    }
    station_->wake(1'000'000'000);
  }

  std::uint64_t turn(std::uint64_t now_ns) override {
    std::array<roce::Completion, 16> done;
    for (std::size_t count = send_cq_->poll(done); count > 0; count = send_cq_->poll(done)) {
      outstanding_ -= static_cast<std::uint32_t>(count);
    }
    if (sent_.size() == messages_ || outstanding_ > 0) return stack::kNever;
    post();
    return now_ns + rng_.between(0, 20'000);
  }

  /// What arrived, held against what was sent.
  std::string check(const std::vector<std::unique_ptr<Host>>& hosts, Totals& totals) {
    roce::Completion completion;
    while (recv_cq_->poll({&completion, 1}) == 1) {
      if (std::string error = take(completion, hosts); !error.empty()) return error;
    }
    for (const Member& member : members_) {
      for (const auto& host : hosts) {
        for (const auto& [label, good] : host->sent_) {
          const bool wanted = good && host.get() != this && member.groups.count(label.group) != 0;
          const auto found = member.received.find(label);
          const unsigned copies = found == member.received.end() ? 0 : found->second;
          if (copies > 0 && !wanted) return "a datagram arrived where nobody wanted it";
          if (copies > 1 && !profile_.duplicates) return "a datagram arrived twice";
          if (wanted && profile_.exact && copies != 1) return "a datagram did not arrive";
          totals.delivered += copies;
          totals.twice += copies > 1 ? 1 : 0;
          totals.missed += wanted && copies == 0 ? 1 : 0;
        }
      }
    }
    totals.sent += sent_.size();
    totals.refused += drops(roce::DropReason::bad_qkey);
    totals.unjoined += node_->host().counters().value(stack::HostDrop::ip_group_not_joined);
    return leave_all();
  }

 private:
  static stack::IpAddress must_parse(const std::string& text) {
    return stack::IpAddress::parse(text).value();
  }
  [[nodiscard]] std::uint64_t address(std::uint64_t place) const {
    return reinterpret_cast<std::uintptr_t>(memory_.data()) + place;
  }
  [[nodiscard]] std::uint64_t drops(roce::DropReason reason) const {
    return node_->engine().counters().drops[static_cast<std::size_t>(reason)].value();
  }
  roce::QueuePair& make_qp(std::uint32_t receives) {
    roce::QueuePair* qp = must(node_->engine().create_qp({.qp_type = roce::QpType::ud,
                                                          .pd = pd_,
                                                          .send_cq = send_cq_.get(),
                                                          .recv_cq = recv_cq_.get(),
                                                          .max_recv_wr = receives,
                                                          .sq_sig_all = true}));
    roce::QpAttributes a;
    a.qkey = kQkey;
    must(qp->bring_up(a, roce::QpState::rts));
    return *qp;
  }

  void post() {
    const Label label{index_, rng_.between32(0, kGroups - 1),
                      static_cast<std::uint32_t>(sent_.size())};
    const bool good = !rng_.chance(5);
    const std::uint32_t length = rng_.between32(sizeof label, kLengthMax);
    std::memcpy(memory_.data(), &label, sizeof label);
    for (std::size_t at = sizeof label; at < length; ++at) {
      memory_[at] = filler(label, at);
    }
    const roce::Sge sge{.addr = address(0), .length = length, .lkey = region_.key};
    if (sender_->post_send({.sg_list = {&sge, 1},
                            .ah = ahs_[label.group],
                            .remote_qpn = wire::kMulticastQpn,
                            .remote_qkey = good ? kQkey : kQkey + 1}) != roce::PostResult::ok) {
      die("a send request was refused");
    }
    sent_[label] = good;
    ++outstanding_;
  }

  std::string take(const roce::Completion& completion,
                   const std::vector<std::unique_ptr<Host>>& hosts) {
    if (completion.status != roce::WcStatus::success || completion.byte_len < kGrhBytes) {
      return "a receive failed";
    }
    const std::uint8_t* bytes = &memory_[completion.wr_id + kGrhBytes];
    Label label;
    std::memcpy(&label, bytes, sizeof label);
    if (label.sender >= hosts.size() || hosts[label.sender]->sent_.count(label) == 0 ||
        hosts[label.sender]->sender_->number() != completion.src_qp) {
      return "a datagram that nobody sent";
    }
    for (std::size_t at = sizeof label; at < completion.byte_len - kGrhBytes; ++at) {
      if (bytes[at] != filler(label, at)) return "a datagram with other bytes";
    }
    for (Member& member : members_) {
      if (member.qp->number() != completion.qp_num) continue;
      std::uint32_t& next = member.next[label.sender];
      if (label.sequence < next && !profile_.duplicates) return "datagrams out of order";
      next = label.sequence + 1;
      ++member.received[label];
    }
    return {};
  }

  std::string leave_all() {
    for (Member& member : members_) {
      for (const std::uint32_t group : member.groups) {
        if (!node_->host().is_member(groups_[group])) return "the host is not in its group";
      }
      node_->engine().destroy_qp(member.qp);
    }
    for (const stack::IpAddress& group : groups_) {
      if (node_->host().is_member(group)) return "the host is in a group without members";
    }
    return {};
  }

  std::uint32_t index_;
  Rng& rng_;
  const Profile& profile_;
  roce::SeededRandom random_;
  stack::IpAddress own_;
  std::array<stack::IpAddress, kGroups> groups_;
  std::vector<std::uint8_t> memory_;
  std::unique_ptr<roce::CompletionQueue> send_cq_, recv_cq_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<stack::sim::Station> station_;
  roce::ProtectionDomain pd_;
  roce::MemoryRegion region_;
  roce::QueuePair* sender_ = nullptr;
  std::vector<roce::AddressHandle*> ahs_;
  std::vector<Member> members_;
  std::uint32_t messages_ = 0;
  std::uint32_t outstanding_ = 0;
  std::map<Label, bool> sent_;  ///< true: with the right Q_Key
};

std::string run(std::uint64_t seed, const Profile& profile, Totals& totals) {
  Rng rng(seed);
  std::string error;
  {
    stack::sim::Network network;
    const stack::sim::NodeIndex fabric = network.add_switch({.pool = pools().arriving()});
    const std::uint32_t count = rng.between32(2, 5);
    for (std::uint32_t i = 0; i < count; ++i) {
      const stack::sim::NodeIndex host = network.add_host();
      network.add_link(
          host, fabric,
          {.rate_bits_per_s = 10'000'000'000,
           .delay_ns = rng.between(100, 5'000),
           .faults =
               stack::FaultConfig{.rx = profile.rates, .tx = profile.rates, .seed = rng.next()},
           .pool = pools().node(0),
           .copy_pool = pools().arriving()});
    }
    must(network.build());
    const bool ipv6 = rng.chance(40);
    const std::uint32_t messages = rng.between32(1, 30);
    std::vector<std::unique_ptr<Host>> hosts;
    for (std::uint32_t i = 0; i < count; ++i) {
      hosts.push_back(std::make_unique<Host>(i, rng, profile, network, pools().node(1), ipv6));
    }
    // Faults make up to two more of each on its way over two links.
    for (const auto& host : hosts) {
      host->set_up(messages, count * messages * 4);
    }
    (void)network.run_until(network.now_ns() + 60'000'000'000);
    for (const auto& host : hosts) {
      if (error.empty()) error = host->check(hosts, totals);
    }
  }
  if (error.empty() && pools().in_use() != 0) {
    error = fmt::format("{} mbufs have not come back", pools().in_use());
  }
  return error;
}

class MulticastSimulation : public ::testing::Test {
 protected:
  static Totals run_seeds(const Profile& profile, std::uint64_t share) {
    Totals t;
    const double seconds =
        sim::run_seeds(profile.name, seeds_or(kSeeds), share,
                       [&](std::uint64_t seed) { return run(seed, profile, t); });
    std::printf("%s: %.1f s, sent %" PRIu64 ", delivered %" PRIu64 ", missed %" PRIu64
                ", twice %" PRIu64 ", refused %" PRIu64 ", not joined %" PRIu64 "\n",
                profile.name, seconds, t.sent, t.delivered, t.missed, t.twice, t.refused,
                t.unjoined);
    if (!single_seed()) {
      EXPECT_GT(t.delivered, t.sent) << "several members";
      EXPECT_GT(t.refused, 0u);
      EXPECT_GT(t.unjoined, 0u);
    }
    return t;
  }
};

TEST_F(MulticastSimulation, EveryMemberGetsEverythingOnce) {
  const Totals t = run_seeds({.name = "clean", .exact = true}, 400);
  EXPECT_EQ(t.missed, 0u);
}

TEST_F(MulticastSimulation, LossLeavesASubsequence) {
  const Totals t = run_seeds({.name = "loss 5 %", .rates{.loss = 0.05}}, 300);
  if (!single_seed()) {
    EXPECT_GT(t.missed, 0u);
  }
}

TEST_F(MulticastSimulation, EverythingAtOnce) {
  const Totals t = run_seeds({.name = "everything",
                              .rates{.loss = 0.02,
                                     .corrupt = 0.01,
                                     .duplicate = 0.05,
                                     .duplicate_max_ns = 100'000,
                                     .reorder = 0.05,
                                     .reorder_max_ns = 100'000},
                              .duplicates = true},
                             300);
  if (!single_seed()) {
    EXPECT_GT(t.twice, 0u);
  }
}

}  // namespace
}  // namespace rockhopper::sim::multicast_test
