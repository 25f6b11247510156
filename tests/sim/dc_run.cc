// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/dc_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "dc/endpoint.h"
#include "tests/sim/raw_bytes.h"
#include "tests/sim/rng.h"

namespace rockhopper::sim {
namespace {

using roce::WcStatus;
using roce::WrOpcode;

constexpr std::uint64_t kRestLimitNs = 60'000'000'000;
constexpr std::uint32_t kMaxSteps = 2'000'000;
constexpr std::uint32_t kIdBytes = 4;
constexpr std::uint32_t kWordBytes = 8;

/// One request of a stream, and what has been seen of it.
struct Message {
  unsigned stream = 0;  ///< index of its stream, see DcRun::streams_
  unsigned target = 0;  ///< likewise
  WrOpcode opcode = WrOpcode::send;
  std::uint32_t length = 0;
  std::uint32_t place = 0;  ///< in the initiators' memory; of a WRITE, also in the targets'
  bool done = false;
  bool unknown = false;
  unsigned deliveries = 0;

  [[nodiscard]] bool has_immediate() const {
    return opcode == WrOpcode::send_with_imm || opcode == WrOpcode::rdma_write_with_imm;
  }
  [[nodiscard]] bool is_write() const {
    return opcode == WrOpcode::rdma_write || opcode == WrOpcode::rdma_write_with_imm;
  }
  [[nodiscard]] bool is_add() const { return opcode == WrOpcode::atomic_fetch_and_add; }
  [[nodiscard]] bool takes_receive() const { return opcode == WrOpcode::send || has_immediate(); }
};

struct Stream {
  dc::Dci* dci = nullptr;
  std::uint8_t index = 0;
  std::vector<std::uint32_t> script;  ///< messages, in order
  std::size_t posted = 0;
  std::size_t completed = 0;
};

struct Target {
  dc::Dct* dct = nullptr;
  std::uint64_t added = 0;    ///< by FETCH_ADDs that succeeded
  std::uint64_t unknown = 0;  ///< FETCH_ADDs with an unknown outcome
};

/// Initiators at node 0, targets at node 1.
class DcRun {
 public:
  DcRun(std::uint64_t seed, const DcProfile& profile, PoolSet& pools)
      : rng_(seed), profile_(profile), network_(draw_network(seed, pools)) {}

  std::string run(DcTotals& totals);

 private:
  [[nodiscard]] NetworkConfig draw_network(std::uint64_t seed, PoolSet& pools);
  void set_up();
  void make_endpoints();
  void make_targets();
  void make_initiators();
  void write_script();
  void make_memory();
  [[nodiscard]] Message draw_message(unsigned stream);

  [[nodiscard]] bool drive();
  bool post_next(unsigned index);
  bool post_receive();
  bool poll_completions();
  void on_sent(const roce::Completion& completion);
  void on_received(const roce::Completion& completion);

  [[nodiscard]] bool finished() const;
  void check_end();
  void check_read(const Message& message);
  void check_write(const Message& message);
  void add_counters(DcTotals& totals);
  [[nodiscard]] std::uint64_t counter_of(unsigned target) const {
    std::uint64_t value = 0;
    std::memcpy(&value, &words_[std::size_t{target} * kWordBytes], kWordBytes);
    return value;
  }
  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }
  template <typename Bytes>
  [[nodiscard]] roce::MemoryKey add_memory(unsigned node, Bytes& bytes) {
    return must(network_.node(node).engine().register_memory(pds_[node], bytes.data(), bytes.size(),
                                                             roce::kAccessAll))
        .key;
  }
  template <typename Bytes>
  [[nodiscard]] static std::uint64_t address(const Bytes& bytes, std::size_t place) {
    return reinterpret_cast<std::uintptr_t>(bytes.data()) + place;
  }

