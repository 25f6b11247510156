// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rte_ether.h>
#include <rte_mempool.h>

#include "apps/node/background_thread.h"
#include "apps/node/segment_end.h"
#include "stack/counter.h"
#include "stack/descriptor.h"
#include "stack/error.h"
#include "stack/event_fd.h"
#include "stack/host_config.h"
#include "stack/identification.h"
#include "stack/ip_address.h"
#include "stack/link.h"
#include "stack/succession.h"
#include "stack/udp_receiver.h"
#include "stack/udp_sender.h"

namespace rockhopper {

struct UplinkConfig {
  SegmentEnd* segment = nullptr;              ///< not owned
  std::vector<stack::IpAddress> addresses{};  ///< of the segment, and of the kernel's
  rte_mempool* pool = nullptr;                ///< for what arrives; not owned
  std::uint16_t mtu = 1500;                   ///< largest IP packet in bytes
  std::uint64_t seed = 1;                     ///< of the source port
  const stack::IdentificationRules* identification = nullptr;  ///< null: it is 0
};

#define ROCKHOPPER_UPLINK_COUNTERS(X)                                               \
  X(rx_forwarded, "frames from other hosts, passed on to their processes")          \
  X(rx_forward_refused, "frames dropped: their process takes none out of its lane") \
  X(takeovers, "times that this process began to receive for all")

struct UplinkCounters {
  ROCKHOPPER_COUNTERS(ROCKHOPPER_UPLINK_COUNTERS)
};

/// A segment with a way to other hosts, through UDP sockets of the kernel. Each process sends by
/// itself. One of them receives, for all: it passes on what is for the queue pairs of others. When
/// it ends, however it ended, another one takes over; what waited in its sockets is lost.
///
/// It looks into its sockets while datagrams come or go, and for kQuietNs after them, the more
/// rarely the longer that is ago. Then a thread, "rh-uplink", waits for the next one, and wakes
/// whoever sleeps on the segment. The same thread waits for its turn to receive. One thread, but
/// for that one.
class Uplink final : public stack::Link {
 public:
  /// Longer than round trips of hosts that are slow or busy, for which the thread is slow too.
  static constexpr std::uint64_t kQuietNs = 20'000'000;
  /// The next look is after this part of the time that nothing has moved.
  static constexpr std::uint64_t kLooks = 16;

  /// Errors: those of stack::UdpSender; where no other process of the segment receives, also those
  /// of stack::UdpReceiver; `exhausted`, `io`.
  [[nodiscard]] static Expected<std::unique_ptr<Uplink>> open(const UplinkConfig& config);
  ~Uplink() override;

  /// What the host above it has to know.
  [[nodiscard]] stack::KernelSocket socket_end() const { return sender_->socket_end(); }

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override {
    return segment_.link().next_deadline_ns();
  }
  [[nodiscard]] rte_ether_addr mac() const override { return segment_.link().mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return config_.mtu; }

  /// Behind SegmentLink::arm(): a datagram ends the sleep too. Returns false if one waits already.
  [[nodiscard]] bool arm();
  /// In a child of fork(). Nothing else may be called then. Neither locks nor allocates.
  void let_go() noexcept;

  [[nodiscard]] const UplinkCounters& counters() const { return counters_; }
  /// Packets that were to leave for other hosts and were dropped. Any thread.
  [[nodiscard]] std::uint64_t discards() const {
    const stack::UdpSenderCounters& sent = sender_->counters();
    return sent.tx_refused.value() + sent.tx_too_long.value() + sent.tx_not_own.value();
  }
  /// This process receives for all. Any thread.
  [[nodiscard]] bool receives() const { return receives_.load(std::memory_order_relaxed); }

 private:
  explicit Uplink(const UplinkConfig& config);
  [[nodiscard]] Expected<void> begin();
  [[nodiscard]] Expected<std::unique_ptr<stack::UdpReceiver>> listen() const;
  /// Whether it is to look into the sockets in this burst.
  [[nodiscard]] bool looks(std::uint64_t now_ns);
  /// Keeps what is for this process, passes the rest on, and returns how many are kept.
  [[nodiscard]] std::uint16_t sort(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns);
  [[nodiscard]] bool is_own(const rte_mbuf* packet) const;
  void pass_on(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns);

  // In the thread.
  static void enter(void* self);
  void wait();
  /// Takes the role and the sockets, if nobody else has. Returns after how many ms it is to try
  /// again, or -1.
  [[nodiscard]] int take_over(int retry_ms);
  void tell();

  const UplinkConfig config_;
  SegmentEnd& segment_;
  std::unique_ptr<stack::UdpSender> sender_;
  std::unique_ptr<stack::Succession> succession_;
  std::unique_ptr<stack::EventFd> end_;
  stack::Descriptor watched_;  ///< the epoll of the thread
  std::unique_ptr<stack::UdpReceiver> receiver_;
  /// One that the thread has made, for the other one to take; owned.
  std::atomic<stack::UdpReceiver*> prepared_{nullptr};
  std::atomic<bool> receives_{false};
  std::atomic<bool> readable_{false};  ///< says the thread: a datagram waits
  bool looks_ = false;
  std::uint64_t moved_ns_ = 0;  ///< when a datagram last came or went
  std::uint64_t look_ns_ = 0;   ///< when to look next
  UplinkCounters counters_;
  BackgroundThread thread_;
};

}  // namespace rockhopper
