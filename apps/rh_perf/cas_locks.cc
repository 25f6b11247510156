// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/cas_locks.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace rockhopper::apps::perf {

Expected<std::unique_ptr<CasLocks>> CasLocks::create(roce::Engine& engine,
                                                     roce::ProtectionDomain pd,
                                                     std::span<roce::QueuePair* const> qps) {
  std::unique_ptr<CasLocks> made(new CasLocks(engine));
  ROCKHOPPER_TRY(made->memory_, PageMemory::allocate(qps.size() * sizeof(std::uint64_t)));
  ROCKHOPPER_TRY(made->region_,
                 engine.register_memory(pd, made->memory_.data(), made->memory_.size(),
                                        roce::kAccessLocalWrite));
  const auto* words = reinterpret_cast<const std::uint64_t*>(made->memory_.data());
  for (std::size_t i = 0; i < qps.size(); ++i) {
    const roce::Sge scratch{made->region_.iova + i * sizeof(std::uint64_t), sizeof(std::uint64_t),
                            made->region_.key};
    const WorkId id{.qp = static_cast<std::uint16_t>(i)};
    made->holders_.emplace_back(*qps[i], scratch, words[i],
                                roce::lock::FallbackScope::Config{.wr_id = id.encode()});
  }
  return made;
}

CasLocks::~CasLocks() {
  if (region_.base != nullptr) (void)engine_.deregister_memory(region_.key);
}

roce::PostResult CasLocks::post(std::uint16_t qp, const roce::lock::ScopeBuilder& scope,
                                std::uint64_t id, std::uint64_t now_ns) {
  Holder& holder = holders_[qp];
  if (holder.scope) return roce::PostResult::queue_full;
  holder.scope.emplace(scope);
  holder.id = id;
  const roce::PostResult posted = holder.lock.post(*holder.scope, &holder.result, now_ns);
  if (posted != roce::PostResult::ok) holder.scope.reset();
  return posted;
}

std::size_t CasLocks::poll(roce::CompletionQueue& cq, std::uint64_t now_ns, std::span<Done> out) {
  std::array<roce::Completion, Backend::kBatch> completions;
  const std::size_t count = cq.poll(completions);
  for (const roce::Completion& completion : std::span(completions).first(count)) {
    (void)holders_[WorkId::decode(completion.wr_id).qp].lock.take(completion, now_ns);
  }
  std::size_t done = 0;
  for (Holder& holder : holders_) {
    if (!holder.scope || done == out.size()) continue;
    holder.lock.poll(now_ns);
    if (holder.lock.busy()) continue;
    const roce::WcStatus status = holder.result.status;
    const bool good = status == roce::WcStatus::success;
    out[done++] = {holder.id, 0, good ? std::string_view() : roce::to_string(status)};
    holder.scope.reset();
  }
  return done;
}

}  // namespace rockhopper::apps::perf
