// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Several engines, and a thread of the process, that serve the same locks (LK-10, LK-26, LK-27).
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "roce/lock/local_lock.h"
#include "tests/unit/roce/lock_rig.h"

namespace rockhopper::test {
namespace {

using wire::Lketh;
using wire::LockStatus;
using wire::Opcode;

constexpr std::size_t kWord = 0;
constexpr std::size_t kCounter = 512;  ///< cell, which only the holder of the word touches
constexpr std::uint32_t kConnections = 4;

/// One engine of several, and the peers of its connections: each takes the word by itself, reads
/// the counter, writes one more, and gives the word back.
class Shard {
 public:
  explicit Shard(LockMemory& memory)
      : memory_(memory),
        rig_(LockRig::with_locks()),
        mr_(rig_.engine()
                .register_memory(rig_.pd(), memory.cells.data(),
                                 memory.cells.size() * sizeof memory.cells[0], roce::kAccessAll)
                .value()) {
    rig_.engine().attach_locks(memory.region);
    for (std::uint32_t i = 0; i < kConnections; ++i) {
      ConnectionOptions options = LockRig::with_locks();
      options.rq_psn = first_psn(i);
      roce::QueuePair& qp = rig_.make_qp(options);
      rig_.bring_up(qp, options);
      peers_.push_back({&qp, first_psn(i)});
    }
  }

  /// One turn of the engine and of its peers, who begin nothing new when `goes_on` is false. False:
  /// nobody has anything under way.
  bool turn(bool goes_on) {
    rig_.advance(2'000);
    for (const Packet& packet : rig_.sent()) {
      on_answer(peers_[(packet.psn() >> kPsnBits) - 1], packet);
    }
    bool busy = false;
    for (Peer& peer : peers_) {
      if (!peer.busy && goes_on) {
        peer.busy = true;
        Packet acquire = packet(Opcode::lock_request, 0);
        acquire.headers.lketh = lketh(Lketh::kAcquireExclusive);
        send(peer, acquire);
      }
      busy = busy || peer.busy;
    }
    return busy;
  }
  [[nodiscard]] std::uint64_t done() const { return done_; }

 private:
  static constexpr unsigned kPsnBits = 20;
  struct Peer {
    roce::QueuePair* qp;
    std::uint32_t psn;  ///< next
    bool busy = false;
  };

  [[nodiscard]] static std::uint32_t first_psn(std::uint32_t peer) {
    return (peer + 1) << kPsnBits;
  }
  [[nodiscard]] std::uint64_t address(std::size_t cell) const {
    return reinterpret_cast<std::uintptr_t>(&memory_.cells[cell]);
  }
  [[nodiscard]] wire::Reth reth() const {
    return {.va = address(kCounter), .rkey = static_cast<std::uint32_t>(mr_.key), .length = 8};
  }
  [[nodiscard]] Lketh lketh(std::uint8_t subtype) const {
    return {.subtype = subtype,
            .flags = Lketh::kFifo,
            .scope_id = 7,
            .rkey = static_cast<std::uint32_t>(mr_.key),
            .va = address(kWord),
            .max_tries = Lketh::kTriesUnlimited,
            .wait_us = Lketh::kWaitUnlimited,
            .owner = 5,
            .lease_us = 10'000'000};
  }
  void send(Peer& peer, Packet request) {
    request.headers.bth.psn = wire::Psn{peer.psn++};
    request.headers.bth.destination = peer.qp->number();
    rig_.inject(request);
  }
  void on_answer(Peer& peer, const Packet& answer) {
    if (answer.opcode() == Opcode::rc_rdma_read_response_only) {
      std::uint64_t value = 0;
      std::memcpy(&value, answer.payload.data(), sizeof value);
      ++value;
      Payload bytes(sizeof value);
      std::memcpy(bytes.data(), &value, sizeof value);
      send(peer, write_packet(Opcode::rc_rdma_write_only, 0, reth(), bytes));
      Packet release = packet(Opcode::lock_request, 0);
      release.headers.lketh = lketh(Lketh::kRelease);
      send(peer, release);
    } else if (answer.opcode() == Opcode::lock_response) {
      switch (answer.headers.lkaeth.status) {
        case LockStatus::granted:
          send(peer, read_request(0, reth()));
          break;
        case LockStatus::released:
          peer.busy = false;
          ++done_;
          break;
        case LockStatus::waiting:
          break;
        default:
          ADD_FAILURE() << "status " << static_cast<int>(answer.headers.lkaeth.status);
      }
    }
  }

  LockMemory& memory_;
  Rig rig_;
  roce::MemoryRegion mr_;
  std::vector<Peer> peers_;
  std::uint64_t done_ = 0;
};

/// Each engine on a thread of its own, and a thread of the process besides: no addition is lost.
TEST(LockShards, EnginesAndThreadsExcludeEachOther) {
  constexpr std::uint64_t kEach = 2'000;
  LockMemory memory({.first_token = 1, .max_lease_us = 10'000'000});
  std::array<std::unique_ptr<Shard>, 2> shards;
  for (auto& shard : shards) {
    shard = std::make_unique<Shard>(memory);
  }
  std::atomic<std::uint64_t> additions{0};
  const auto serve = [&](Shard& shard) {
    while (shard.turn(shard.done() < kEach)) {
    }
    additions += shard.done();
  };
  const auto take_locally = [&] {
    for (std::uint64_t i = 0; i < kEach; ++i) {
      roce::lock::LocalLock lock(memory.region, &memory.cells[kWord], 9);
      while (!lock.try_lock()) {
        std::this_thread::yield();
      }
      ++memory.cells[kCounter];
      lock.unlock();
      ++additions;
    }
  };
  std::vector<std::thread> threads;
  for (auto& shard : shards) {
    threads.emplace_back(serve, std::ref(*shard));
  }
  threads.emplace_back(take_locally);
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& shard : shards) {
    EXPECT_GE(shard->done(), kEach);
  }
  EXPECT_EQ(memory.cells[kCounter], additions);
  EXPECT_TRUE(roce::lock::LockWord::from(memory.cells[kWord]).is_free());
  EXPECT_EQ(memory.region.statistics().grants, additions);
  EXPECT_EQ(memory.region.statistics().lease_expiries, 0u);
}

/// Neither of two engines, each with more who wait than it can serve at a time, leaves nothing to
/// the other.
TEST(LockShards, BothEnginesGetTheirShare) {
  LockMemory memory({.first_token = 1, .max_lease_us = 10'000'000});
  std::array<std::unique_ptr<Shard>, 2> shards;
  for (auto& shard : shards) {
    shard = std::make_unique<Shard>(memory);
  }
  for (int turn = 0; turn < 20'000; ++turn) {
    for (const auto& shard : shards) {
      ASSERT_TRUE(shard->turn(true));
    }
  }
  const std::uint64_t all = shards[0]->done() + shards[1]->done();
  EXPECT_EQ(memory.region.statistics().lease_expiries, 0u);
  for (const auto& shard : shards) {
    EXPECT_GE(shard->done(), all / 10) << "of " << all;
  }
  for (bool busy = true; busy;) {
    busy = false;
    for (const auto& shard : shards) {
      busy = shard->turn(false) || busy;
    }
  }
  EXPECT_EQ(memory.cells[kCounter], shards[0]->done() + shards[1]->done());
}

}  // namespace
}  // namespace rockhopper::test
