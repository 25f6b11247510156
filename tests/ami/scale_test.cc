// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Many instructions with a random share of callbacks, through the whole library, while a tap looks
// at the memory of the FIFO and the mask (AM-1 to AM-9, AM-11, AM-12, AM-20, AM-24).
//
// ROCKHOPPER_AMI_INSTRUCTIONS is their number; small FIFOs take a tenth of it.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/context.h"
#include "tests/sim/rng.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::ami {
namespace {

using sim::must;

constexpr std::size_t kPlaces = 4096;

/// What is in which slot, by what is written to memory.
class Tap final : public FifoTap {
 public:
  explicit Tap(std::uint32_t slots) : waits_(slots), uses_(slots) {}

  struct Injected {
    std::size_t slot;
    Descriptor::Type type;
    std::uint64_t value;
  };
  /// Since forget().
  [[nodiscard]] const std::vector<Injected>& injected() const { return injected_; }
  void forget() { injected_.clear(); }

  void on_injected(const void* slot, const Descriptor& descriptor) override {
    // An empty FIFO begins with its first slot.
    if (first_ == nullptr) first_ = static_cast<const std::byte*>(slot);
    const std::size_t index = index_of(slot);
    if (index >= waits_.size() || waits_[index]) {
      ++wrong_;  // elsewhere, or over one that the adapter has not taken
      return;
    }
    waits_[index] = true;
    ++uses_[index];
    injected_.push_back({index, descriptor.type, descriptor.value});
  }
  void on_taken(const void* slot) override {
    const std::size_t index = index_of(slot);
    if (index >= waits_.size()) {
      ++wrong_;
      return;
    }
    if (!waits_[index]) return;  // it looks at the same one again
    waits_[index] = false;
    // AM-5: every one, in order.
    if (index != taken_++ % waits_.size()) ++wrong_;
  }
  void on_bit(const std::atomic<std::uint64_t>& word) override { words_.insert(&word); }

  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  [[nodiscard]] const std::vector<std::uint64_t>& uses() const { return uses_; }
  [[nodiscard]] const std::set<const std::atomic<std::uint64_t>*>& words() const { return words_; }

 private:
  [[nodiscard]] std::size_t index_of(const void* slot) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(slot) - first_) /
           sizeof(Descriptor);
  }

  const std::byte* first_ = nullptr;
  std::vector<bool> waits_;  ///< by slot: what is there has not been taken
  std::vector<std::uint64_t> uses_;
  std::vector<Injected> injected_;
  std::set<const std::atomic<std::uint64_t>*> words_;  ///< of the mask, all levels
  std::uint64_t taken_ = 0;
  std::uint64_t wrong_ = 0;
};

struct Case {
  CompletionMode mode;
  std::uint32_t slots;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return std::string(info.param.mode == CompletionMode::mask ? "Mask" : "Counter") +
         std::to_string(info.param.slots);
}

class Scale : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    seed_ = sim::number_or("ROCKHOPPER_SEED", std::random_device{}());
    std::printf("ROCKHOPPER_SEED=%llu\n", static_cast<unsigned long long>(seed_));
    network_ = std::make_unique<sim::SimNetwork>(
        sim::NetworkConfig{.seed = seed_, .pools = &sim::pools()});
    std::array<roce::QueuePair*, 2> qps{};
    for (unsigned i = 0; i < 2; ++i) {
      adapters_[i] = must(Adapter::create(network_->node(i).engine(), nullptr, {}));
      LaneConfig config;
      config.self = static_cast<EndpointId>(i);
      config.fifo.completion = GetParam().mode;
      config.fifo.slots = GetParam().slots;
      lanes_[i] = must(adapters_[i]->add_lane(config));
      qps[i] = must(network_->node(i).engine().create_qp(adapters_[i]->qp_init(*lanes_[i])));
    }
    key_ = must(network_->node(1).engine().register_memory(adapters_[1]->pd(), there_.data(),
                                                           there_.size() * sizeof(std::uint64_t),
                                                           roce::kAccessAll))
               .key;
    roce::QpAttributes attributes;
    attributes.path_mtu = roce::PathMtu::mtu_1024;
    attributes.min_rnr_timer = 1;
    attributes.timeout = 14;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    network_->connect(qps, attributes);
    for (unsigned i = 0; i < 2; ++i) {
      must(adapters_[i]->add_peer(*lanes_[i], static_cast<EndpointId>(1 - i), *qps[i]));
      must(adapters_[i]->open(*lanes_[i]));
    }
    context_ = std::make_unique<Context>(*lanes_[0], 0);
    tap_ = std::make_unique<Tap>(GetParam().slots);
    fifo_tap = tap_.get();
  }
  void TearDown() override { fifo_tap = nullptr; }

  static void on_end(void* context, std::uint64_t number, Status status) {
    Scale& self = *static_cast<Scale*>(context);
    const std::size_t place = number % kPlaces;
    ++self.calls_;
    // AM-8, AM-22: once, and with the data there for who looks at the peer's memory.
    if (status != Status::ok || self.outstanding_[place] != number ||
        self.there_[place] != number) {
      ++self.wrong_;
    }
    self.outstanding_[place] = 0;
  }

  /// False: no room. Looks at what has been written into the FIFO for it.
  bool inject(std::uint64_t number, bool callback) {
    const std::uint64_t word = number;
    const std::size_t place = callback ? number % kPlaces : 0;
    tap_->forget();
    const ami::Injected done = context_->put(
        std::as_bytes(std::span(&word, 1)),
        {.endpoint = 1, .addr = reinterpret_cast<std::uintptr_t>(&there_[place]), .rkey = key_},
        {.callback = {
             .function = callback ? &on_end : nullptr, .context = this, .cookie = number}});
    const std::vector<Tap::Injected>& seen = tap_->injected();
    if (done == ami::Injected::again) {
      if (!seen.empty()) ++wrong_;
      return false;
    }
    const bool paired = callback && GetParam().mode == CompletionMode::mask;
    const std::size_t slots = GetParam().slots;
    bool right = seen.size() == (paired ? 2u : 1u) && seen[0].slot == next_slot_ &&
                 seen[0].type == Descriptor::Type::transfer;
    if (right && paired) {
      const std::size_t slot = (seen[0].slot + 1) % slots;
      right = seen[1].slot == slot && seen[1].type == Descriptor::Type::completion &&
              seen[1].value == std::uint64_t{1} << slot % 64;
    }
    if (!right) ++wrong_;
    next_slot_ = (next_slot_ + seen.size()) % slots;
    descriptors_ += seen.size();
    completions_ += paired ? 1 : 0;
    if (callback) outstanding_[place] = number;
    return true;
  }

  bool turn() {
    bool moved = network_->poll();
    for (const auto& adapter : adapters_) {
      moved = adapter->progress(network_->now_ns()) || moved;
    }
    return context_->advance() > 0 || moved;
  }

  std::uint64_t seed_ = 0;
  std::vector<std::uint64_t> there_ = std::vector<std::uint64_t>(kPlaces);
  std::unique_ptr<sim::SimNetwork> network_;
  std::array<std::unique_ptr<Adapter>, 2> adapters_;
  std::array<Lane*, 2> lanes_{};
  roce::MemoryKey key_{};
  std::unique_ptr<Context> context_;
  std::unique_ptr<Tap> tap_;
  std::vector<std::uint64_t> outstanding_ = std::vector<std::uint64_t>(kPlaces);
  std::size_t next_slot_ = 0;
  std::uint64_t descriptors_ = 0;
  std::uint64_t completions_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t wrong_ = 0;
};

