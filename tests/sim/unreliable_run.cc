// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/unreliable_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "tests/sim/raw_bytes.h"
#include "tests/sim/rng.h"

namespace rockhopper::sim {
namespace {

using roce::QpState;
using roce::QpType;
using roce::WrOpcode;

constexpr std::uint64_t kRestLimitNs = 60'000'000'000;
constexpr std::uint32_t kMaxSteps = 1'000'000;
constexpr std::uint32_t kGrhBytes = 40;
constexpr std::uint32_t kIdBytes = 4;
constexpr std::uint8_t kUntouched = 0xa5;
constexpr std::uint32_t kQkey = 0x11111111;

/// One message of the script: what is sent, and what of it has come.
struct Message {
  unsigned sender = 0;    ///< index of its queue pair, see UnreliableRun::qps_
  unsigned receiver = 0;  ///< likewise
  WrOpcode opcode = WrOpcode::send;
  std::uint32_t length = 0;
  std::uint32_t place = 0;  ///< offset in the sender's source and, of a WRITE, in the target
  bool wrong_qkey = false;  ///< must not arrive
  unsigned deliveries = 0;
  [[nodiscard]] bool is_write() const {
    return opcode == WrOpcode::rdma_write || opcode == WrOpcode::rdma_write_with_imm;
  }
  [[nodiscard]] bool has_immediate() const {
    return opcode == WrOpcode::send_with_imm || opcode == WrOpcode::rdma_write_with_imm;
  }
  [[nodiscard]] bool takes_receive() const { return opcode != WrOpcode::rdma_write; }
};

/// A receive request's buffer.
struct Buffer {
  std::uint32_t place = 0;
  std::uint32_t id = 0;
};

/// Receive requests of a queue pair, or those that a node's queue pairs share.
struct Receives {
  roce::QueuePair* qp = nullptr;  ///< one of them
  roce::SharedReceiveQueue* srq = nullptr;
  std::deque<Buffer> free, waiting;
};

struct SimQp {
  unsigned node = 0;
  roce::QueuePair* qp = nullptr;
  roce::AddressHandle* ah = nullptr;  ///< of the other node
  std::vector<std::uint32_t> script;  ///< messages, in order
  std::size_t posted = 0;
  std::size_t completed = 0;
  Receives* receives = nullptr;
  std::vector<std::uint32_t> last_from;  ///< by sender: the last message received, plus 1
};

/// Registered memory of a node.
struct Memory {
  RawBytes bytes;
  roce::MemoryKey key{};
  [[nodiscard]] std::uint64_t address(std::uint32_t place) const {
    return reinterpret_cast<std::uintptr_t>(bytes.data()) + place;
  }
  [[nodiscard]] std::span<const std::uint8_t> at(std::uint32_t place, std::uint32_t length) const {
    return std::span(bytes).subspan(place, length);
  }
};

class UnreliableRun {
 public:
  UnreliableRun(std::uint64_t seed, const UnreliableProfile& profile, PoolSet& pools)
      : rng_(seed), profile_(profile), network_(draw_network(seed, pools)) {}

  std::string run(UnreliableTotals& totals);

 private:
  [[nodiscard]] NetworkConfig draw_network(std::uint64_t seed, PoolSet& pools);
  void set_up();
  void make_nodes(unsigned qps_per_node);
  void write_script();
  void make_receives(unsigned node, unsigned qps_per_node);
  void make_memory();
  void bring_up(unsigned index);
  [[nodiscard]] roce::AddressVector path(unsigned node);

