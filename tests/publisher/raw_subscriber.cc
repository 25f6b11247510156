// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/publisher/raw_subscriber.h"

#include <algorithm>
#include <cstring>

namespace rockhopper::sim {
namespace {

using publisher::ControlMessage;
using publisher::kControlMessageMax;

}  // namespace

RawSubscriber::RawSubscriber(World& world, std::string name)
    : world_(world),
      name_(std::move(name)),
      pd_(world.network.node(1).engine().allocate_pd()),
      send_cq_(must(roce::CompletionQueue::create(64))),
      recv_cq_(must(roce::CompletionQueue::create(64))),
      memory_(kBytes) {
  key_ = must(world_.network.node(1).engine().register_memory(pd_, memory_.data(), kBytes,
                                                              roce::kAccessLocalWrite))
             .key;
  connect();
}

RawSubscriber::~RawSubscriber() {
  disconnect();
  must(world_.network.node(1).engine().deregister_memory(key_));
}

void RawSubscriber::connect() {
  roce::QpInit init;
  init.pd = pd_;
  init.send_cq = send_cq_.get();
  init.recv_cq = recv_cq_.get();
  init.max_inline_data = kControlMessageMax;
  init.sq_sig_all = true;
  qps_ = world_.connect(world_.publisher->qp_init(), init);
  id_ = must(world_.publisher->add_subscriber(name_, *qps_[0]));
  for (int i = 0; i < 8; ++i) {
    // The last pages are for messages.
    const roce::Sge to{reinterpret_cast<std::uintptr_t>(memory_.data()) + kBytes - 8192,
                       static_cast<std::uint32_t>(kControlMessageMax), key_};
    static_cast<void>(qps_[1]->post_recv({.sg_list = {&to, 1}}));
  }
}

void RawSubscriber::disconnect() {
  world_.publisher->remove_subscriber(id_);
  for (unsigned i = 0; i < 2; ++i) world_.network.node(i).engine().destroy_qp(qps_[i]);
  std::array<roce::Completion, 64> left;
  static_cast<void>(send_cq_->poll(left));
  static_cast<void>(recv_cq_->poll(left));
}

void RawSubscriber::reconnect() {
  disconnect();
  connect();
}

std::optional<roce::Completion> RawSubscriber::completion(roce::CompletionQueue& cq) {
  roce::Completion done;
  const bool came = world_.run_until([&] { return cq.poll({&done, 1}) == 1; }, 1'000'000'000);
  return came ? std::optional(done) : std::nullopt;
}

void RawSubscriber::send(std::span<const std::byte> bytes) {
  const roce::Sge sge{
      reinterpret_cast<std::uintptr_t>(bytes.data()), static_cast<std::uint32_t>(bytes.size()), {}};
  static_cast<void>(qps_[1]->post_send(
      {.sg_list = {&sge, 1}, .opcode = roce::WrOpcode::send, .send_flags = roce::kSendInline}));
  static_cast<void>(completion(*send_cq_));
}

std::optional<ControlMessage> RawSubscriber::ask(const ControlMessage& message) {
  std::array<std::byte, kControlMessageMax> bytes;
  send(std::span(bytes).first(publisher::emit_control(message, bytes)));
  return receive();
}

std::optional<ControlMessage> RawSubscriber::receive() {
  const auto done = completion(*recv_cq_);
  if (!done || done->status != roce::WcStatus::success) return std::nullopt;
  return publisher::parse_control(std::span(memory_).subspan(kBytes - 8192, done->byte_len));
}

roce::MemoryKey RawSubscriber::subscribe(const std::string& store) {
  const auto answer = ask(publisher::SubscribeRequest{.tag = 77, .store = store});
  if (!answer) return {};
  const auto* grant = std::get_if<publisher::GrantMessage>(&*answer);
  return grant == nullptr ? roce::MemoryKey{} : grant->rkey;
}

RawSubscriber::Read RawSubscriber::read(roce::MemoryKey key, std::uint64_t addr,
                                        std::uint32_t length) {
  if (broken()) reconnect();
  std::fill(memory_.begin(), memory_.end() - 8192, std::byte{0xcc});
  const roce::Sge to{reinterpret_cast<std::uintptr_t>(memory_.data()), length, key_};
  static_cast<void>(qps_[1]->post_send({.sg_list = {&to, 1},
                                        .opcode = roce::WrOpcode::rdma_read,
                                        .remote_addr = addr,
                                        .rkey = key}));
  const auto done = completion(*send_cq_);
  Read result;
  if (!done) return result;
  result.status = done->status;
  result.bytes.assign(memory_.begin(), memory_.begin() + length);
  return result;
}

}  // namespace rockhopper::sim
