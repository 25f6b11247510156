// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// An adapter of active messages and its application, whose peer has queue pairs but sends what it
// likes: messages of any header, of collectives too, announcements of payloads under any key,
// replies to anything, WRITEs with immediate. The input is a list of actions of both and of time.
// Each callback is called once, handlers see bytes that are there, memory that nobody may write
// stays as it is, each SEND is handled or has a counter that says why not, and in the end nothing
// waits (AM-22, AM-27, WIRE-5).
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/collectives.h"
#include "apps/services/ami/context.h"
#include "apps/services/ami/message.h"
#include "roce/wire/bytes.h"
#include "tests/fuzz/eal.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::fuzz {
namespace {

using ami::Level;
using ami::MessageHeader;
using ami::Status;
using sim::must;
using test::Bytes;

constexpr std::size_t kMaxActions = 120;
constexpr std::uint64_t kRestLimitNs = 20'000'000'000;
constexpr std::uint16_t kHandler = 1;
constexpr ami::EndpointId kPeers = 2;  ///< ids 0 and 1, both the hostile node; we are rank 2
constexpr std::uint32_t kEagerBytes = 512;
constexpr std::uint32_t kMaxMessage = 2048;
constexpr std::size_t kExposed = 4096;
constexpr std::size_t kHostile = 8192;
constexpr std::uint32_t kReceives = 32;
constexpr std::byte kCanary{0xc5};

sim::PoolSet& pools() {
  static sim::PoolSet* const set = [] {
    ensure_eal();
    return new sim::PoolSet(1023, 1024 + 256, 2047);
  }();
  return *set;
}

class AmiRun {
 public:
  explicit AmiRun(std::span<const std::uint8_t> input);
  void run();

 private:
  void connect(ami::EndpointId id);
  void act(std::uint8_t action);
  void send_message();
  void send_collective();
  void send_raw();
  void write_with_immediate();
  void post(roce::SendWr wr, std::size_t length);
  void emit(const MessageHeader& header, std::size_t length);
  void inject();
  void start_collective();
  void on_message(const ami::Message& message);
  void turn();
  void pass(std::uint64_t time_ns);
  void learn();
  void end();
  void check_counters();
  [[nodiscard]] std::uint32_t choose_tag() {
    const std::uint8_t choice = input_.u8();
    return choice >= 250 || tags_.empty() ? input_.u32() : tags_[choice % tags_.size()];
  }
  [[nodiscard]] std::byte* front() { return hostile_.data(); }

