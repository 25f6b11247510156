// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/unit/apps/fake_backend.h"

#include <algorithm>
#include <cstring>

#include "apps/rh_perf/atomic_words.h"
#include "roce/lock/lock_word.h"

namespace rockhopper::apps::perf {

Expected<Side> FakeBackend::prepare(const Agreement& agreement, std::size_t bytes,
                                    std::optional<bool> /*ipv4*/) {
  memory_.resize(bytes);
  qps_.resize(agreement.qps);
  window_ = agreement.window;
  Side side;
  side.address = reinterpret_cast<std::uint64_t>(memory_.data());
  side.bytes = bytes;
  side.qps.resize(agreement.qps);
  return side;
}

Expected<void> FakeBackend::connect(const Agreement& /*agreement*/, const Side& /*remote*/) {
  return {};
}

std::size_t FakeBackend::post_sends(std::uint16_t qp, std::span<const SendRequest> requests) {
  QueuePairState& state = qps_[qp];
  std::size_t posted = 0;
  for (const SendRequest& request : requests) {
    if (state.outstanding == window_) break;
    ++state.outstanding;
    ++posted;
    outstanding_max = std::max(outstanding_max, state.outstanding);
    state.waiting.push_back(request);
  }
  advance(qp);
  return posted;
}

void FakeBackend::advance(std::uint16_t qp) {
  QueuePairState& state = qps_[qp];
  while (!state.waiting.empty()) {
    SendRequest request = state.waiting.front();
    const bool is_send = request.operation == Operation::send;
    if (is_send && peer_->qps_[qp].receives.empty()) return;
    state.waiting.pop_front();
    for (int times = tamper(request); times > 0; --times) {
      if (!execute(qp, request)) return;
    }
    ++state.unsignaled;
    if (!request.signaled) continue;
    done_.push_back({request.id, 0, std::exchange(next_error, {})});
    state.outstanding -= std::exchange(state.unsignaled, 0);
  }
}

bool FakeBackend::execute(std::uint16_t qp, const SendRequest& request) {
  std::byte* local = memory_.data() + request.local_offset;
  auto* remote = reinterpret_cast<std::byte*>(request.remote_address);
  switch (request.operation) {
    case Operation::send: {
      auto& receives = peer_->qps_[qp].receives;
      if (receives.empty()) return false;
      if (receives.size() > 1 && interrupts()) {
        peer_->done_.push_back({receives.front().id, 0, "flushed", true});
        receives.pop_front();
      }
      const ReceiveRequest receive = receives.front();
      receives.pop_front();
      std::memcpy(peer_->memory_.data() + receive.local_offset, local, request.length);
      peer_->done_.push_back({receive.id, request.length, {}});
      break;
    }
    case Operation::write:
      std::memcpy(remote, local, request.length);
      break;
    case Operation::read:
      std::memcpy(local, remote, request.length);
      break;
    case Operation::cas:
    case Operation::faa: {
      const std::span word(remote, kWordBytes);
      const std::uint64_t before = load_word(word);
      if (request.operation == Operation::faa) {
        store_word(word, before + request.compare_add);
      } else if (before == request.compare_add) {
        store_word(word, request.swap);
      }
      store_word({local, kWordBytes}, before);
      break;
    }
    case Operation::lock: {
      const std::span word(remote, kWordBytes);
      const std::span counter(remote + kWordBytes, kWordBytes);
      const std::uint64_t before = load_word(counter);
      store_word(word, roce::lock::freed(roce::lock::LockWord::from(load_word(word))).value());
      store_word(counter, before + request.compare_add);
      store_word({local, kWordBytes}, before);
      break;
    }
  }
  return true;
}

std::size_t FakeBackend::post_receives(std::uint16_t qp, std::span<const ReceiveRequest> requests) {
  qps_[qp].receives.insert(qps_[qp].receives.end(), requests.begin(), requests.end());
  peer_->advance(qp);
  return requests.size();
}

std::size_t FakeBackend::poll(std::span<Done> out) {
  on_poll();
  const std::size_t count = std::min(out.size(), done_.size());
  std::copy_n(done_.begin(), count, out.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

}  // namespace rockhopper::apps::perf
