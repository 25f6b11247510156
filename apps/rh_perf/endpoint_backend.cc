// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/endpoint_backend.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "apps/rh_perf/atomic_words.h"

namespace rockhopper::apps::perf {
namespace {

roce::WrOpcode opcode_of(Operation operation) {
  switch (operation) {
    case Operation::send:
      return roce::WrOpcode::send;
    case Operation::write:
      return roce::WrOpcode::rdma_write;
    case Operation::read:
      return roce::WrOpcode::rdma_read;
    case Operation::cas:
      return roce::WrOpcode::atomic_cmp_and_swp;
    case Operation::faa:
    case Operation::lock:  // the access of its scope
      break;
  }
  return roce::WrOpcode::atomic_fetch_and_add;
}

}  // namespace

EndpointBackend::EndpointBackend(std::unique_ptr<Endpoint> endpoint, const LocalOptions& options)
    : endpoint_(std::move(endpoint)), options_(options) {}

EndpointBackend::~EndpointBackend() {
  if (locks_ != nullptr) (void)engine().detach_locks(*locks_);
  if (region_.base != nullptr) (void)engine().deregister_memory(region_.key);
}

Expected<Side> EndpointBackend::prepare(const Agreement& agreement, std::size_t bytes,
                                        std::optional<bool> ipv4) {
  const auto& table = endpoint_->addresses();
  if (options_.gid_index) {
    side_.gid = table[*options_.gid_index].address;
  } else if (ipv4) {
    ROCKHOPPER_TRY(side_.gid, endpoint_->address_of_family(*ipv4));
  } else {
    side_.gid = table.front().address;
  }
  ROCKHOPPER_TRY(memory_, PageMemory::allocate(bytes));
  pd_ = engine().allocate_pd();
  ROCKHOPPER_TRY(region_, engine().register_memory(pd_, memory_.data(), bytes,
                                                   roce::kAccessLocalWrite | kRemoteAccess));
  side_.address = region_.iova;
  side_.bytes = bytes;
  side_.rkey = static_cast<std::uint32_t>(region_.key);
  if (agreement.lock_mode == LockMode::target) {
    locks_ =
        std::make_unique<roce::lock::Region>(memory_.data(), bytes, roce::lock::Region::Config{});
    engine().attach_locks(*locks_);
  }

  ROCKHOPPER_TRY(cq_, roce::CompletionQueue::create(
                          agreement.qps * (agreement.send_depth() + agreement.receive_depth)));
  inline_bytes_ = agreement.inline_bytes;
  ROCKHOPPER_TRY(create_queues(agreement));
  return side_;
}

roce::SendWr EndpointBackend::work_request(const SendRequest& request) const {
  roce::SendWr wr;
  wr.wr_id = request.id;
  wr.opcode = opcode_of(request.operation);
  wr.send_flags = request.signaled ? roce::kSendSignaled : 0u;
  if (request.length <= inline_bytes_ &&
      (request.operation == Operation::send || request.operation == Operation::write)) {
    wr.send_flags |= roce::kSendInline;
  }
  wr.remote_addr = request.remote_address;
  wr.rkey = remote_key_;
  wr.compare_add = request.compare_add;
  wr.swap = request.swap;
  return wr;
}

roce::lock::ScopeBuilder EndpointBackend::make_scope(std::uint16_t qp,
                                                     const SendRequest& request) const {
  const roce::lock::Word word{.addr = request.remote_address, .rkey = remote_key_};
  const roce::Sge element = sge(request.local_offset, request.length);
  roce::SendWr access = work_request(request);
  access.sg_list = {&element, 1};
  access.send_flags = 0;
  access.remote_addr = word.addr + kWordBytes;
  roce::lock::ScopeBuilder scope(word);
  scope.owner(qp);
  (void)scope.access(access);
  return scope;
}

std::uint64_t EndpointBackend::packets() const {
  const roce::EngineCounters& counters = engine().counters();
  return counters.sent_pkts.value() + counters.rcvd_pkts.value();
}

LockStatistics EndpointBackend::lock_statistics() const {
  LockStatistics statistics;
  if (locks_ == nullptr) return statistics;
  locks_->visit_counters(
      [](void* to, const char* name, std::uint64_t value) {
        (*static_cast<LockStatistics*>(to))[name] = value;
      },
      &statistics);
  return statistics;
}

std::size_t EndpointBackend::poll(std::span<Done> out) {
  (void)endpoint_->turn();
  const std::size_t count =
      cq_->poll(std::span(completions_).first(std::min(out.size(), completions_.size())));
  for (std::size_t i = 0; i < count; ++i) {
    const roce::Completion& completion = completions_[i];
    const bool good = completion.status == roce::WcStatus::success;
    out[i] = {completion.wr_id, completion.byte_len,
              good ? std::string_view() : roce::to_string(completion.status),
              !good && comes_again(completion)};
  }
  return count;
}

}  // namespace rockhopper::apps::perf