  Input input_;
  sim::SimNetwork network_;
  std::array<roce::QueuePair*, kPeers> hostile_qps_{};
  std::unique_ptr<roce::CompletionQueue> hostile_cq_;
  std::unique_ptr<roce::CompletionQueue> hostile_recv_cq_;
  std::vector<std::byte> hostile_;  ///< what it sends, then what it receives
  roce::MemoryRegion hostile_region_{};
  std::vector<std::byte> exposed_;  ///< what the application gives and lets be written
  roce::MemoryRegion exposed_region_{};
  std::vector<std::byte> canary_;  ///< registered, and of no instruction
  std::unique_ptr<ami::Adapter> adapter_;
  ami::Lane* lane_ = nullptr;
  std::unique_ptr<ami::Context> context_;
  std::unique_ptr<ami::Communicator> communicator_;
  std::array<ami::Request, 4> requests_;
  std::array<std::array<std::uint64_t, 4>, 4> vectors_{};
  std::vector<std::uint32_t> tags_;
  std::vector<unsigned> calls_;  ///< by instruction
  unsigned hostile_peer_ = 0;
  std::size_t claimed_ = 0;  ///< by the last message: bytes
  std::uint64_t posted_ = 0;
  std::uint64_t sum_ = 0;
};

AmiRun::AmiRun(std::span<const std::uint8_t> input)
    : input_(input),
      network_({.seed = 7, .pools = &pools()}),
      hostile_(kHostile + kReceives * std::size_t{1024}),
      exposed_(kExposed),
      canary_(512, kCanary) {
  hostile_cq_ = must(roce::CompletionQueue::create(1024));
  hostile_recv_cq_ = must(roce::CompletionQueue::create(1024));
  ami::AdapterConfig config;
  config.transfers = 16;
  config.probe_ns = 5'000'000;
  roce::Engine& engine = network_.node(0).engine();
  adapter_ = must(ami::Adapter::create(engine, nullptr, config));
  ami::LaneConfig lane;
  lane.self = kPeers;
  lane.max_endpoints = kPeers + 1;
  lane.fifo.slots = 16;
  lane.fifo.completion = (input_.u8() & 1) != 0 ? ami::CompletionMode::counter  //
                                                : ami::CompletionMode::mask;
  lane.receive_buffers = 8;
  lane.eager_bytes = kEagerBytes;
  lane.rendezvous_buffers = 2;
  lane.max_message_bytes = kMaxMessage;
  lane_ = must(adapter_->add_lane(lane));
  context_ = std::make_unique<ami::Context>(*lane_, 8);
  context_->set_handler(kHandler, [this](const ami::Message& message) { on_message(message); });
  communicator_ = must(ami::Communicator::create(
      *context_, {.members = {0, 1, kPeers}, .rank = kPeers, .window = 4, .vector_bytes = 32}));
  exposed_region_ = must(
      engine.register_memory(adapter_->pd(), exposed_.data(), exposed_.size(), roce::kAccessAll));
  (void)must(engine.register_memory(adapter_->pd(), canary_.data(), canary_.size(), 0));
  for (ami::EndpointId id = 0; id < kPeers; ++id) {
    connect(id);
  }
  must(adapter_->open(*lane_));
}

void AmiRun::connect(ami::EndpointId id) {
  roce::Engine& engine = network_.node(1).engine();
  const roce::ProtectionDomain pd = engine.allocate_pd();
  roce::QpInit init;
  init.pd = pd;
  init.send_cq = hostile_cq_.get();
  init.recv_cq = hostile_recv_cq_.get();
  init.max_send_wr = 64;
  init.max_recv_wr = kReceives;
  hostile_qps_[id] = must(engine.create_qp(init));
  if (id == 0) {
    hostile_region_ =
        must(engine.register_memory(pd, hostile_.data(), hostile_.size(), roce::kAccessAll));
  }
  roce::QpAttributes attributes;
  attributes.path_mtu = roce::PathMtu::mtu_1024;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
  attributes.min_rnr_timer = 1;
  attributes.timeout = 8;
  attributes.retry_cnt = 3;
  attributes.rnr_retry = 3;
  roce::QueuePair* qp = must(network_.node(0).engine().create_qp(adapter_->qp_init(*lane_)));
  network_.connect({qp, hostile_qps_[id]}, attributes);
  must(adapter_->add_peer(*lane_, id, *qp));
  for (std::uint32_t i = 0; id == 0 && i < kReceives; ++i) {
    const roce::Sge to{hostile_region_.iova + kHostile + i * 1024, 1024, hostile_region_.key};
    (void)(hostile_qps_[id]->post_recv({.wr_id = i, .sg_list = {&to, 1}}));
  }
}

void AmiRun::run() {
  for (std::size_t i = 0; i < kMaxActions && !input_.empty(); ++i) {
    act(input_.u8());
  }
  end();
}

void AmiRun::act(std::uint8_t action) {
  hostile_peer_ = action >= 0xe0 ? 1 : 0;
  switch (action % 16) {
    case 0:
    case 1:
    case 2:
      return send_message();
    case 3:
    case 4:
      return send_collective();
    case 5:
      return send_raw();
    case 6:
      return write_with_immediate();
    case 7:
    case 8:
      return inject();
    case 9:
      return start_collective();
    case 10:
      return pass(std::uint64_t{input_.u8()} << (input_.u8() % 20));
    case 11:
      if (input_.u8() == 0) adapter_->close(*lane_);
      return;
    case 12:
      if (input_.u8() == 0) communicator_->cancel();
      return;
    default:
      (void)context_->advance();
      return turn();
  }
}

/// Posts `length` bytes from the front of the hostile memory.
void AmiRun::post(roce::SendWr wr, std::size_t length) {
  const roce::Sge sge{hostile_region_.iova, static_cast<std::uint32_t>(length),
                      hostile_region_.key};
  wr.sg_list = {&sge, length > 0 ? 1u : 0u};
  wr.send_flags = roce::kSendSignaled;
  if (hostile_qps_[hostile_peer_]->post_send(wr) == roce::PostResult::ok) ++posted_;
  turn();  // the bytes have gone when the memory is written again
}

void AmiRun::emit(const MessageHeader& header, std::size_t length) {
  header.emit(std::span<std::byte, MessageHeader::kSize>(front(), MessageHeader::kSize));
  post({.opcode = roce::WrOpcode::send}, length);
}

/// Most of it right, so that it comes far.
void AmiRun::send_message() {
  const std::uint8_t flags = input_.u8();
  MessageHeader header;
  header.type = static_cast<MessageHeader::Type>(1 + input_.u8() % 4);
  header.wants_reply = (flags & 1) != 0;
  header.source = static_cast<ami::EndpointId>((flags & 6) == 6 ? input_.u8() : hostile_peer_);
  header.handler = (flags & 24) == 24 ? input_.u16() : kHandler;
  header.header_length = input_.u8();
  header.tag = choose_tag();
  header.length = input_.u16() % 600;
  header.addr = hostile_region_.iova + input_.u16() % 512;
  header.rkey = (flags & 96) == 96 ? roce::MemoryKey{input_.u32()} : hostile_region_.key;
  std::size_t length = MessageHeader::kSize + header.header_length;
  if (header.type == MessageHeader::Type::eager) length += header.length;
  if (header.type == MessageHeader::Type::rendezvous) header.length *= 5;
  if (header.type == MessageHeader::Type::reply) {
    header.header_length = 0;
    header.length %= 14;
    length = MessageHeader::kSize + header.length * ami::Reply::kSize;
    for (std::size_t at = MessageHeader::kSize; at < length; at += ami::Reply::kSize) {
      const ami::Reply reply{.tag = choose_tag(), .status = static_cast<Status>(input_.u8() % 10)};
      reply.emit(std::span<std::byte, ami::Reply::kSize>(front() + at, ami::Reply::kSize));
    }
  }
  if ((flags & 128) != 0) {
    // It says that it is longer than it is, or the other way round.
    header.length = input_.u16() % 4096;
    length = input_.u16() % 600;
  }
  claimed_ = MessageHeader::kSize + header.header_length + header.length;
  // Others behind it in the same SEND, where they should be or not.
  for (unsigned more = input_.u8() % 4; more > 0 && length < 1024; --more) {
    const std::uint8_t choice = input_.u8();
    length = choice % 16 == 15 ? length : ami::Messages::next_place(length);
    MessageHeader next = header;
    next.wants_reply = (choice & 16) != 0;
    next.tag = choose_tag();
    next.header_length = 0;
    next.length = input_.u8();
    next.emit(std::span<std::byte, MessageHeader::kSize>(front() + length, MessageHeader::kSize));
    length += MessageHeader::kSize + next.length;
  }
  emit(header, length);
}

void AmiRun::send_collective() {
  const std::uint8_t flags = input_.u8();
  ami::CollectiveMessage message;
  message.call.type = static_cast<ami::CollectiveType>(1 + input_.u8() % 7);
  message.call.root = static_cast<ami::Rank>((flags & 7) == 7 ? input_.u8() : input_.u8() % 3);
  message.round = input_.u8() % 4;
  message.sequence = (flags & 24) == 24 ? input_.u32() : input_.u8() % 6;
  message.call.length = input_.u8() % 5 * 8u;
  if (message.call.type == ami::CollectiveType::all_reduce) {
    message.call.reduction = static_cast<ami::Reduction>(1 + input_.u8() % 6);
    message.call.element = static_cast<ami::ElementType>(1 + input_.u8() % 4);
    message.call.root = 0;
  }
  if (message.call.type == ami::CollectiveType::long_broadcast) message.call.length += 40;
  if (message.call.type == ami::CollectiveType::barrier ||
      message.call.type == ami::CollectiveType::sync) {
    message.call.length = 0;
    message.call.root = 0;
  }
  if (message.call.type == ami::CollectiveType::abort) {
    if ((flags & 64) != 0) return;  // as it ends everything, not often
    message.call = {.type = ami::CollectiveType::abort};
    message.status = static_cast<Status>(input_.u8() % 10);
  }
  const std::uint32_t payload = (flags & 32) != 0 ? 0 : message.call.length;
  message.emit(std::span<std::byte, ami::CollectiveMessage::kSize>(front() + MessageHeader::kSize,
                                                                   ami::CollectiveMessage::kSize));
  MessageHeader header;
  header.source = static_cast<ami::EndpointId>(hostile_peer_);
  header.handler = ami::Context::kHandlers;
  header.header_length = ami::CollectiveMessage::kSize;
  header.length = payload;
  emit(header, MessageHeader::kSize + ami::CollectiveMessage::kSize + payload);
}

void AmiRun::send_raw() {
  const auto bytes = input_.take(input_.u8());
  std::memcpy(front(), bytes.data(), bytes.size());
  if (!bytes.empty() && (bytes.size() & 1) != 0) {
    wire::store_be16(reinterpret_cast<std::uint8_t*>(front()), 0x414d);
  }
  post({.opcode = roce::WrOpcode::send}, bytes.size());
}

/// Completes a receive, whose buffer has what an earlier message left there.
void AmiRun::write_with_immediate() {
  roce::SendWr wr;
  wr.opcode = roce::WrOpcode::rdma_write_with_imm;
  wr.remote_addr = exposed_region_.iova;
  wr.rkey = exposed_region_.key;
  const std::uint16_t choice = input_.u16();
  post(wr, (choice & 1) != 0 ? std::min(claimed_, kExposed) : choice % kExposed);
}

void AmiRun::inject() {
  const std::uint8_t choice = input_.u8();
  const auto to = static_cast<ami::EndpointId>(choice >= 240 ? choice % 4 : 0);
  const std::uint32_t length = input_.u16() % 1500;
  const auto number = calls_.size();
  const ami::Completion completion{
      .level = static_cast<Level>((choice >> 2) % 3),
      .callback = {.function = [](void* self, std::uint64_t cookie,
                                  Status) { ++static_cast<AmiRun*>(self)->calls_.at(cookie); },
                   .context = this,
                   .cookie = number}};
  const ami::Local local{exposed_region_.iova, length, exposed_region_.key};
  const ami::Remote remote{to, hostile_region_.iova + 2048,
                           choice % 31 == 30 ? roce::MemoryKey{1} : hostile_region_.key};
  ami::Injected injected = ami::Injected::again;
  switch (choice % 4) {
    case 0:
    case 1:
      injected = context_->send(to, kHandler, {}, local, completion);
      break;
    case 2:
      injected = context_->put(local, remote, completion);
      break;
    default:
      injected = context_->get(local, remote, completion);
      break;
  }
  if (injected == ami::Injected::yes) calls_.push_back(0);
}

void AmiRun::start_collective() {
  const std::uint8_t choice = input_.u8();
  const std::size_t which = choice % requests_.size();
  ami::Request& request = requests_[which];
  if (!request.done()) return;
  auto& vector = vectors_[which];
  switch (choice >> 2 & 3) {
    case 0:
      (void)communicator_->barrier(request);
      return;
    case 1:
      (void)communicator_->all_reduce(std::span(vector), ami::Reduction::sum, request);
      return;
    default: {
      const bool is_long = (choice & 16) != 0;
      const ami::Local memory{
          is_long ? exposed_region_.iova + 2048 : reinterpret_cast<std::uintptr_t>(vector.data()),
          is_long ? 40u + choice / 32 * 8 : 8u * (choice >> 5 & 3), exposed_region_.key};
      (void)communicator_->broadcast(
          memory, static_cast<ami::Rank>((choice & 64) != 0 ? kPeers : 0), request);
    }
  }
}

void AmiRun::on_message(const ami::Message& message) {
  check(message.source < kPeers && message.header.size() <= ami::kMaxHeaderBytes);
  check(message.payload.size() <= kMaxMessage);
  for (const std::byte byte : message.header) {
    sum_ += static_cast<std::uint8_t>(byte);
  }
  for (const std::byte byte : message.payload) {
    sum_ += static_cast<std::uint8_t>(byte);
  }
}

/// What the hostile node's receives tell it.
void AmiRun::learn() {
  std::array<roce::Completion, 16> some;
  while (const std::size_t count = hostile_recv_cq_->poll(some)) {
    for (std::size_t i = 0; i < count; ++i) {
      if (some[i].status != roce::WcStatus::success ||
          some[i].qp_num != hostile_qps_[0]->number()) {
        continue;
      }
      const std::byte* bytes = hostile_.data() + kHostile + some[i].wr_id * 1024;
      const auto header = MessageHeader::parse({bytes, some[i].byte_len});
      check(header.has_value());
      if (header->type != MessageHeader::Type::reply) tags_.push_back(header->tag);
      const roce::Sge to{hostile_region_.iova + kHostile + some[i].wr_id * 1024, 1024,
                         hostile_region_.key};
      (void)(hostile_qps_[0]->post_recv({.wr_id = some[i].wr_id, .sg_list = {&to, 1}}));
    }
  }
  while (hostile_cq_->poll(some) > 0) {
  }
}

void AmiRun::turn() {
  for (unsigned i = 0; i < 64; ++i) {
    bool moved = network_.poll();
    moved = adapter_->progress(network_.now_ns()) || moved;
    learn();
    if (!moved && !network_.advance(network_.now_ns() + 10'000)) return;
  }
}

void AmiRun::pass(std::uint64_t time_ns) {
  const std::uint64_t limit_ns = network_.now_ns() + time_ns;
  turn();
  while (network_.advance(limit_ns)) {
    turn();
    (void)context_->advance();
  }
  if (network_.now_ns() < limit_ns) network_.advance_to(limit_ns);
}

/// The application gives up; what is at the transport ends by itself.
void AmiRun::end() {
  adapter_->close(*lane_);
  const auto called = [](unsigned calls) { return calls == 1; };
  const auto done = [](const ami::Request& request) { return request.done(); };
  const std::uint64_t limit_ns = network_.now_ns() + kRestLimitNs;
  network_.node(1).cut(true);
  while (!std::all_of(calls_.begin(), calls_.end(), called) ||
         !std::all_of(requests_.begin(), requests_.end(), done) || !communicator_->idle() ||
         !adapter_->idle()) {
    check(network_.now_ns() < limit_ns);
    check(std::all_of(calls_.begin(), calls_.end(), [](unsigned calls) { return calls <= 1; }));
    turn();
    (void)context_->advance();
    if (!network_.advance(network_.now_ns() + 1'000'000)) {
      network_.advance_to(network_.now_ns() + 1'000'000);
    }
  }
  check(context_->pending() == 0);
  check(
      std::all_of(canary_.begin(), canary_.end(), [](std::byte byte) { return byte == kCanary; }));
  check_counters();
}

/// Each receive that was used up has one reason, as each message that came to the context.
void AmiRun::check_counters() {
  while (context_->advance() > 0) {
    turn();
  }
  const ami::Counters& counters = adapter_->counters();
  const std::uint64_t received = counters.rx_eager.value() - counters.rx_shared.value() +
                                 counters.rx_rendezvous.value() +
                                 counters.rx_reply_messages.value() +
                                 counters.rx_malformed.value() + counters.rx_long_header.value() +
                                 counters.rx_unknown_source.value() + counters.rx_not_send.value();
  check(received <= posted_);
  const ami::ContextCounters& handled = context_->counters();
  check(handled.messages.value() + handled.unknown_handlers.value() <=
        counters.rx_eager.value() + counters.rx_rendezvous.value());
  const ami::CollectiveCounters& collectives = communicator_->counters();
  check(collectives.started.value() == collectives.completed.value() + collectives.failed.value());
}

/// Whatever can be parsed says the same when it is written again.
void parse(std::span<const std::uint8_t> input) {
  const auto bytes = std::as_bytes(input);
  if (const auto header = MessageHeader::parse(bytes)) {
    std::array<std::byte, MessageHeader::kSize> again;
    header->emit(again);
    Bytes whole(input.begin(), input.end());
    std::memcpy(whole.data(), again.data(), again.size());
    check(MessageHeader::parse(std::as_bytes(std::span(whole))) == header);
  }
  const auto front = bytes.first(std::min(bytes.size(), ami::CollectiveMessage::kSize));
  if (const auto message = ami::CollectiveMessage::parse(front, bytes.size() - front.size())) {
    std::array<std::byte, ami::CollectiveMessage::kSize> again;
    message->emit(again);
    check(std::equal(front.begin(), front.end(), again.begin()));
  }
}

void run(std::span<const std::uint8_t> input) {
  parse(input);
  AmiRun(input).run();
  check(pools().in_use() == 0);
}

/// Messages of each kind and what both applications do, then the captured packet's bytes as
/// actions.
Bytes make_input(const test::RocePacket& packet) {
  Bytes input{0};
  // Eager, and another one of 40 bytes behind it.
  input.insert(input.end(), {0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 64, 0, 0});
  input.insert(input.end(), {1, 0, 0, 0, 0, 0, 0, 40, 13});
  input.insert(input.end(), {0, 1, 1, 16, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0, 13});  // rendezvous
  input.insert(input.end(), {7, 8, 0, 10, 10, 200, 12, 13});                     // a send, handled
  // A reply with one entry.
  input.insert(input.end(), {0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0});
  input.insert(input.end(), {0, 0, 0, 0, 0, 0, 0, 13});
  input.insert(input.end(), {9, 0, 3, 0, 0, 0, 0, 0, 0, 13});  // a barrier, a message
  const auto transport = packet.transport();
  input.insert(input.end(), transport.begin(),
               transport.begin() +
                   static_cast<std::ptrdiff_t>(std::min<std::size_t>(transport.size(), 300)));
  return input;
}

const FuzzTarget kTarget("ami", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
