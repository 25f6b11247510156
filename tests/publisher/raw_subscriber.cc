// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/publisher/raw_subscriber.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "roce/owned.h"

namespace rockhopper::sim {
namespace {

using publisher::ControlMessage;
using publisher::kControlMessageMax;

constexpr std::uint32_t kReceives = 8;

}  // namespace

RawSubscriber::RawSubscriber(World& world, std::string name)
    : world_(world),
      name_(std::move(name)),
      pd_(engine().allocate_pd()),
      send_cq_(must(roce::CompletionQueue::create(64))),
      receives_(must(
          roce::ReceiveBuffers::create(engine(), pd_, kReceives, publisher::kControlMessageMax))),
      memory_(kBytes) {
  key_ = must(engine().register_memory(pd_, memory_.data(), kBytes, roce::kAccessLocalWrite)).key;
  if (world_.config.dynamic_connections) {
    target_ = must(world_.endpoints[1]->create_dct(
        {.pd = pd_, .srq = receives_->srq(), .recv_cq = receives_->cq()}));
    initiator_ = must(world_.endpoints[1]->create_dci({.pd = pd_,
                                                       .send_cq = send_cq_.get(),
                                                       .max_inline_data = kControlMessageMax,
                                                       .sq_sig_all = true,
                                                       .timeout = world_.config.timeout}));
  }
  connect();
}

RawSubscriber::~RawSubscriber() {
  disconnect();
  if (initiator_ != nullptr) world_.endpoints[1]->destroy_dci(initiator_);
  if (target_ != nullptr) world_.endpoints[1]->destroy_dct(target_);
  receives_.reset();
  must(engine().deregister_memory(key_));
}

void RawSubscriber::connect() {
  if (initiator_ != nullptr) {
    if (initiator_->state() == roce::QpState::err) must(initiator_->reset());
    id_ = must(world_.publisher->add_subscriber(name_, world_.address_of(1, *target_)));
    address_ = world_.address_of(0, *world_.publisher->target(id_));
    route_ = route_to(address_);
    return;
  }
  roce::QpInit init;
  init.pd = pd_;
  init.send_cq = send_cq_.get();
  init.recv_cq = receives_->cq();
  init.srq = receives_->srq();
  init.max_recv_wr = 0;
  init.max_inline_data = kControlMessageMax;
  init.sq_sig_all = true;
  qps_ = world_.connect(world_.publisher->qp_init(), init);
  id_ = must(world_.publisher->add_subscriber(name_, *qps_[0]));
  route_ = std::make_unique<publisher::QueuePairRoute>(*qps_[1]);
}

std::unique_ptr<publisher::SubscriberRoute> RawSubscriber::route_to(
    const dc::TargetAddress& address) {
  return std::make_unique<publisher::DcRoute>(
      *initiator_, must(roce::own(engine(), engine().create_ah(pd_, address.av))), address);
}

void RawSubscriber::disconnect() {
  world_.publisher->remove_subscriber(id_);
  route_.reset();
  for (unsigned i = 0; i < 2; ++i) {
    if (qps_[i] != nullptr) world_.network.node(i).engine().destroy_qp(qps_[i]);
  }
  std::array<roce::Completion, 64> left;
  (void)send_cq_->poll(left);
  (void)receives_->poll([](const roce::Completion&, std::span<const std::byte>) {});
}

void RawSubscriber::recover() {
  if (broken() && !route_->revive()) reconnect();
}

void RawSubscriber::reconnect() {
  disconnect();
  connect();
}

std::optional<roce::Completion> RawSubscriber::completion() {
  roce::Completion done;
  const auto came = [&] { return send_cq_->poll({&done, 1}) == 1; };
  return world_.run_until(came, 1'000'000'000) ? std::optional(done) : std::nullopt;
}

void RawSubscriber::send(std::span<const std::byte> bytes) {
  const roce::Sge sge{
      reinterpret_cast<std::uintptr_t>(bytes.data()), static_cast<std::uint32_t>(bytes.size()), {}};
  (void)route_->post(
      {.sg_list = {&sge, 1}, .opcode = roce::WrOpcode::send, .send_flags = roce::kSendInline});
  (void)completion();
}

std::optional<ControlMessage> RawSubscriber::ask(const ControlMessage& message) {
  std::array<std::byte, kControlMessageMax> bytes;
  send(std::span(bytes).first(publisher::emit_control(message, bytes)));
  return receive();
}

std::optional<ControlMessage> RawSubscriber::receive() {
  std::optional<ControlMessage> message;
  const auto take = [&](const roce::Completion& done, std::span<const std::byte> bytes) {
    if (done.status == roce::WcStatus::success) message = publisher::parse_control(bytes);
  };
  (void)world_.run_until([&] { return receives_->poll(take); }, 1'000'000'000);
  return message;
}

roce::MemoryKey RawSubscriber::subscribe(const std::string& store) {
  recover();
  const auto answer = ask(publisher::SubscribeRequest{.tag = 77, .store = store});
  if (!answer) return {};
  const auto* grant = std::get_if<publisher::GrantMessage>(&*answer);
  return grant == nullptr ? roce::MemoryKey{} : grant->rkey;
}

RawSubscriber::Read RawSubscriber::read(roce::MemoryKey key, std::uint64_t addr,
                                        std::uint32_t length) {
  recover();
  const auto memory = std::span(memory_).first(length);
  std::fill(memory.begin(), memory.end(), kUntouched);
  const roce::Sge to{reinterpret_cast<std::uintptr_t>(memory.data()), length, key_};
  (void)route_->post(
      {.sg_list = {&to, 1}, .opcode = roce::WrOpcode::rdma_read, .remote_addr = addr, .rkey = key});
  const auto done = completion();
  Read result;
  if (!done) return result;
  result.status = done->status;
  result.bytes.assign(memory.begin(), memory.end());
  return result;
}

RawSubscriber::Read RawSubscriber::read_at(const dc::TargetAddress& address, roce::MemoryKey key,
                                           std::uint64_t addr, std::uint32_t length) {
  recover();
  auto own = std::exchange(route_, route_to(address));
  Read result = read(key, addr, length);
  recover();
  route_ = std::move(own);
  return result;
}

}  // namespace rockhopper::sim
