// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "apps/services/dag/entry.h"
#include "apps/services/dag/record.h"
#include "apps/services/dag/status.h"

/// What a client asks of a server, and the answer, each a SEND: numbers big endian behind a header
/// of magic number, version and type. Reading and updating records needs none (DG-18, DG-19).
namespace rockhopper::dag {

enum class RequestType : std::uint8_t {
  create = 1,
  erase,
  lookup,
  resize,
  allocate_arena,
  adopt,
  release_arena,
  release_group,
  application,  ///< for whatever the server does besides (ServerApplication)
};

/// The most data that a record can be created with, bytes; more comes with the first update.
inline constexpr std::size_t kCreateDataMax = 1024;

struct Request {
  RequestType type = RequestType::lookup;
  /// Above 0, and higher than that of the last one with the same request word (word_of), which
  /// decides about it.
  std::uint64_t id = 0;
  std::uint8_t slots = 0;         ///< create
  std::uint8_t code = 0;          ///< application
  std::uint32_t capacity = 0;     ///< create, resize
  std::uint64_t address = 0;      ///< adopt, release_arena
  std::uint64_t incarnation = 0;  ///< adopt
  std::uint64_t bytes = 0;        ///< allocate_arena, adopt: length of the record
  ControlWords control{};         ///< create
  std::uint64_t value = 0;        ///< application
  // In the message's bytes.
  /// Up to kKeyMax bytes. release_group: the group. allocate_arena: its group, if it has one.
  /// application: a name or nothing. release_arena: none.
  std::span<const std::byte> key;
  std::span<const std::byte> data;  ///< create, application: up to kCreateDataMax bytes
};

struct Response {
  std::uint64_t id = 0;  ///< of the request
  Status status = Status::ok;
  Entry entry{};            ///< of the record, or of an arena: what has become of the map (DG-16)
  std::uint64_t value = 0;  ///< application
  friend bool operator==(const Response&, const Response&) = default;
};

inline constexpr std::size_t kRequestHead = 88;
inline constexpr std::size_t kRequestMax = kRequestHead + kKeyMax + kCreateDataMax;
inline constexpr std::size_t kResponseBytes = 56;

/// Returns nothing for another magic number, version or type, lengths that do not add up, or a
/// value out of range. Key and data lie in `bytes`.
[[nodiscard]] std::optional<Request> parse_request(std::span<const std::byte> bytes);
[[nodiscard]] std::optional<Response> parse_response(std::span<const std::byte> bytes);
/// Returns the bytes written; `out` has kRequestMax. What is in the request must be within limits.
[[nodiscard]] std::size_t emit(const Request& request, std::span<std::byte> out);
void emit(const Response& response, std::span<std::byte, kResponseBytes> out);

}  // namespace rockhopper::dag
