// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What servers and clients of the record store take from each other, and what clients READ. The
// first byte of an input says what the rest is: a request; an answer; the bytes of a record, first
// of which its head is made plausible; requests to a store whose memory is scribbled over
// meanwhile.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "apps/services/dag/message.h"
#include "apps/services/dag/record.h"
#include "apps/services/dag/store.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input.h"

namespace rockhopper::fuzz {
namespace {

using namespace dag;

enum Mode : std::uint8_t { kRequest, kResponse, kRecord, kStore, kModes };

constexpr std::uint32_t kOwner = 1;

/// A message that is taken is sent as it came.
void check_request(std::span<const std::byte> bytes) {
  const auto request = parse_request(bytes);
  if (!request) return;
  std::vector<std::byte> emitted(kRequestMax);
  const std::size_t length = emit(*request, emitted);
  check(length == bytes.size() && std::memcmp(emitted.data(), bytes.data(), length) == 0);
}

void check_response(std::span<const std::byte> bytes) {
  const auto response = parse_response(bytes);
  if (!response) return;
  std::array<std::byte, kResponseBytes> emitted;
  emit(*response, emitted);
  check(std::equal(emitted.begin(), emitted.end(), bytes.begin(), bytes.end()));
}

/// Whatever it says, its data lie in the bytes that were READ.
void check_record(std::span<const std::byte> bytes, std::uint64_t incarnation) {
  const std::array<std::byte, 3> key{std::byte{'k'}, std::byte{'e'}, std::byte{'y'}};
  for (const auto& wanted : {std::optional<std::span<const std::byte>>(),
                             std::optional<std::span<const std::byte>>(key)}) {
    const RecordView view = examine_record(bytes, incarnation, wanted);
    if (view.verdict != Verdict::match) continue;
    check(view.header.incarnation == incarnation && view.data.size() <= view.header.capacity);
    check(view.data.empty() ||
          (view.data.data() >= bytes.data() &&
           view.data.data() + view.data.size() <= bytes.data() + bytes.size()));
  }
}

void check_record(Input& input) {
  const std::array<std::byte, 3> key{std::byte{'k'}, std::byte{'e'}, std::byte{'y'}};
  const std::uint32_t capacity = input.u8();
  const unsigned slots = 1 + input.u8() % 2;
  std::vector<std::byte> bytes(record_bytes(key.size(), capacity, slots));
  compose_record({.key = key, .incarnation = 5, .capacity = capacity, .slots = slots}, bytes);
  bytes.resize(std::min<std::size_t>(bytes.size(), input.u16()));
  while (!input.empty() && !bytes.empty()) {
    const std::size_t at = input.u16() % bytes.size();
    bytes[at] = static_cast<std::byte>(input.u8());
  }
  check_record(bytes, 5);
}

struct alignas(64) Line {
  std::byte bytes[64];
};

void check_store(Input& input) {
  std::vector<Line> lines(64);
  const std::span<std::byte> memory(lines[0].bytes, lines.size() * sizeof(Line));
  auto store = *Store::create(
      memory,
      {.records = 8, .hash_bits = 1 + input.u8() % 64u, .capacity_max = 1024, .quarantine_ns = 3});
  std::vector<MapPlace> arenas(1);
  for (std::uint64_t now_ns = 1; !input.empty(); ++now_ns) {
    const std::array<std::byte, 2> key{std::byte{'k'}, static_cast<std::byte>(input.u8() % 4)};
    switch (input.u8() % 10) {
      case 0:
        (void)store->create({.key = key, .capacity = input.u16(), .slots = 2});
        break;
      case 1:
        (void)store->erase(key, now_ns);
        break;
      case 2:
        (void)store->resize(key, input.u16(), now_ns);
        break;
      case 3: {
        const auto group = std::span(key).first(input.u8() % 3u);
        const auto arena = store->allocate_arena(kOwner + input.u8() % 2u, input.u16(), group);
        if (arena.status == Status::ok) arenas.push_back(arena.place);
        break;
      }
      case 4:
        (void)store->release_arena(kOwner, arenas[input.u8() % arenas.size()].address, now_ns);
        break;
      case 5: {
        MapPlace place = arenas[input.u8() % arenas.size()];
        place.address += input.u16() % 8192u;
        place.incarnation += input.u8() % 4u;
        place.length = input.u16();
        if (input.u8() % 2 == 0 && place.incarnation != 0 && place.address + 512 <= memory.size()) {
          compose_record({.key = key, .incarnation = place.incarnation, .capacity = 32},
                         memory.subspan(place.address, 512));
        }
        (void)store->adopt(kOwner, key, place);
        break;
      }
      case 6: {
        const std::size_t at = input.u16() % memory.size();
        memory[at] = static_cast<std::byte>(input.u8());
        break;
      }
      case 7:
        (void)store->release_locks(kOwner);
        if (input.u8() % 4 == 0) store->release_arenas(kOwner, now_ns);
        break;
      case 8: {
        (void)store->release_group(std::span(key).first(input.u8() % 3u), now_ns);
        const auto found = store->arena_bytes(kOwner, arenas[input.u8() % arenas.size()].address);
        check(!found || (found->data() >= memory.data() &&
                         found->data() + found->size() <= memory.data() + memory.size()));
        break;
      }
      default:
        if (store->quarantine().in_grace()) {
          store->quarantine().end_grace();
        } else if (store->quarantine().wants_grace()) {
          store->quarantine().begin_grace();
        }
        store->collect(now_ns);
        break;
    }
    check(store->size() <= 8 && store->free_bytes() <= memory.size());
  }
}

void run(std::span<const std::uint8_t> bytes) {
  Input input(bytes);
  const auto rest = std::as_bytes(bytes.empty() ? bytes : bytes.subspan(1));
  switch (input.u8() % kModes) {
    case kRequest:
      return check_request(rest);
    case kResponse:
      return check_response(rest);
    case kRecord:
      check_record(rest, 0x4242424242424242);
      return check_record(input);
    default:
      return check_store(input);
  }
}

/// What the packet has behind its first byte are the operations.
test::Bytes make_input(const test::RocePacket& packet) {
  const auto transport = packet.transport();
  test::Bytes input(1 + transport.size());
  input[0] = static_cast<std::uint8_t>(transport.size() % kModes);
  std::copy(transport.begin(), transport.end(), input.begin() + 1);
  return input;
}

const FuzzTarget kTarget("dag", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
