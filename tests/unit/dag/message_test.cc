// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Requests and answers as bytes (DG-20).
#include "apps/services/dag/message.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::dag::message_test {
namespace {

using Bytes = std::vector<std::byte>;

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

Bytes bytes_of(const Request& request) {
  Bytes bytes(kRequestMax);
  bytes.resize(emit(request, bytes));
  return bytes;
}

const Bytes kKey(kKeyMax, std::byte{1});
const Bytes kData(kCreateDataMax, std::byte{2});

std::vector<Request> samples() {
  return {
      {.type = RequestType::create,
       .id = 33,
       .slots = 2,
       .capacity = 5000,
       .control = {1, 2, 3, ~std::uint64_t{0}},
       .key = kKey,
       .data = kData},
      {.type = RequestType::create, .id = 1, .slots = 1, .key = std::span(kKey).first(1)},
      {.type = RequestType::erase, .id = 2, .key = std::span(kKey).first(9)},
      {.type = RequestType::lookup, .id = ~std::uint64_t{0} >> 1, .key = kKey},
      {.type = RequestType::resize, .id = 3, .capacity = 77, .key = kKey},
      {.type = RequestType::allocate_arena, .id = 4, .bytes = 1 << 20},
      {.type = RequestType::adopt,
       .id = 5,
       .address = 640,
       .incarnation = 99,
       .bytes = 300,
       .key = kKey},
      {.type = RequestType::release_arena, .id = 6, .address = 64},
      {.type = RequestType::allocate_arena, .id = 7, .bytes = 1, .key = std::span(kKey).first(3)},
      {.type = RequestType::release_group, .id = 8, .key = kKey},
      {.type = RequestType::application,
       .id = 9,
       .code = 255,
       .value = ~std::uint64_t{0},
       .key = kKey,
       .data = kData},
      {.type = RequestType::application, .id = 10},
  };
}

TEST(Messages, WhatIsSentIsReceived) {
  for (const Request& request : samples()) {
    const Bytes bytes = bytes_of(request);
    const auto parsed = parse_request(bytes);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->type, request.type);
    EXPECT_EQ(parsed->id, request.id);
    EXPECT_EQ(parsed->slots, request.slots);
    EXPECT_EQ(parsed->code, request.code);
    EXPECT_EQ(parsed->value, request.value);
    EXPECT_EQ(parsed->capacity, request.capacity);
    EXPECT_EQ(parsed->address, request.address);
    EXPECT_EQ(parsed->incarnation, request.incarnation);
    EXPECT_EQ(parsed->bytes, request.bytes);
    EXPECT_EQ(parsed->control, request.control);
    EXPECT_TRUE(equal(parsed->key, request.key));
    EXPECT_TRUE(equal(parsed->data, request.data));
  }
  const Response response{
      .id = 9,
      .status = Status::exhausted,
      .entry = {.hash = 1, .incarnation = 2, .address = 3, .length = 4, .rkey = roce::MemoryKey{5}},
      .value = 6};
  std::array<std::byte, kResponseBytes> bytes;
  emit(response, bytes);
  EXPECT_EQ(parse_response(bytes), response);
}

// DG-20: who can send more than a kind of request has is refused.
TEST(Messages, EachKindHasItsOwnParts) {
  const auto taken = [](const Request& request) {
    return parse_request(bytes_of(request)).has_value();
  };
  const auto key = std::span(kKey).first(1);
  const auto data = std::span(kData).first(1);
  const auto is = [](RequestType type, std::initializer_list<RequestType> types) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  using enum RequestType;
  for (auto number = static_cast<unsigned>(create); number <= static_cast<unsigned>(application);
       ++number) {
    const auto type = static_cast<RequestType>(number);
    const Request bare{.type = type, .id = 1, .slots = 1};
    Request named = bare;
    named.key = key;
    EXPECT_EQ(taken(named), type != release_arena);
    EXPECT_EQ(taken(bare), is(type, {allocate_arena, release_arena, application}));
    Request loaded = type == release_arena ? bare : named;
    EXPECT_TRUE(taken(loaded));
    loaded.data = data;
    EXPECT_EQ(taken(loaded), is(type, {create, application}));
    Request coded = type == release_arena ? bare : named;
    coded.code = 1;
    EXPECT_EQ(taken(coded), type == application);
    coded.code = 0;
    coded.value = 1;
    EXPECT_EQ(taken(coded), type == application);
  }
}

// What is taken is exactly what would be sent.
TEST(Messages, NothingElseIsTaken) {
  sim::Rng rng(test::seed());
  unsigned taken = 0;
  for (int i = 0; i < 50'000; ++i) {
    const auto requests = samples();
    Bytes bytes = bytes_of(requests[rng.between(0, requests.size() - 1)]);
    if (rng.chance(30)) bytes.resize(rng.between(0, bytes.size() + 2));
    for (std::uint64_t changes = rng.between(0, 2); changes > 0 && !bytes.empty(); --changes) {
      bytes[rng.between(0, std::min<std::size_t>(bytes.size(), 90) - 1)] =
          static_cast<std::byte>(rng.next());
    }
    const auto request = parse_request(bytes);
    if (!request) continue;
    ++taken;
    ASSERT_EQ(bytes_of(*request), bytes);
  }
  EXPECT_GT(taken, 0u);
  for (int i = 0; i < 50'000; ++i) {
    std::array<std::byte, kResponseBytes> bytes;
    emit(Response{.id = 1}, bytes);
    bytes[rng.between(0, bytes.size() - 1)] = static_cast<std::byte>(rng.next());
    const auto response = parse_response(bytes);
    if (!response) continue;
    std::array<std::byte, kResponseBytes> again;
    emit(*response, again);
    ASSERT_EQ(again, bytes);
  }
}

}  // namespace
}  // namespace rockhopper::dag::message_test
