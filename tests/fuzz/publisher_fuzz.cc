// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What publishers and subscribers take from each other. The first byte of an input says what the
// rest is: a message; the body of one; changes to a store's memory between the READs of a reader;
// changes to one that is then recovered.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "apps/services/publisher/conflated_reader.h"
#include "apps/services/publisher/conflated_store.h"
#include "apps/services/publisher/message.h"
#include "apps/services/publisher/reader.h"
#include "apps/services/publisher/store.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input.h"

namespace rockhopper::fuzz {
namespace {

using namespace publisher;

enum Mode : std::uint8_t { kMessage, kBody, kLog, kConflated, kRecovery, kModes };

constexpr std::uint64_t kRing = 4096;
constexpr ConflatedStore::Config kConflatedConfig{.epoch = 1, .keys = 8, .message_max = 80};

/// A message that is taken is sent as it came.
void check_message(std::span<const std::byte> bytes) {
  const auto message = parse_control(bytes);
  if (!message) return;
  std::array<std::byte, kControlMessageMax> emitted;
  const std::size_t length = emit_control(*message, emitted);
  check(length == bytes.size() && std::memcmp(emitted.data(), bytes.data(), length) == 0);
}

void check_body(Input& input) {
  std::vector<std::byte> bytes{std::byte{0x50}, std::byte{0x53}, std::byte{1},
                               static_cast<std::byte>(1 + input.u8() % 11)};
  while (!input.empty()) {
    bytes.push_back(static_cast<std::byte>(input.u8()));
  }
  check_message(bytes);
}

struct alignas(64) Line {
  std::byte bytes[64];
};

/// A store's memory, and what the input does to it.
class Memory {
 public:
  explicit Memory(std::uint64_t bytes) : lines_(bytes / 64), size_(bytes) {}
  [[nodiscard]] std::span<std::byte> bytes() { return {lines_[0].bytes, size_}; }
  void change(Input& input) {
    const std::size_t at = input.u16() % (input.u8() % 2 == 0 ? sizeof(ControlBlock) : size_ - 7);
    const std::uint8_t kind = input.u8();
    std::uint64_t value = 0;
    std::memcpy(&value, bytes().data() + at, sizeof value);
    value = kind % 3 == 0 ? input.u64() : value + (kind % 3 == 1 ? kind : -kind) * 32;
    std::memcpy(bytes().data() + at, &value, sizeof value);
  }

 private:
  std::vector<Line> lines_;
  std::uint64_t size_;
};

/// Messages with content that says which they are.
class Judge final : public Listener {
 public:
  void on_message(const Message& message) override {
    for (const std::byte byte : message.payload) {
      check(byte == static_cast<std::byte>(message.sequence));
    }
  }
  void on_lost(std::uint64_t first, std::uint64_t last) override { check(first <= last); }
};

std::vector<std::byte> content(std::uint64_t sequence) {
  return std::vector<std::byte>(sequence % 71, static_cast<std::byte>(sequence));
}

/// `publish` writes a message more.
template <typename Publish>
void check_reader(Input& input, Memory& memory, StoreReader& reader, const Publish& publish) {
  for (std::uint64_t now_ns = 1; !input.empty(); now_ns += 1'000'000) {
    for (const ReadRequest& request : reader.next_round(now_ns)) {
      check(request.offset <= memory.bytes().size() &&
            request.to.size() <= memory.bytes().size() - request.offset);
      std::memcpy(request.to.data(), memory.bytes().data() + request.offset, request.to.size());
      switch (input.u8() % 3) {
        case 0:
          memory.change(input);
          break;
        case 1:
          publish();
          break;
        default:
          break;
      }
    }
    reader.on_round(now_ns);
    if (const auto known = reader.next_watch()) {
      reader.on_watch();
      const bool said = input.u8() % 2 == 0;
      check(reader.on_tail(said ? StoreTail{known->epoch, known->position + input.u64()} : *known,
                           now_ns));
      publish();
    }
  }
}

void check_log(Input& input) {
  Memory memory(store_bytes(kRing));
  auto store = *Store::create(memory.bytes(), {.epoch = 1});
  const auto publish = [&] { (void)store->publish(content(store->next_sequence()), 0, 0); };
  for (unsigned count = input.u8(); count > 0; --count) {
    publish();
  }
  const StoreInfo info{.name = "a", .ring_bytes = kRing, .message_max = store->message_max()};
  const std::uint8_t start = input.u8();
  const ReaderConfig config{.start = {.at = static_cast<Start::At>(start % 4)},
                            .watch = start >= 128};
  Judge judge;
  Reader reader(config, judge);
  std::vector<std::byte> buffer(Reader::buffer_bytes(info, config));
  reader.set_buffer(buffer);
  check(reader.open(info, 0).has_value());
  check_reader(input, memory, reader, publish);
}

void check_conflated(Input& input) {
  Memory memory(ConflatedStore::bytes_for(kConflatedConfig));
  auto store = *ConflatedStore::create(memory.bytes(), kConflatedConfig);
  const auto publish = [&] {
    (void)store->publish(input.u8() % 9, content(store->next_sequence()), 0, 0);
  };
  for (unsigned count = input.u8() % 16; count > 0; --count) {
    publish();
  }
  const StoreInfo info{.layout = layout_of(StoreKind::conflated),
                       .name = "a",
                       .ring_bytes = memory.bytes().size() - sizeof(ControlBlock),
                       .message_max = kConflatedConfig.message_max};
  const std::uint8_t start = input.u8();
  const ReaderConfig config{.start = {.at = static_cast<Start::At>(start % 4)},
                            .batch_bytes = 256,
                            .watch = start >= 128};
  Judge judge;
  ConflatedReader reader(config, judge);
  std::vector<std::byte> buffer(ConflatedReader::buffer_bytes(info, config));
  reader.set_buffer(buffer);
  check(reader.open(info, 0).has_value());
  check_reader(input, memory, reader, publish);
}

void check_recovery(Input& input) {
  Memory memory(store_bytes(kRing));
  {
    auto store = *Store::create(memory.bytes(), {.epoch = 1});
    for (unsigned count = input.u8(); count > 0; --count) {
      (void)store->publish(content(store->next_sequence()), 0, 0);
    }
  }
  while (!input.empty()) {
    memory.change(input);
  }
  auto recovered = Store::recover(memory.bytes(), {.epoch = 2});
  if (!recovered) return;
  check(recovered->messages <= kRing / Record::kSizeMin);
  for (std::uint64_t i = 0; i < 200; ++i) {
    check(recovered->store->publish(content(i), 0, 0) == Published::yes);
  }
}

void run(std::span<const std::uint8_t> bytes) {
  Input input(bytes);
  switch (input.u8() % kModes) {
    case kMessage: {
      const auto rest = bytes.empty() ? bytes : bytes.subspan(1);
      check_message(std::as_bytes(rest));
      break;
    }
    case kBody:
      check_body(input);
      break;
    case kLog:
      check_log(input);
      break;
    case kConflated:
      check_conflated(input);
      break;
    default:
      check_recovery(input);
      break;
  }
}

/// What the packet has behind its first byte are the changes.
test::Bytes make_input(const test::RocePacket& packet) {
  const auto transport = packet.transport();
  test::Bytes input(1 + transport.size());
  input[0] = static_cast<std::uint8_t>(transport.size() % kModes);
  std::copy(transport.begin(), transport.end(), input.begin() + 1);
  return input;
}

const FuzzTarget kTarget("publisher", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