TEST_P(Scale, EveryDescriptorIsInItsSlotAndEveryCallbackIsCalledOnce) {
  const std::uint64_t all = sim::number_or("ROCKHOPPER_AMI_INSTRUCTIONS", 500'000);
  const std::uint64_t count = GetParam().slots < 64 ? all / 10 : all;
  const auto began = std::chrono::steady_clock::now();
  sim::Rng rng(seed_);
  std::uint64_t injected = 0;
  std::uint64_t with_callback = 0;
  std::uint64_t number = 1;
  unsigned percent = 50;
  bool wants = rng.chance(percent);
  while (injected < count || context_->pending() > 0 || !adapters_[0]->idle() ||
         tap_->taken() < descriptors_) {
    for (unsigned burst = 0; burst < 64 && injected < count; ++burst) {
      if (outstanding_[number % kPlaces] != 0 || !inject(number, wants)) break;
      with_callback += wants ? 1 : 0;
      if (++number % kPlaces == 0) ++number;  // place 0 is that of whose end nobody tells
      if (++injected % 10'000 == 0) percent = rng.between32(0, 100);
      wants = rng.chance(percent);
    }
    if (!turn()) {
      const std::uint64_t limit_ns = network_->now_ns() + 10'000;
      if (!network_->advance(limit_ns)) network_->advance_to(limit_ns);
    }
    ASSERT_EQ(wrong_ + tap_->wrong(), 0u) << "instruction " << injected;
  }
  EXPECT_EQ(calls_, with_callback);
  EXPECT_GT(with_callback, 0u);
  EXPECT_LT(with_callback, injected);
  // AM-9: what has no callback costs a transfer descriptor and nothing else.
  EXPECT_EQ(descriptors_, injected + completions_);
  EXPECT_EQ(completions_, GetParam().mode == CompletionMode::mask ? with_callback : 0);
  EXPECT_EQ(tap_->taken(), descriptors_);
  EXPECT_EQ(adapters_[0]->counters().descriptors.value(), descriptors_);
  EXPECT_EQ(adapters_[0]->counters().completion_descriptors.value(), completions_);
  // AM-11: nothing is left.
  EXPECT_EQ(context_->pending(), 0u);
  EXPECT_EQ(lanes_[0]->fifo.front(), nullptr);
  EXPECT_EQ(tap_->words().empty(), GetParam().mode == CompletionMode::counter);
  for (const std::atomic<std::uint64_t>* word : tap_->words()) {
    EXPECT_EQ(word->load(), 0u);
  }
  std::uint64_t least = UINT64_MAX;
  for (const std::uint64_t uses : tap_->uses()) {
    least = std::min(least, uses);
  }
  EXPECT_GE(least, descriptors_ / GetParam().slots) << "slots are used in turn";
  if (count >= 100'000'000) {
    EXPECT_GT(least, 100'000u);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%llu instructions, %llu with a callback, in %.1f s; each slot used %llu times\n",
              static_cast<unsigned long long>(injected),
              static_cast<unsigned long long>(with_callback), seconds,
              static_cast<unsigned long long>(least));
}

INSTANTIATE_TEST_SUITE_P(
    Fifos, Scale,
    ::testing::Values(Case{CompletionMode::mask, 256}, Case{CompletionMode::counter, 256},
                      Case{CompletionMode::mask, 4}, Case{CompletionMode::mask, 8},
                      Case{CompletionMode::counter, 4}, Case{CompletionMode::mask, 2}),
    name_of);

}  // namespace
}  // namespace rockhopper::ami
