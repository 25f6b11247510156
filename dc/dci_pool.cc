// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "dc/dci_pool.h"

#include <array>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dc/endpoint.h"
#include "roce/address_handle.h"

namespace rockhopper::dc {
namespace {

constexpr std::uint16_t kDcisMax = 1024;

}  // namespace

PoolTarget::~PoolTarget() {
  if (service_.channel != nullptr && service_.channel->holder == this) {
    service_.channel->holder = nullptr;
  }
}

DciPool::DciPool(Endpoint& endpoint, const DciPoolConfig& config, OnTurn on_turn)
    : endpoint_(endpoint), config_(config), on_turn_(std::move(on_turn)) {}

Expected<std::unique_ptr<DciPool>> DciPool::create(Endpoint& endpoint, const DciInit& init,
                                                   const DciPoolConfig& config, OnTurn on_turn) {
  if (config.dcis == 0 || config.dcis > kDcisMax) {
    return fail(ErrorCode::invalid_argument, "a pool has 1 to {} initiators, not {}", kDcisMax,
                config.dcis);
  }
  if (config.quota == 0) return fail(ErrorCode::invalid_argument, "a pool's quota is 1 or more");
  std::unique_ptr<DciPool> pool(new DciPool(endpoint, config, std::move(on_turn)));
  for (std::uint16_t i = 0; i < config.dcis; ++i) {
    ROCKHOPPER_TRY(auto dci, endpoint.create_dci(init));
    pool->dcis_.push_back(dci);
  }
  pool->channels_.reserve(std::size_t{config.dcis} * init.streams);
  for (std::uint8_t stream = 0; stream < init.streams; ++stream) {
    for (Dci* dci : pool->dcis_) {
      pool->channels_.push_back({.dci = dci, .stream = stream});
    }
  }
  if (pool->exclusive()) {
    pool->free_.reserve(pool->channels_.size());
    pool->held_.reserve(pool->channels_.size());
    for (Channel& channel : pool->channels_) {
      pool->free_.push_back(&channel);
    }
  }
  return pool;
}

DciPool::~DciPool() {
  for (Dci* dci : dcis_) {
    endpoint_.destroy_dci(dci);
  }
}

const DciPool::Channel* DciPool::take_channel(PoolTarget& target) {
  if (target.service().channel == nullptr) {
    if (!exclusive()) {
      target.service().channel = &choose(target);
    } else if (!free_.empty()) {
      hold(target);
    }
  }
  if (target.service().channel == nullptr || must_give_way(target)) {
    if (!target.waits()) waiting_.push_back(target);
    return nullptr;
  }
  if (target.service().channel->dci->state(target.service().channel->stream) ==
      roce::QpState::err) {
    revive(*target.service().channel);
  }
  return target.service().channel;
}

std::optional<roce::PostResult> DciPool::prepare(PoolTarget& target) {
  const Channel* channel = take_channel(target);
  if (channel == nullptr) return std::nullopt;
  return channel->dci->send_queue_full(channel->stream) ? roce::PostResult::queue_full
                                                        : roce::PostResult::ok;
}

std::optional<roce::PostResult> DciPool::post_send(PoolTarget& target, const roce::SendWr& wr) {
  const Channel* channel = take_channel(target);
  if (channel == nullptr) return std::nullopt;
  roce::SendWr addressed = wr;
  addressed.ah = &target.ah();
  addressed.remote_qpn = target.number();
  addressed.dc_access_key = target.access_key();
  const roce::PostResult result = channel->dci->post_send(addressed, channel->stream);
  if (result == roce::PostResult::ok) ++target.service().used;
  return result;
}

/// All that a stream in error had has completed.
void DciPool::revive(const Channel& channel) {
  if (channel.dci->failed()) {
    channel.dci->reset_all();
  } else {
    (void)channel.dci->reset(channel.stream);
  }
}

void DciPool::progress() {
  for (std::size_t i = 0; i < held_.size();) {
    Channel& channel = *held_[i];
    if (channel.dci->send_queue_depth(channel.stream) > 0) {
      ++i;
      continue;
    }
    if (channel.holder != nullptr) {
      channel.holder->service().channel = nullptr;
      channel.holder = nullptr;
    }
    free_.push_back(&channel);
    held_[i] = held_.back();
    held_.pop_back();
  }
  while (!free_.empty() && !waiting_.empty()) {
    PoolTarget& next = waiting_.front();
    waiting_.pop_front();
    if (next.service().channel != nullptr) {
      // It gave way with requests outstanding, which nothing of its own may pass.
      next.service().used = 0;
    } else {
      hold(next);
    }
    on_turn_(next);
  }
}

DciPool::Channel& DciPool::choose(const PoolTarget& target) {
  if (config_.policy == PoolPolicy::random) {
    return channels_[endpoint_.random().below(channels_.size())];
  }
  const std::array<std::uint64_t, 2> key{target.ah().id(), target.number().value};
  return channels_[XXH3_64bits(key.data(), sizeof key) % channels_.size()];
}

void DciPool::hold(PoolTarget& target) {
  Channel& channel = *free_.back();
  free_.pop_back();
  held_.push_back(&channel);
  channel.holder = &target;
  target.service().channel = &channel;
  target.service().used = 0;
}

bool DciPool::must_give_way(const PoolTarget& target) const {
  return config_.policy == PoolPolicy::dcs_quota && target.service().used >= config_.quota &&
         !waiting_.empty();
}

}  // namespace rockhopper::dc