  [[nodiscard]] bool drive();
  bool post_send(SimQp& sender);
  bool post_receive(unsigned node, Receives& receives);
  void arm_limit(unsigned node);
  void take_events();
  bool poll_completions();
  void on_sent(const roce::Completion& completion);
  void on_received(const roce::Completion& completion);
  void check_message(const SimQp& receiver, const Buffer& buffer,
                     const roce::Completion& completion);
  void check_grh(const SimQp& receiver, const Buffer& buffer);
  void note_delivery(SimQp& receiver, std::uint32_t id);
  [[nodiscard]] std::vector<roce::Sge> cut(const Memory& memory, std::uint32_t place,
                                           std::uint32_t length);
  [[nodiscard]] std::uint32_t id_of(const Memory& memory, std::uint32_t place, std::uint32_t length,
                                    const roce::Completion& completion) const;
  [[nodiscard]] std::span<const std::uint8_t> content(const Message& message) const {
    return source_[qps_[message.sender].node].at(message.place, message.length);
  }

  [[nodiscard]] bool finished() const;
  void check_end(UnreliableTotals& totals);
  void check_write(const Message& message, UnreliableTotals& totals);
  void add_counters(UnreliableTotals& totals);
  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }
  [[nodiscard]] bool is_ud() const { return profile_.type == QpType::ud; }
  [[nodiscard]] std::uint32_t grh_bytes() const { return is_ud() ? kGrhBytes : 0; }
  [[nodiscard]] SimQp* find(wire::Qpn number) {
    const auto found = std::find_if(qps_.begin(), qps_.end(),
                                    [&](const SimQp& qp) { return qp.qp->number() == number; });
    return found == qps_.end() ? nullptr : &*found;
  }

