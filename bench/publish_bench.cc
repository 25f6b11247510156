// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What a message costs its publisher's writer, and what it costs a subscriber once its bytes are
// there. Neither has an engine, and the first one knows no subscribers.
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "apps/common/page_memory.h"
#include "apps/services/publisher/conflated_store.h"
#include "apps/services/publisher/reader.h"
#include "apps/services/publisher/store.h"
#include "bench/support.h"

namespace rockhopper::bench {
namespace {

constexpr std::uint64_t kRing = std::uint64_t{16} << 20;
constexpr std::uint32_t kKeys = 1024;

/// A store in pages of its own.
class LogStore {
 public:
  LogStore()
      : memory_(must(apps::PageMemory::allocate(publisher::store_bytes(kRing)))),
        store_(must(publisher::Store::create(memory_.bytes(), {.id = 1, .epoch = 1}))) {}
  [[nodiscard]] publisher::Store& operator*() { return *store_; }
  [[nodiscard]] publisher::Store* operator->() { return store_.get(); }

 private:
  apps::PageMemory memory_;
  std::unique_ptr<publisher::Store> store_;
};

/// Arguments: bytes of a message, messages that are shown at once.
void log(benchmark::State& state) {
  LogStore store;
  const std::vector<std::byte> payload(static_cast<std::size_t>(state.range(0)));
  const std::int64_t batch = state.range(1);
  std::uint64_t time_ns = 0;
  for (auto _ : state) {
    for (std::int64_t i = 0; i < batch; ++i) {
      benchmark::DoNotOptimize(store->append(payload, 0, ++time_ns));
    }
    store->commit();
  }
  state.SetItemsProcessed(state.iterations() * batch);
  state.SetBytesProcessed(state.iterations() * batch * state.range(0));
}
BENCHMARK(log)
    ->Name("publish/log")
    ->ArgNames({"bytes", "batch"})
    ->Args({0, 1})
    ->Args({64, 1})
    ->Args({64, 64})
    ->Args({1024, 1})
    ->Args({65536, 1});

/// Argument: bytes of a message; the keys take turns.
void conflated(benchmark::State& state) {
  const publisher::ConflatedStore::Config config{
      .id = 1,
      .epoch = 1,
      .keys = kKeys,
      .message_max = static_cast<std::uint32_t>(state.range(0))};
  auto memory = must(apps::PageMemory::allocate(publisher::ConflatedStore::bytes_for(config)));
  auto store = must(publisher::ConflatedStore::create(memory.bytes(), config));
  const std::vector<std::byte> payload(static_cast<std::size_t>(state.range(0)));
  std::uint64_t n = 0;
  for (auto _ : state) {
    ++n;
    benchmark::DoNotOptimize(store->publish(n % kKeys, payload, 0, n));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(conflated)->Name("publish/conflated")->ArgName("bytes")->Arg(64)->Arg(1024);

class Count final : public publisher::Listener {
 public:
  void on_message(const publisher::Message& message) override {
    ++messages;
    benchmark::DoNotOptimize(message.payload.data());
  }
  void on_lost(std::uint64_t, std::uint64_t) override { ++losses; }
  std::uint64_t messages = 0;
  std::uint64_t losses = 0;
};

/// A reader that finds all messages valid; what READs do is left out of the time. Argument: bytes
/// of a message.
void read_store(benchmark::State& state) {
  LogStore store;
  const std::vector<std::byte> payload(static_cast<std::size_t>(state.range(0)));
  Count count;
  const publisher::StoreInfo info{.id = 1,
                                  .name = "feed",
                                  .epoch = 1,
                                  .ring_bytes = kRing,
                                  .message_max = store->message_max()};
  const publisher::ReaderConfig config{.start = {.at = publisher::Start::At::oldest},
                                       .poll_max_ns = 0};
  publisher::Reader reader(config, count);
  std::vector<std::byte> buffer(publisher::Reader::buffer_bytes(info, config));
  reader.set_buffer(buffer);
  must(reader.open(info, 0));
  const std::uint64_t batch = config.batch_bytes / publisher::Record::size_of(payload.size());
  std::uint64_t now_ns = 0;
  const auto read = [&] {
    for (const publisher::ReadRequest& request : reader.next_round(++now_ns)) {
      std::memcpy(request.to.data(), store->memory().data() + request.offset, request.to.size());
    }
  };
  for (auto _ : state) {
    state.PauseTiming();
    for (std::uint64_t i = 0; i < batch; ++i) {
      (void)store->append(payload, 0, now_ns);
    }
    store->commit();
    // The round that only finds out that there is something.
    read();
    reader.on_round(now_ns);
    read();
    state.ResumeTiming();
    reader.on_round(now_ns);
  }
  if (count.losses > 0) state.SkipWithError("a message was lost");
  state.SetItemsProcessed(static_cast<std::int64_t>(count.messages));
}
BENCHMARK(read_store)->Name("read_store/log")->ArgName("bytes")->Arg(0)->Arg(64)->Arg(1024);

}  // namespace
}  // namespace rockhopper::bench
