// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/uplink.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <rte_log.h>
#include <sys/epoll.h>

#include "stack/mbuf_read.h"
#include "stack/roce_locator.h"
#include "stack/worker.h"

namespace rockhopper {
namespace {

/// Where the one that had the role has ended, but its sockets are not closed yet, or another
/// process is faster.
constexpr int kFirstRetryMs = 1;
constexpr int kLastRetryMs = 256;

/// Has the thread told of `events` of `fd`, once; an operation of epoll_ctl().
bool watch(const stack::Descriptor& set, int operation, int fd, std::uint32_t events) {
  epoll_event event{.events = events | EPOLLONESHOT, .data = {.fd = fd}};
  return ::epoll_ctl(set.fd(), operation, fd, &event) == 0;
}

/// A host gives this address to what is for other hosts.
bool leaves(const rte_mbuf* packet, const rte_ether_addr& gateway) {
  const auto destination = stack::read_at<rte_ether_addr>(packet, 0);
  return destination && rte_is_same_ether_addr(&*destination, &gateway) != 0;
}

}  // namespace

Uplink::Uplink(const UplinkConfig& config) : config_(config), segment_(*config.segment) {}

Expected<std::unique_ptr<Uplink>> Uplink::open(const UplinkConfig& config) {
  std::unique_ptr<Uplink> uplink(new Uplink(config));
  ROCKHOPPER_TRY(uplink->begin());
  return uplink;
}

Expected<void> Uplink::begin() {
  ROCKHOPPER_TRY(sender_, stack::UdpSender::open(config_.addresses, config_.mtu, config_.seed,
                                                 config_.identification));
  ROCKHOPPER_TRY(succession_,
                 stack::Succession::open(segment_.membership().directory() + "/uplink"));
  ROCKHOPPER_TRY(end_, stack::EventFd::create());
  watched_ = stack::Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  bool watches = watched_ && watch(watched_, EPOLL_CTL_ADD, end_->fd(), EPOLLIN) &&
                 watch(watched_, EPOLL_CTL_ADD, succession_->vacancy(), 0);
  ROCKHOPPER_TRY(const bool first, succession_->take());
  if (first) {
    ROCKHOPPER_TRY(receiver_, listen());
    watches = watches && watch(watched_, EPOLL_CTL_ADD, receiver_->ready(), EPOLLIN);
    receives_.store(true, std::memory_order_relaxed);
  }
  if (!watches) return fail(ErrorCode::io, "no epoll: {}", std::strerror(errno));
  return thread_.start("rh-uplink", &Uplink::enter, this);
}

Uplink::~Uplink() {
  if (thread_.started()) end_->notify();
  thread_.join();
  delete prepared_.exchange(nullptr);
}

Expected<std::unique_ptr<stack::UdpReceiver>> Uplink::listen() const {
  return stack::UdpReceiver::open({.addresses = config_.addresses,
                                   .pool = config_.pool,
                                   .mtu = config_.mtu,
                                   .mac = segment_.link().mac(),
                                   .identification = config_.identification});
}

std::uint16_t Uplink::tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  const rte_ether_addr gateway = sender_->socket_end().mac;
  std::uint16_t sent = 0;
  while (sent < count) {
    // As many in a row as go the same way.
    const bool out = leaves(packets[sent], gateway);
    auto end = static_cast<std::uint16_t>(sent + 1);
    while (end < count && leaves(packets[end], gateway) == out) {
      ++end;
    }
    const auto run = static_cast<std::uint16_t>(end - sent);
    const std::uint16_t taken = out ? sender_->tx_burst(packets + sent, run)
                                    : segment_.link().tx_burst(packets + sent, run, now_ns);
    if (out) {
      looks_ = receiver_ != nullptr;
      moved_ns_ = look_ns_ = now_ns;
    }
    sent = static_cast<std::uint16_t>(sent + taken);
    if (taken < run) break;
  }
  return sent;
}

std::uint16_t Uplink::rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  std::uint16_t received = segment_.link().rx_burst(packets, count, now_ns);
  if (received == count || !looks(now_ns)) return received;
  rte_mbuf** const fresh = packets + received;
  const std::uint16_t came =
      receiver_->rx_burst(fresh, static_cast<std::uint16_t>(count - received));
  if (came > 0) moved_ns_ = look_ns_ = now_ns;
  return static_cast<std::uint16_t>(received + sort(fresh, came, now_ns));
}

