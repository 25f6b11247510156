// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

/// The runner of tests/conformance as a member of a segment, beside the one process that is its
/// device. Standard input is a socket of packets, each a letter and what belongs to it:
///
///   from the runner   F FRAME   put the frame into the lanes of all others
///                     N NUMBER  the device is to find this process by the low 16 bits (big endian)
///                     S         say so when the device has taken out all that was put
///   to the runner     M MAC     the address that all members have; the first
///                     F FRAME   one that the device has sent
///                     N OK      1, or 0: somebody has the number
///                     S         see there
///
///   conformance-segment DIRECTORY < SOCKET
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rte_ether.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "roce/packet_builder.h"
#include "stack/plain_pool.h"
#include "stack/segment/lane.h"
#include "stack/segment/membership.h"
#include "stack/segment/segment_link.h"

namespace {

using namespace rockhopper;
using stack::segment::kSlotsMax;

constexpr std::uint16_t kMtu = 4300;
constexpr std::size_t kLongest = kMtu + stack::kFrameOverhead + 64;  // scripts send some too long
constexpr std::uint64_t kPatienceNs = 2'000'000'000;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "conformance-segment: %s\n", what.c_str());
  std::exit(1);
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

template <typename T>
T need(Expected<T> result) {
  if (!result) give_up(result.error().message);
  return std::move(*result);
}

void say(char letter, std::span<const std::uint8_t> rest) {
  std::vector<std::uint8_t> packet{static_cast<std::uint8_t>(letter)};
  packet.insert(packet.end(), rest.begin(), rest.end());
  if (::send(STDIN_FILENO, packet.data(), packet.size(), MSG_NOSIGNAL) < 0) std::exit(0);
}

/// The lanes to all others, whoever has the queue pair that a frame is for.
class Lanes {
 public:
  explicit Lanes(stack::segment::Membership& membership) : membership_(membership) {}

  void send(const rte_mbuf& frame) {
    for (std::uint16_t slot = 0; slot < kSlotsMax; ++slot) {
      if (Way* way = way_to(slot)) {
        const std::uint64_t deadline_ns = now_ns() + kPatienceNs;
        while (!way->writer->put(frame) && now_ns() < deadline_ns) {
          sched_yield();
        }
        (void)way->writer->publish();
        std::atomic_thread_fence(std::memory_order_seq_cst);
        (void)membership_.wake(slot);
      }
    }
  }
  /// Returns when the others have taken out all, or have not for long.
  void wait_until_taken() {
    const std::uint64_t deadline_ns = now_ns() + kPatienceNs;
    for (const auto& [slot, way] : ways_) {
      const auto& lane = way.mapping.at<stack::segment::Lane>(0);
      while (way.writer->taken() != lane.put.load() && now_ns() < deadline_ns) {
        sched_yield();
      }
    }
  }

 private:
  struct Way {
    std::uint32_t generation = 0;
    stack::segment::Mapping mapping;
    std::unique_ptr<stack::segment::LaneWriter> writer;
  };

  Way* way_to(std::uint16_t slot) {
    const std::uint32_t generation = membership_.slot(slot).generation.load();
    if (generation % 2 == 0 || slot == membership_.slot()) return nullptr;
    Way& way = ways_[slot];
    if (way.generation == generation) return &way;
    auto lane = membership_.open_lane_to(slot, generation);
    if (!lane) {
      ways_.erase(slot);
      return nullptr;
    }
    way.generation = generation;
    way.mapping = std::move(*lane);
    way.writer =
        std::make_unique<stack::segment::LaneWriter>(way.mapping.at<stack::segment::Lane>(0));
    return &way;
  }

  stack::segment::Membership& membership_;
  std::map<std::uint16_t, Way> ways_;
};

/// What the runner says, until it is gone.
void serve(stack::segment::Membership& membership, rte_mempool* pool) {
  Lanes lanes(membership);
  std::optional<std::uint16_t> number;
  std::array<std::uint8_t, kLongest + 1> packet;
  ssize_t length = 0;
  while ((length = ::recv(STDIN_FILENO, packet.data(), packet.size(), 0)) > 0) {
    const std::span rest(packet.data() + 1, static_cast<std::size_t>(length) - 1);
    if (packet[0] == 'F') {
      rte_mbuf* frame = rte_pktmbuf_alloc(pool);
      if (frame == nullptr) give_up("no mbuf");
      char* to = rte_pktmbuf_append(frame, static_cast<std::uint16_t>(rest.size()));
      if (to == nullptr) give_up("a frame is too long");
      std::copy(rest.begin(), rest.end(), to);
      lanes.send(*frame);
      rte_pktmbuf_free(frame);
    } else if (packet[0] == 'N' && rest.size() == 2) {
      if (number) membership.release(*number);
      number = static_cast<std::uint16_t>(rest[0] << 8 | rest[1]);
      const bool mine = membership.claim(*number);
      if (!mine) number.reset();
      say('N', std::array{static_cast<std::uint8_t>(mine)});
    } else {
      lanes.wait_until_taken();
      say('S', {});
    }
  }
}

void forward(rte_mbuf& frame) {
  std::array<std::uint8_t, kLongest> copy;
  const std::uint32_t length = std::min<std::uint32_t>(frame.pkt_len, kLongest);
  const auto* bytes =
      static_cast<const std::uint8_t*>(rte_pktmbuf_read(&frame, 0, length, copy.data()));
  say('F', {bytes, length});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) give_up("conformance-segment DIRECTORY < SOCKET");
  const auto membership = need(stack::segment::Membership::join(argv[1]));
  const auto received = need(stack::PlainPool::create({.size = 1024, .data_room = kLongest + 256}));
  const auto sent = need(stack::PlainPool::create({.size = 1, .data_room = kLongest + 256}));
  stack::segment::SegmentLink link({.membership = membership.get(),
                                    .pool = received->get(),
                                    .mtu = kMtu,
                                    .add_icrc = &roce::add_icrc});
  say('M', membership->mac().addr_bytes);
  std::atomic<bool> ended = false;
  std::thread runner([&] {
    serve(*membership, sent->get());
    ended = true;
    link.wake();
  });
  while (!ended) {
    std::array<rte_mbuf*, 32> frames;
    const std::uint16_t count =
        link.rx_burst(frames.data(), static_cast<std::uint16_t>(frames.size()), now_ns());
    for (rte_mbuf* frame : std::span(frames).first(count)) {
      forward(*frame);
      rte_pktmbuf_free(frame);
    }
    if (count > 0) continue;
    if (const auto armed = link.arm(); armed && !ended) link.sleep(*armed, stack::kNever);
  }
  runner.join();
  return 0;
}