  Rng rng_;
  const UnreliableProfile& profile_;
  SimNetwork network_;
  std::size_t partition_ = 0;  ///< of all queue pairs
  roce::PathMtu mtu_ = roce::PathMtu::mtu_1024;
  std::uint32_t max_message_ = 0;
  std::uint32_t send_depth_ = 0;
  std::uint32_t recv_depth_ = 0;
  wire::Psn first_psn_;  ///< of all queue pairs
  std::array<roce::ProtectionDomain, 2> pds_;
  std::array<std::unique_ptr<roce::CompletionQueue>, 2> send_cqs_, recv_cqs_;
  std::array<Memory, 2> source_, target_, receive_;
  std::array<roce::ProtectionDomain, 2> receive_pds_;
  std::array<std::deque<Receives>, 2> receives_;  ///< by node
  std::array<bool, 2> limit_armed_{};
  std::uint64_t limit_events_ = 0;
  std::vector<SimQp> qps_;  ///< those of node 0, then those of node 1
  std::vector<Message> messages_;
  std::string error_;
};

NetworkConfig UnreliableRun::draw_network(std::uint64_t seed, PoolSet& pools) {
  NetworkConfig config{.seed = seed, .pools = &pools, .faults = profile_.faults};
  config.ipv6 = rng_.chance(40);
  config.static_neighbours = !profile_.resolve_neighbours;
  config.segment_arrivals = rng_.chance(25);
  config.delay_ns = rng_.pick<std::uint64_t>({0, 300, 20'000});
  config.wire_packets = rng_.pick<std::uint32_t>({8, 64, 4096});
  return config;
}

void UnreliableRun::set_up() {
  mtu_ = rng_.pick({roce::PathMtu::mtu_256, roce::PathMtu::mtu_1024, roce::PathMtu::mtu_4096});
  max_message_ = is_ud() ? rng_.between32(64, 4096) : bytes(mtu_) * rng_.between32(1, 6);
  const unsigned qps_per_node = rng_.between32(1, 3);
  qps_.resize(std::size_t{2} * qps_per_node);
  partition_ = rng_.chance(30) ? 1 : 0;
  write_script();
  send_depth_ = rng_.between32(1, 16);
  recv_depth_ = profile_.scarce_receives ? rng_.between32(1, 3)
                                         : static_cast<std::uint32_t>(messages_.size());
  // Near the end of the circle in half of the runs.
  first_psn_ = wire::Psn::make(rng_.chance(50) ? 0u - rng_.between32(0, 40)
                                               : static_cast<std::uint32_t>(rng_.next()));
  make_nodes(qps_per_node);
  make_memory();
  for (unsigned i = 0; i < qps_.size(); ++i) {
    bring_up(i);
  }
}

void UnreliableRun::write_script() {
  const auto half = static_cast<unsigned>(qps_.size() / 2);
  std::array<std::uint32_t, 2> place{};
  for (unsigned sender = 0; sender < qps_.size(); ++sender) {
    const unsigned node = sender / half;
    const std::uint32_t count = rng_.between32(1, 40);
    for (std::uint32_t i = 0; i < count; ++i) {
      Message message{.sender = sender, .place = place[node]};
      message.opcode = is_ud() ? rng_.pick({WrOpcode::send, WrOpcode::send_with_imm})
                               : rng_.pick({WrOpcode::send, WrOpcode::send_with_imm,
                                            WrOpcode::rdma_write, WrOpcode::rdma_write_with_imm});
      const std::uint32_t least = message.has_immediate() ? 0 : kIdBytes;
      message.length = rng_.chance(10) ? least : rng_.between32(least, max_message_);
      // A connection has one peer; datagrams go to anybody at the other node.
      message.receiver =
          is_ud() ? (1 - node) * half + rng_.between32(0, half - 1) : (sender + half) % (2 * half);
      message.wrong_qkey = is_ud() && rng_.chance(5);
      place[node] += message.length;
      qps_[sender].script.push_back(static_cast<std::uint32_t>(messages_.size()));
      messages_.push_back(message);
    }
  }
}

void UnreliableRun::make_nodes(unsigned qps_per_node) {
  const auto capacity = static_cast<std::uint32_t>(2 * messages_.size() + 64);
  for (unsigned node = 0; node < 2; ++node) {
    roce::Engine& engine = network_.node(node).engine();
    pds_[node] = engine.allocate_pd();
    send_cqs_[node] = must(roce::CompletionQueue::create(capacity));
    recv_cqs_[node] = must(roce::CompletionQueue::create(capacity));
    make_receives(node, qps_per_node);
    for (unsigned i = 0; i < qps_per_node; ++i) {
      SimQp& qp = qps_[node * qps_per_node + i];
      qp.node = node;
      qp.receives = &receives_[node][profile_.srq ? 0 : i];
      qp.qp = must(engine.create_qp({.qp_type = profile_.type,
                                     .pd = pds_[node],
                                     .send_cq = send_cqs_[node].get(),
                                     .recv_cq = recv_cqs_[node].get(),
                                     .srq = qp.receives->srq,
                                     .max_send_wr = send_depth_,
                                     .max_recv_wr = recv_depth_,
                                     .max_send_sge = 3,
                                     .max_recv_sge = 3,
                                     .max_inline_data = 64,
                                     .sq_sig_all = true}));
      qp.receives->qp = qp.qp;
      qp.last_from.resize(qps_.size());
    }
  }
}

/// An SRQ may be of another protection domain than its queue pairs.
void UnreliableRun::make_receives(unsigned node, unsigned qps_per_node) {
  roce::Engine& engine = network_.node(node).engine();
  receives_[node].resize(profile_.srq ? 1 : qps_per_node);
  receive_pds_[node] = pds_[node];
  if (profile_.srq) {
    receive_pds_[node] = rng_.chance(30) ? engine.allocate_pd() : pds_[node];
    receives_[node][0].srq = must(engine.create_srq(
        {.pd = receive_pds_[node], .attributes = {.max_wr = recv_depth_, .max_sge = 3}}));
  }
}

void UnreliableRun::make_memory() {
  std::array<std::size_t, 2> sizes{1, 1};
  for (const Message& message : messages_) {
    sizes[qps_[message.sender].node] += message.length;
  }
  const std::uint32_t buffer = max_message_ + grh_bytes();
  for (unsigned node = 0; node < 2; ++node) {
    source_[node].bytes.resize(sizes[node]);
    target_[node].bytes.assign(sizes[1 - node], kUntouched);
    receive_[node].bytes.resize(1 + std::size_t{buffer} * recv_depth_ * receives_[node].size());
    rng_.fill(source_[node].bytes);
    for (Memory* memory : {&source_[node], &target_[node], &receive_[node]}) {
      memory->key = must(network_.node(node).engine().register_memory(
                             memory == &receive_[node] ? receive_pds_[node] : pds_[node],
                             memory->bytes.data(), memory->bytes.size(),
                             memory == &source_[node] ? 0u : std::uint32_t{roce::kAccessAll}))
                        .key;
    }
  }
  for (std::uint32_t id = 0; id < messages_.size(); ++id) {
    const Message& message = messages_[id];
    if (message.length >= kIdBytes) {
      std::memcpy(&source_[qps_[message.sender].node].bytes[message.place], &id, kIdBytes);
    }
  }
  for (std::deque<Receives>& node : receives_) {
    std::uint32_t place = 0;
    for (Receives& receives : node) {
      for (std::uint32_t i = 0; i < recv_depth_; ++i, place += buffer) {
        receives.free.push_back({.place = place, .id = i});
      }
    }
  }
}

roce::AddressVector UnreliableRun::path(unsigned node) {
  return {.source = network_.node(node).address(),
          .destination = network_.node(1 - node).address()};
}

void UnreliableRun::bring_up(unsigned index) {
  SimQp& own = qps_[index];
  const SimQp& peer = qps_[(index + qps_.size() / 2) % qps_.size()];
  roce::QpAttributes a;
  a.qp_access_flags = roce::kAccessAll;
  a.qkey = kQkey;
  a.pkey_index = kPartitions[partition_][own.node];
  a.path_mtu = mtu_;
  a.dest_qp_num = peer.qp->number();
  a.sq_psn = a.rq_psn = first_psn_;
  a.ah_attr = path(own.node);
  must(own.qp->bring_up(a, roce::QpState::rts));
  if (is_ud()) {
    own.ah = must(network_.node(own.node).engine().create_ah(pds_[own.node], path(own.node)));
  }
}

/// The range in up to three pieces.
std::vector<roce::Sge> UnreliableRun::cut(const Memory& memory, std::uint32_t place,
                                          std::uint32_t length) {
  std::vector<roce::Sge> list;
  for (unsigned pieces = rng_.between32(1, 3); pieces > 0; --pieces) {
    const std::uint32_t piece = pieces == 1 ? length : rng_.between32(0, length);
    list.push_back({.addr = memory.address(place), .length = piece, .lkey = memory.key});
    place += piece;
    length -= piece;
  }
  return list;
}

bool UnreliableRun::post_send(SimQp& sender) {
  if (sender.posted == sender.script.size()) return false;
  const std::uint32_t id = sender.script[sender.posted];
  const Message& message = messages_[id];
  const auto list = cut(source_[sender.node], message.place, message.length);
  const Memory& target = target_[1 - sender.node];
  roce::SendWr wr{.wr_id = id,
                  .sg_list = list,
                  .opcode = message.opcode,
                  .send_flags = rng_.chance(20) ? roce::kSendFence : 0u,
                  .imm_data = id,
                  .remote_addr = target.address(message.place),
                  .rkey = target.key,
                  .ah = sender.ah,
                  .remote_qpn = qps_[message.receiver].qp->number(),
                  .remote_qkey = kQkey ^ (message.wrong_qkey ? 1u : 0u)};
  if (message.length <= 64 && rng_.chance(30)) wr.send_flags |= roce::kSendInline;
  switch (sender.qp->post_send(wr)) {
    case roce::PostResult::ok:
      ++sender.posted;
      return true;
    case roce::PostResult::queue_full:
      return false;
    default:
      fail(fmt::format("message {} was refused when posted", id));
      return false;
  }
}

bool UnreliableRun::post_receive(unsigned node, Receives& receives) {
  if (receives.free.empty()) return false;
  const Buffer buffer = receives.free.front();
  const std::uint32_t length = max_message_ + grh_bytes();
  Memory& memory = receive_[node];
  std::memset(&memory.bytes[buffer.place], kUntouched, length);
  const auto list = cut(memory, buffer.place, length);
  const roce::RecvWr wr{.wr_id = buffer.id, .sg_list = list};
  const roce::PostResult result =
      receives.srq != nullptr ? receives.srq->post_recv(wr) : receives.qp->post_recv(wr);
  if (result != roce::PostResult::ok) {
    fail("a receive request was refused");
    return false;
  }
  receives.free.pop_front();
  receives.waiting.push_back(buffer);
  return true;
}

/// Sets the SRQ's limit, whose event must come when fewer receives wait, and only then.
void UnreliableRun::arm_limit(unsigned node) {
  Receives& receives = receives_[node][0];
  if (receives.srq == nullptr || limit_armed_[node] || receives.waiting.empty()) return;
  const auto most = static_cast<std::uint32_t>(receives.waiting.size());
  must(receives.srq->modify({.srq_limit = rng_.between32(1, most)}, roce::kSrqLimit));
  limit_armed_[node] = true;
}

void UnreliableRun::take_events() {
  for (unsigned node = 0; node < 2; ++node) {
    while (const auto event = network_.node(node).engine().poll_async_event()) {
      if (event->type != roce::AsyncEventType::srq_limit_reached) continue;
      if (!limit_armed_[node] || event->srq != receives_[node][0].srq) {
        fail("a limit event of an SRQ whose limit is not armed");
      }
      limit_armed_[node] = false;
      ++limit_events_;
    }
    const roce::SharedReceiveQueue* srq = receives_[node][0].srq;
    const bool due = srq != nullptr && limit_armed_[node] && srq->depth() < srq->query().srq_limit;
    if (due) fail("the limit of an SRQ was reached without an event");
  }
}

/// The applications' turn.
bool UnreliableRun::drive() {
  bool did = false;
  for (unsigned node = 0; node < 2; ++node) {
    for (Receives& receives : receives_[node]) {
      if (!profile_.scarce_receives || rng_.chance(20)) {
        while (post_receive(node, receives)) {
          did = true;
        }
      }
    }
    if (profile_.srq && rng_.chance(20)) arm_limit(node);
  }
  for (SimQp& qp : qps_) {
    if (rng_.chance(60)) {
      for (std::uint32_t i = rng_.between32(1, 6); i > 0 && post_send(qp); --i) {
        did = true;
      }
    }
  }
  did = poll_completions() || did;
  take_events();
  return did;
}

bool UnreliableRun::poll_completions() {
  bool any = false;
  std::array<roce::Completion, 16> some;
  for (unsigned node = 0; node < 2; ++node) {
    for (std::size_t count = 1; count > 0;) {
      count = recv_cqs_[node]->poll(some);
      std::for_each_n(some.begin(), count, [this](const auto& c) { on_received(c); });
      any = any || count > 0;
    }
    for (std::size_t count = 1; count > 0;) {
      count = send_cqs_[node]->poll(some);
      std::for_each_n(some.begin(), count, [this](const auto& c) { on_sent(c); });
      any = any || count > 0;
    }
  }
  return any;
}

void UnreliableRun::on_sent(const roce::Completion& completion) {
  SimQp* sender = find(completion.qp_num);
  if (sender == nullptr || sender->completed >= sender->posted ||
      completion.wr_id != sender->script[sender->completed] ||
      completion.status != roce::WcStatus::success) {
    fail(fmt::format("send completion {} with {} is not the next", completion.wr_id,
                     to_string(completion.status)));
    return;
  }
  ++sender->completed;
}

/// By its immediate data, else by its first bytes.
std::uint32_t UnreliableRun::id_of(const Memory& memory, std::uint32_t place, std::uint32_t length,
                                   const roce::Completion& completion) const {
  std::uint32_t id = UINT32_MAX;
  if ((completion.wc_flags & roce::kWcWithImm) != 0) {
    id = completion.imm_data;
  } else if (length >= kIdBytes) {
    std::memcpy(&id, &memory.bytes[place], kIdBytes);
  }
  return id;
}

void UnreliableRun::on_received(const roce::Completion& completion) {
  SimQp* receiver = find(completion.qp_num);
  if (receiver == nullptr || receiver->receives->waiting.empty() ||
      completion.wr_id != receiver->receives->waiting.front().id) {
    fail(fmt::format("receive completion {} is not the next", completion.wr_id));
    return;
  }
  // A datagram is one packet, so that those of an SRQ complete in its order too.
  const Buffer buffer = receiver->receives->waiting.front();
  receiver->receives->waiting.pop_front();
  if (completion.status != roce::WcStatus::success) {
    fail(fmt::format("a receive ended with {}", to_string(completion.status)));
    return;
  }
  check_message(*receiver, buffer, completion);
  receiver->receives->free.push_back(buffer);
}

void UnreliableRun::check_message(const SimQp& receiver, const Buffer& buffer,
                                  const roce::Completion& completion) {
  const bool write = completion.opcode == roce::WcOpcode::recv_rdma_with_imm;
  const Memory& memory = receive_[receiver.node];
  const std::uint32_t skip = write ? 0 : grh_bytes();
  const std::uint32_t length = completion.byte_len - skip;
  const std::uint32_t id = id_of(memory, buffer.place + skip, length, completion);
  if (completion.byte_len < skip || id >= messages_.size()) {
    fail(fmt::format("a message of {} bytes that nobody sent", completion.byte_len));
    return;
  }
  const Message& message = messages_[id];
  const auto got = write ? target_[receiver.node].at(message.place, message.length)
                         : memory.at(buffer.place + skip, length);
  const auto expected = content(message);
  if (message.is_write() != write || message.length != length || message.wrong_qkey ||
      !message.takes_receive() || &qps_[message.receiver] != &receiver ||
      (is_ud() && completion.src_qp != qps_[message.sender].qp->number())) {
    fail(fmt::format("message {} arrived as something else", id));
  } else if (!std::equal(got.begin(), got.end(), expected.begin(), expected.end())) {
    fail(fmt::format("message {} of {} bytes was received with other bytes", id, length));
  } else {
    if (is_ud()) check_grh(receiver, buffer);
    note_delivery(qps_[message.receiver], id);
  }
}

void UnreliableRun::check_grh(const SimQp& receiver, const Buffer& buffer) {
  const stack::IpAddress& source = network_.node(1 - receiver.node).address();
  const auto grh = receive_[receiver.node].at(buffer.place, kGrhBytes);
  const bool ipv4 = source.is_ipv4();
  const auto in_header = ipv4 ? grh.subspan(32, 4) : grh.subspan(8, 16);
  const auto expected = std::span(source.bytes).last(in_header.size());
  if (!std::equal(in_header.begin(), in_header.end(), expected.begin())) {
    fail("the GRH has another source");
  }
}

void UnreliableRun::note_delivery(SimQp& receiver, std::uint32_t id) {
  Message& message = messages_[id];
  std::uint32_t& last = receiver.last_from[message.sender];
  if (profile_.in_order && id + 1 <= last) {
    fail(fmt::format("message {} arrived behind message {}", id, last - 1));
  }
  last = id + 1;
  // The network makes one more copy of a packet at most.
  if (++message.deliveries > (profile_.in_order ? 1u : 2u)) {
    fail(fmt::format("message {} arrived {} times", id, message.deliveries));
  }
}

bool UnreliableRun::finished() const {
  return std::all_of(qps_.begin(), qps_.end(),
                     [](const SimQp& qp) { return qp.completed == qp.script.size(); });
}

/// Each packet of a WRITE has arrived as it was sent, or not at all.
void UnreliableRun::check_write(const Message& message, UnreliableTotals& totals) {
  const auto got = target_[qps_[message.receiver].node].at(message.place, message.length);
  const auto sent = content(message);
  std::uint32_t there = 0;
  std::uint32_t packets = 0;
  for (std::size_t at = 0; at < got.size(); at += bytes(mtu_), ++packets) {
    const auto piece = got.subspan(at, std::min<std::size_t>(bytes(mtu_), got.size() - at));
    if (std::equal(piece.begin(), piece.end(), sent.begin() + static_cast<std::ptrdiff_t>(at))) {
      ++there;
    } else if (!message.is_write() || std::any_of(piece.begin(), piece.end(),
                                                  [](std::uint8_t b) { return b != kUntouched; })) {
      fail("the target of a WRITE holds bytes of something else");
    }
  }
  totals.partial += there > 0 && there < packets ? 1 : 0;
  if (profile_.exact && there < packets) fail("a WRITE did not arrive");
}

void UnreliableRun::check_end(UnreliableTotals& totals) {
  for (const Message& message : messages_) {
    if (message.is_write()) check_write(message, totals);
    totals.delivered += message.deliveries;
    totals.twice += message.deliveries > 1 ? 1 : 0;
    if (profile_.exact && message.takes_receive() && !message.wrong_qkey &&
        message.deliveries != 1) {
      fail(fmt::format("a message arrived {} times", message.deliveries));
    }
  }
  for (const SimQp& qp : qps_) {
    if (qp.qp->state() != QpState::rts) {
      fail(fmt::format("a queue pair ended in {}", to_string(qp.qp->state())));
    }
    if (const Receives& receives = *qp.receives;
        receives.srq != nullptr && receives.srq->depth() != receives.waiting.size()) {
      fail(fmt::format("{} receives wait in the SRQ, {} should", receives.srq->depth(),
                       receives.waiting.size()));
    }
  }
}

void UnreliableRun::add_counters(UnreliableTotals& totals) {
  for (unsigned node = 0; node < 2; ++node) {
    const roce::EngineCounters& counters = network_.node(node).engine().counters();
    const auto drops = [&](roce::DropReason reason) {
      return counters.drops[static_cast<std::size_t>(reason)].value();
    };
    totals.lost += network_.node(node).faults().tx_counters().lost.value();
    totals.abandoned += counters.abandoned_messages.value();
    totals.out_of_sequence += counters.out_of_seq_request.value();
    totals.no_receive += drops(roce::DropReason::no_receive);
    totals.bad_icrc += drops(roce::DropReason::bad_icrc);
    totals.bad_qkey += drops(roce::DropReason::bad_qkey);
  }
}

std::string UnreliableRun::run(UnreliableTotals& totals) {
  set_up();
  std::uint32_t step = 0;
  for (; error_.empty() && !finished() && step < kMaxSteps; ++step) {
    const bool did = drive();
    const bool moved = network_.poll();
    if (!did && !moved) (void)network_.advance(stack::kNever - 1);
  }
  if (error_.empty() && !finished()) fail("not all requests completed");
  (void)network_.run_to_rest(network_.now_ns() + kRestLimitNs);
  (void)poll_completions();
  if (error_.empty()) check_end(totals);
  ++totals.runs;
  totals.messages += messages_.size();
  totals.limit_events += limit_events_;
  add_counters(totals);
  return error_;
}

}  // namespace

std::string run_unreliable(std::uint64_t seed, const UnreliableProfile& profile, PoolSet& pools,
                           UnreliableTotals& totals) {
  std::string error = UnreliableRun(seed, profile, pools).run(totals);
  if (error.empty() && pools.in_use() != 0) {
    error = fmt::format("{} mbufs have not come back", pools.in_use());
  }
  return error;
}

}  // namespace rockhopper::sim