  Rng rng_;
  const DcProfile& profile_;
  SimNetwork network_;
  roce::PathMtu mtu_ = roce::PathMtu::mtu_1024;
  std::uint32_t max_message_ = 0;
  std::uint32_t recv_depth_ = 0;
  std::array<roce::ProtectionDomain, 2> pds_;
  std::unique_ptr<roce::CompletionQueue> send_cq_, recv_cq_;
  roce::SharedReceiveQueue* srq_ = nullptr;
  std::array<std::unique_ptr<dc::Endpoint>, 2> endpoints_;
  roce::AddressHandle* ah_ = nullptr;
  std::deque<Target> targets_;
  std::vector<Stream> streams_;
  std::vector<Message> messages_;
  // Node 0: what is sent, and what READs and atomics return. Node 1: where WRITEs go, what READs
  // find, a word for each target, and receive buffers.
  std::vector<std::uint8_t> source_, results_, written_, read_;
  RawBytes receives_;
  alignas(8) std::vector<std::uint8_t> words_;
  roce::MemoryKey source_key_{}, results_key_{}, written_key_{}, read_key_{}, words_key_{},
      receives_key_{};
  std::vector<std::uint32_t> free_receives_;
  std::uint64_t slowed_ = 0;
  std::string error_;
};

NetworkConfig DcRun::draw_network(std::uint64_t seed, PoolSet& pools) {
  NetworkConfig config{.seed = seed, .pools = &pools, .faults = profile_.faults};
  config.ipv6 = rng_.chance(40);
  config.static_neighbours = !profile_.resolve_neighbours;
  config.segment_arrivals = rng_.chance(25);
  config.delay_ns = rng_.pick<std::uint64_t>({300, 2'000, 20'000});
  config.wire_packets = rng_.pick<std::uint32_t>({64, 4096});
  config.capture_prefix = wanted_captures(seed);
  return config;
}

void DcRun::set_up() {
  mtu_ = rng_.pick({roce::PathMtu::mtu_256, roce::PathMtu::mtu_1024, roce::PathMtu::mtu_4096});
  max_message_ = bytes(mtu_) * rng_.between32(1, 5);
  make_endpoints();
  make_targets();
  make_initiators();
  write_script();
  make_memory();
}

void DcRun::make_endpoints() {
  for (unsigned node = 0; node < 2; ++node) {
    roce::Engine& engine = network_.node(node).engine();
    pds_[node] = engine.allocate_pd();
    dc::EndpointConfig config;
    config.sessions.contexts = node == 0 ? 1 : profile_.contexts;
    config.sessions.tombstones = 256;
    config.sessions.tombstone_ns = profile_.tombstone_ns;
    config.lease_us = profile_.lease_us;
    config.idle_ns = rng_.pick<std::uint64_t>({0, 20'000, 1'000'000});
    config.cnaks_per_second = config.all_cnaks_per_second = 10'000'000;
    config.responder_resources = static_cast<std::uint8_t>(rng_.between(1, 8));
    endpoints_[node] = must(dc::Endpoint::create(engine, config));
  }
  send_cq_ = must(roce::CompletionQueue::create(1024));
  recv_cq_ = must(roce::CompletionQueue::create(1024));
}

void DcRun::make_targets() {
  roce::Engine& engine = network_.node(1).engine();
  recv_depth_ = profile_.scarce_receives ? rng_.between32(1, 3) : 128;
  srq_ = must(engine.create_srq({.pd = pds_[1], .attributes = {.max_wr = recv_depth_}}));
  targets_.resize(rng_.between32(1, 6));
  for (Target& target : targets_) {
    target.dct = must(endpoints_[1]->create_dct(
        {.pd = pds_[1],
         .srq = srq_,
         .recv_cq = recv_cq_.get(),
         .access_flags = roce::kAccessAll,
         .path_mtu = mtu_,
         // Not so short that losses between its repetitions use up the retries.
         .min_rnr_timer = static_cast<std::uint8_t>(rng_.between(12, 16))}));
  }
}

void DcRun::make_initiators() {
  ah_ = must(network_.node(0).engine().create_ah(
      pds_[0], {.source = network_.node(0).address(), .destination = network_.node(1).address()}));
  const unsigned count = rng_.between32(1, 5);
  for (unsigned i = 0; i < count; ++i) {
    const auto streams = static_cast<std::uint8_t>(rng_.pick({1, 1, 3}));
    dc::Dci* dci = must(endpoints_[0]->create_dci(
        {.pd = pds_[0],
         .send_cq = send_cq_.get(),
         .max_send_wr = rng_.between32(1, 16),
         .max_inline_data = 64,
         .sq_sig_all = true,
         .streams = streams,
         .handshake = profile_.handshake,
         .connect_with_data = profile_.connect_with_data && rng_.chance(60),
         .path_mtu = mtu_,
         .max_rd_atomic = static_cast<std::uint8_t>(rng_.between(1, 8)),
         .timeout = static_cast<std::uint8_t>(rng_.between(6, 10)),  // 0.26 to 4.2 ms
         .lease_us = rng_.pick<std::uint32_t>({200, 20'000, 1'000'000}),
         .backoff_us = 20,
         .connect_tries = 60'000,
         .congestion = profile_.congestion}));
    for (std::uint8_t stream = 0; stream < streams; ++stream) {
      streams_.push_back({.dci = dci, .index = stream});
    }
  }
}

Message DcRun::draw_message(unsigned stream) {
  Message message{.stream = stream,
                  .target = rng_.between32(0, static_cast<std::uint32_t>(targets_.size()) - 1)};
  message.opcode = profile_.one_kind
                       ? WrOpcode::atomic_fetch_and_add
                       : rng_.pick({WrOpcode::send, WrOpcode::send_with_imm, WrOpcode::rdma_write,
                                    WrOpcode::rdma_write_with_imm, WrOpcode::rdma_read,
                                    WrOpcode::atomic_fetch_and_add});
  const std::uint32_t longest = rng_.chance(30) ? bytes(mtu_) : max_message_;
  message.length = message.is_add() ? kWordBytes : rng_.between32(kIdBytes, longest);
  return message;
}

void DcRun::write_script() {
  std::uint32_t place = 0;
  for (unsigned stream = 0; stream < streams_.size(); ++stream) {
    const std::uint32_t count = rng_.between32(1, 40);
    const bool faithful = rng_.chance(30);  // mostly the same target
    for (std::uint32_t i = 0; i < count; ++i) {
      Message message = draw_message(stream);
      if (faithful && i > 0 && rng_.chance(80)) message.target = messages_.back().target;
      message.place = place;
      place += (message.length + 7) & ~7u;
      streams_[stream].script.push_back(static_cast<std::uint32_t>(messages_.size()));
      messages_.push_back(message);
    }
  }
  source_.resize(place);
  results_.resize(place);
  written_.resize(place);
}

void DcRun::make_memory() {
  read_.resize(max_message_);
  words_.resize(targets_.size() * kWordBytes);
  receives_.resize(std::size_t{max_message_} * recv_depth_);
  rng_.fill(source_);
  rng_.fill(read_);
  for (std::uint32_t id = 0; id < messages_.size(); ++id) {
    std::memcpy(&source_[messages_[id].place], &id, kIdBytes);
  }
  for (std::uint32_t i = 0; i < recv_depth_; ++i) {
    free_receives_.push_back(i);
  }
  source_key_ = add_memory(0, source_);
  results_key_ = add_memory(0, results_);
  written_key_ = add_memory(1, written_);
  read_key_ = add_memory(1, read_);
  words_key_ = add_memory(1, words_);
  receives_key_ = add_memory(1, receives_);
}

bool DcRun::post_next(unsigned index) {
  Stream& stream = streams_[index];
  if (stream.posted == stream.script.size()) return false;
  const std::uint32_t id = stream.script[stream.posted];
  const Message& message = messages_[id];
  const Target& target = targets_[message.target];
  const bool fetches = message.is_add() || message.opcode == WrOpcode::rdma_read;
  const roce::Sge sge{.addr = address(fetches ? results_ : source_, message.place),
                      .length = message.length,
                      .lkey = fetches ? results_key_ : source_key_};
  roce::SendWr wr{.wr_id = id, .sg_list = {&sge, 1}, .opcode = message.opcode};
  wr.imm_data = id;
  wr.ah = ah_;
  wr.remote_qpn = target.dct->number();
  wr.dc_access_key = target.dct->access_key();
  if (message.is_write()) {
    wr.remote_addr = address(written_, message.place);
    wr.rkey = written_key_;
  } else if (message.opcode == WrOpcode::rdma_read) {
    wr.remote_addr = address(read_, 0);
    wr.rkey = read_key_;
  } else if (message.is_add()) {
    wr.remote_addr = address(words_, std::size_t{message.target} * kWordBytes);
    wr.rkey = words_key_;
    wr.compare_add = 1;
  }
  switch (stream.dci->post_send(wr, stream.index)) {
    case roce::PostResult::ok:
      ++stream.posted;
      return true;
    case roce::PostResult::queue_full:
      return false;
    default:
      fail(fmt::format("request {} was refused", id));
      return false;
  }
}

bool DcRun::post_receive() {
  if (free_receives_.empty()) return false;
  const std::uint32_t buffer = free_receives_.back();
  const roce::Sge sge{.addr = address(receives_, std::size_t{buffer} * max_message_),
                      .length = max_message_,
                      .lkey = receives_key_};
  if (srq_->post_recv({.wr_id = buffer, .sg_list = {&sge, 1}}) != roce::PostResult::ok) {
    return false;
  }
  free_receives_.pop_back();
  return true;
}

bool DcRun::drive() {
  bool did = false;
  if (!profile_.scarce_receives || rng_.chance(20)) {
    while (post_receive()) {
      did = true;
    }
  }
  for (unsigned stream = 0; stream < streams_.size(); ++stream) {
    if (rng_.chance(60)) {
      for (std::uint32_t i = rng_.between32(1, 6); i > 0 && post_next(stream); --i) {
        did = true;
      }
    }
  }
  return poll_completions() || did;
}

bool DcRun::poll_completions() {
  bool any = false;
  std::array<roce::Completion, 16> some;
  for (std::size_t count = 1; count > 0; any = any || count > 0) {
    count = recv_cq_->poll(some);
    std::for_each_n(some.begin(), count, [this](const auto& c) { on_received(c); });
  }
  for (std::size_t count = 1; count > 0; any = any || count > 0) {
    count = send_cq_->poll(some);
    std::for_each_n(some.begin(), count, [this](const auto& c) { on_sent(c); });
  }
  return any;
}

void DcRun::on_sent(const roce::Completion& completion) {
  Message& message = messages_.at(completion.wr_id);
  Stream& stream = streams_[message.stream];
  if (stream.completed >= stream.posted || completion.wr_id != stream.script[stream.completed] ||
      completion.qp_num != stream.dci->number()) {
    fail(fmt::format("completion {} is not the next of its stream", completion.wr_id));
    return;
  }
  ++stream.completed;
  slowed_ += stream.dci->congestion_rate(network_.now_ns(), stream.index) != roce::kUnlimited;
  message.done = completion.status == WcStatus::success;
  message.unknown = completion.status == WcStatus::outcome_unknown && !profile_.no_unknown;
  if (!message.done && !message.unknown) {
    fail(fmt::format("request {} ended with {}", completion.wr_id, to_string(completion.status)));
    return;
  }
  if (message.is_add()) {
    (message.done ? targets_[message.target].added : targets_[message.target].unknown) += 1;
  } else if (message.done && message.opcode == WrOpcode::rdma_read) {
    check_read(message);
  }
}

void DcRun::check_read(const Message& message) {
  if (!std::equal(read_.begin(), read_.begin() + message.length,
                  results_.begin() + message.place)) {
    fail("a READ returned other bytes");
  }
}

void DcRun::on_received(const roce::Completion& completion) {
  const auto buffer = static_cast<std::uint32_t>(completion.wr_id);
  free_receives_.push_back(buffer);
  if (completion.status == WcStatus::wr_flush_err) {
    return;  // its session was closed in the middle of a message
  }
  std::uint32_t id = completion.imm_data;
  const auto got =
      std::span(receives_).subspan(std::size_t{buffer} * max_message_, completion.byte_len);
  if ((completion.wc_flags & roce::kWcWithImm) == 0 && got.size() >= kIdBytes) {
    std::memcpy(&id, got.data(), kIdBytes);
  }
  if (completion.status != WcStatus::success || id >= messages_.size()) {
    fail(fmt::format("a receive ended with {}", to_string(completion.status)));
    return;
  }
  Message& message = messages_[id];
  const bool write = completion.opcode == roce::WcOpcode::recv_rdma_with_imm;
  if (!message.takes_receive() || write != message.is_write() ||
      completion.byte_len != message.length ||
      completion.qp_num != targets_[message.target].dct->number()) {
    fail(fmt::format("message {} arrived as something else", id));
  } else if (!write && !std::equal(got.begin(), got.end(), source_.begin() + message.place)) {
    fail(fmt::format("message {} was received with other bytes", id));
  } else if (++message.deliveries > 1) {
    fail(fmt::format("message {} arrived {} times", id, message.deliveries));
  }
}

bool DcRun::finished() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const Stream& stream) { return stream.completed == stream.script.size(); });
}

void DcRun::check_write(const Message& message) {
  if (!std::equal(source_.begin() + message.place, source_.begin() + message.place + message.length,
                  written_.begin() + message.place)) {
    fail("a WRITE that completed is not in the target's memory");
  }
}

void DcRun::check_end() {
  for (unsigned i = 0; i < targets_.size(); ++i) {
    const Target& target = targets_[i];
    if (counter_of(i) < target.added || counter_of(i) > target.added + target.unknown) {
      fail(fmt::format("{} FETCH_ADDs succeeded and {} may have, but {} were executed",
                       target.added, target.unknown, counter_of(i)));
    }
    if (target.dct->sessions() != 0) fail("a session outlives its lease");
  }
  for (const Message& message : messages_) {
    if (message.done && message.takes_receive() && message.deliveries != 1) {
      fail("a message that completed did not arrive");
    }
    if (message.done && message.is_write()) check_write(message);
  }
  if (endpoints_[1]->session_count() != 0) fail("contexts are in use at the end");
}

void DcRun::add_counters(DcTotals& totals) {
  const dc::Counters& own = endpoints_[0]->counters();
  const dc::Counters& peer = endpoints_[1]->counters();
  totals.connects += own.tx_connect.value();
  totals.connects_with_data += own.tx_connect_data.value();
  totals.accepts += own.rx_accept.value();
  totals.restarts += own.restarts.value();
  totals.lost_sessions += own.lost_sessions.value();
  totals.sessions += peer.sessions_opened.value();
  totals.evicted += peer.sessions_evicted.value();
  totals.expired += peer.sessions_expired.value();
  totals.ghosts += peer.ghost_connects.value() + peer.stale_requests.value();
  totals.notified += network_.node(0).engine().counters().rp_cnp_handled.value();
  totals.slowed += slowed_;
  totals.no_context += peer.tx_cnak_no_context.value();
}

std::string DcRun::run(DcTotals& totals) {
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
  if (error_.empty()) check_end();
  ++totals.runs;
  totals.messages += messages_.size();
  for (const Message& message : messages_) {
    totals.unknown += message.unknown ? 1 : 0;
  }
  totals.lost += network_.node(0).faults().tx_counters().lost.value() +
                 network_.node(1).faults().tx_counters().lost.value();
  add_counters(totals);
  return error_;
}

}  // namespace

std::string run_dc(std::uint64_t seed, const DcProfile& profile, PoolSet& pools, DcTotals& totals) {
  std::string error = DcRun(seed, profile, pools).run(totals);
  if (error.empty() && pools.in_use() != 0) error = fmt::format("{} mbufs leaked", pools.in_use());
  return error;
}

}  // namespace rockhopper::sim
