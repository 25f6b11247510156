// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/message.h"

#include <cassert>
#include <cstring>

#include "roce/wire/bytes.h"

namespace rockhopper::dag {
namespace {

constexpr std::uint16_t kMagic = 0x4447;
constexpr std::uint8_t kVersion = 1;
/// Beside the types of requests.
constexpr std::uint8_t kResponseType = 0x80;
/// A request word has a bit less.
constexpr std::uint64_t kRequestIdMax = ~std::uint64_t{0} >> 1;

const std::uint8_t* octets(std::span<const std::byte> bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}
std::uint8_t* writable(std::span<std::byte> bytes) {
  return reinterpret_cast<std::uint8_t*>(bytes.data());
}

void put_header(std::uint8_t* to, std::uint8_t type, std::uint64_t id) {
  wire::store_be16(to, kMagic);
  to[2] = kVersion;
  to[3] = type;
  wire::store_be64(to + 4, id);
}

bool has_header(const std::uint8_t* from) {
  return wire::load_be16(from) == kMagic && from[2] == kVersion &&
         wire::load_be64(from + 4) - 1 < kRequestIdMax;
}

bool may_have_key(RequestType type) { return type != RequestType::release_arena; }
bool needs_key(RequestType type) {
  return may_have_key(type) && type != RequestType::allocate_arena &&
         type != RequestType::application;
}
bool may_have_data(RequestType type) {
  return type == RequestType::create || type == RequestType::application;
}

}  // namespace

std::optional<Request> parse_request(std::span<const std::byte> bytes) {
  if (bytes.size() < kRequestHead || bytes.size() > kRequestMax) return std::nullopt;
  const std::uint8_t* from = octets(bytes);
  if (!has_header(from)) return std::nullopt;
  if (from[3] < static_cast<std::uint8_t>(RequestType::create) ||
      from[3] > static_cast<std::uint8_t>(RequestType::application)) {
    return std::nullopt;
  }
  Request request{.type = static_cast<RequestType>(from[3]),
                  .id = wire::load_be64(from + 4),
                  .slots = from[14],
                  .code = from[15],
                  .capacity = wire::load_be32(from + 16),
                  .address = wire::load_be64(from + 24),
                  .incarnation = wire::load_be64(from + 32),
                  .bytes = wire::load_be64(from + 40),
                  .value = wire::load_be64(from + 80)};
  const std::size_t key_length = wire::load_be16(from + 20);
  const std::size_t data_length = wire::load_be16(from + 22);
  for (std::size_t i = 0; i < kControlWords; ++i) {
    request.control[i] = wire::load_be64(from + 48 + 8 * i);
  }
  if (wire::load_be16(from + 12) != 0 || bytes.size() != kRequestHead + key_length + data_length ||
      key_length > kKeyMax || data_length > kCreateDataMax ||
      (key_length > 0 && !may_have_key(request.type)) ||
      (key_length == 0 && needs_key(request.type)) ||
      (data_length > 0 && !may_have_data(request.type))) {
    return std::nullopt;
  }
  if (request.type != RequestType::application && (request.code != 0 || request.value != 0)) {
    return std::nullopt;
  }
  if (request.type == RequestType::create && request.slots != 1 && request.slots != 2) {
    return std::nullopt;
  }
  request.key = bytes.subspan(kRequestHead, key_length);
  request.data = bytes.subspan(kRequestHead + key_length);
  return request;
}

std::size_t emit(const Request& request, std::span<std::byte> out) {
  assert(request.key.size() <= kKeyMax && request.data.size() <= kCreateDataMax);
  assert(out.size() >= kRequestHead + request.key.size() + request.data.size());
  std::memset(out.data(), 0, kRequestHead);
  std::uint8_t* to = writable(out);
  put_header(to, static_cast<std::uint8_t>(request.type), request.id);
  to[14] = request.slots;
  to[15] = request.code;
  wire::store_be32(to + 16, request.capacity);
  wire::store_be16(to + 20, static_cast<std::uint16_t>(request.key.size()));
  wire::store_be16(to + 22, static_cast<std::uint16_t>(request.data.size()));
  wire::store_be64(to + 24, request.address);
  wire::store_be64(to + 32, request.incarnation);
  wire::store_be64(to + 40, request.bytes);
  for (std::size_t i = 0; i < kControlWords; ++i) {
    wire::store_be64(to + 48 + 8 * i, request.control[i]);
  }
  wire::store_be64(to + 80, request.value);
  std::byte* tail = out.data() + kRequestHead;
  if (!request.key.empty()) std::memcpy(tail, request.key.data(), request.key.size());
  if (!request.data.empty()) {
    std::memcpy(tail + request.key.size(), request.data.data(), request.data.size());
  }
  return kRequestHead + request.key.size() + request.data.size();
}

std::optional<Response> parse_response(std::span<const std::byte> bytes) {
  if (bytes.size() != kResponseBytes) return std::nullopt;
  const std::uint8_t* from = octets(bytes);
  if (!has_header(from) || from[3] != kResponseType || from[12] >= kStatuses || from[13] != 0 ||
      wire::load_be16(from + 14) != 0) {
    return std::nullopt;
  }
  return Response{.id = wire::load_be64(from + 4),
                  .status = static_cast<Status>(from[12]),
                  .entry = {.hash = wire::load_be64(from + 16),
                            .incarnation = wire::load_be64(from + 24),
                            .address = wire::load_be64(from + 32),
                            .length = wire::load_be32(from + 40),
                            .rkey = roce::MemoryKey{wire::load_be32(from + 44)}},
                  .value = wire::load_be64(from + 48)};
}

void emit(const Response& response, std::span<std::byte, kResponseBytes> out) {
  std::memset(out.data(), 0, out.size());
  std::uint8_t* to = writable(out);
  put_header(to, kResponseType, response.id);
  to[12] = static_cast<std::uint8_t>(response.status);
  wire::store_be64(to + 16, response.entry.hash);
  wire::store_be64(to + 24, response.entry.incarnation);
  wire::store_be64(to + 32, response.entry.address);
  wire::store_be32(to + 40, response.entry.length);
  wire::store_be32(to + 44, static_cast<std::uint32_t>(response.entry.rkey));
  wire::store_be64(to + 48, response.value);
}

}  // namespace rockhopper::dag