bool Uplink::looks(std::uint64_t now_ns) {
  if (readable_.load(std::memory_order_relaxed) &&
      readable_.exchange(false, std::memory_order_acquire)) {
    // The thread has stored it before.
    if (stack::UdpReceiver* made = prepared_.exchange(nullptr, std::memory_order_relaxed)) {
      receiver_.reset(made);
      counters_.takeovers.add();
    }
    looks_ = true;
    moved_ns_ = look_ns_ = now_ns;
  }
  if (!looks_) return false;
  const std::uint64_t quiet_ns = now_ns - moved_ns_;
  if (quiet_ns > kQuietNs) {
    (void)arm();
    return false;
  }
  if (now_ns < look_ns_) return false;
  look_ns_ = now_ns + quiet_ns / kLooks;
  return true;
}

bool Uplink::arm() {
  if (receiver_ != nullptr && receiver_->has_taken()) return false;
  if (std::exchange(looks_, false)) {
    (void)watch(watched_, EPOLL_CTL_MOD, receiver_->ready(), EPOLLIN);
  }
  return !readable_.load(std::memory_order_relaxed);
}

std::uint16_t Uplink::sort(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  std::array<rte_mbuf*, stack::Worker::kBurst> others;
  std::uint16_t foreign = 0;
  std::uint16_t own = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    if (is_own(packets[i])) {
      packets[own++] = packets[i];
      continue;
    }
    others[foreign++] = packets[i];
    if (foreign == others.size()) pass_on(others.data(), std::exchange(foreign, 0), now_ns);
  }
  if (foreign > 0) pass_on(others.data(), foreign, now_ns);
  return own;
}

void Uplink::pass_on(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  const std::uint16_t refused = segment_.pass_on(packets, count, now_ns);
  counters_.rx_forward_refused.add(refused);
  counters_.rx_forwarded.add(static_cast<std::uint16_t>(count - refused));
}

/// What nobody is known to have, the engine of this process counts, as it counts what it refuses.
bool Uplink::is_own(const rte_mbuf* packet) const {
  const auto bth = stack::read_bth(packet);
  if (!bth) return true;
  const std::uint16_t own = segment_.membership().slot();
  return segment_.link().receiver_of(packet, *bth).value_or(own) == own;
}

void Uplink::let_go() noexcept {
  sender_->let_go();
  succession_->let_go();
  if (receiver_ != nullptr) receiver_->let_go();
  if (stack::UdpReceiver* made = prepared_.load(std::memory_order_relaxed)) made->let_go();
}

// The thread.

void Uplink::enter(void* self) { static_cast<Uplink*>(self)->wait(); }

void Uplink::wait() {
  int retry_ms = -1;
  for (;;) {
    epoll_event event{};
    const int count = ::epoll_wait(watched_.fd(), &event, 1, retry_ms);
    if (count < 0 && errno != EINTR) return;
    if (count > 0 && event.data.fd == end_->fd()) return;
    if (receives()) {
      tell();
    } else if (count >= 0) {
      retry_ms = take_over(retry_ms);
    }
  }
}

void Uplink::tell() {
  readable_.store(true, std::memory_order_release);
  segment_.link().wake();
}

int Uplink::take_over(int retry_ms) {
  const int next_ms = std::clamp(2 * retry_ms, kFirstRetryMs, kLastRetryMs);
  const auto taken = succession_->take();
  if (taken && !*taken) {
    // Another process was faster. It may not be there yet for succession_ to see: only the next
    // time, a moment later, is it waited for.
    if (retry_ms < 0) return next_ms;
    (void)watch(watched_, EPOLL_CTL_MOD, succession_->vacancy(), 0);
    return -1;
  }
  auto made = taken ? listen() : tl::make_unexpected(taken.error());
  if (!made || !watch(watched_, EPOLL_CTL_ADD, (*made)->ready(), EPOLLIN)) {
    if (next_ms == kLastRetryMs && retry_ms < kLastRetryMs) {
      rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "uplink: %s\n",
              made ? std::strerror(errno) : made.error().message.c_str());
    }
    return next_ms;
  }
  prepared_.store(made->release(), std::memory_order_relaxed);
  receives_.store(true, std::memory_order_relaxed);
  tell();
  return -1;
}

}  // namespace rockhopper
