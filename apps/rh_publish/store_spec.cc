// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/store_spec.h"

#include <bit>
#include <optional>

#include "apps/rh_publish/names.h"
#include "apps/services/publisher/conflated_store.h"
#include "stack/quantity.h"

namespace rockhopper::apps::publish {
namespace {

/// "keys=7" for the name "keys" is 7; nothing for other names.
std::optional<std::string_view> value_of(std::string_view option, std::string_view name) {
  if (!option.starts_with(name) || option.size() == name.size() || option[name.size()] != '=') {
    return std::nullopt;
  }
  return option.substr(name.size() + 1);
}

Expected<void> parse_option(std::string_view option, StoreSpec& spec) {
  std::uint64_t keys = 0;
  if (option == "conflated") {
    spec.kind = publisher::StoreKind::conflated;
  } else if (const auto count = value_of(option, "keys")) {
    if (!stack::parse_unsigned(*count, keys) || keys < 1 ||
        keys > publisher::ConflatedStore::kMaxKeys) {
      return fail(ErrorCode::invalid_argument, "keys={}: 1 to {} are possible", *count,
                  publisher::ConflatedStore::kMaxKeys);
    }
    spec.keys = static_cast<std::uint32_t>(keys);
  } else {
    return fail(ErrorCode::invalid_argument, "{:?} is none of conflated, keys=N and file=PATH",
                option);
  }
  return {};
}

Expected<StoreSpec> parse(std::string_view text) {
  StoreSpec spec;
  const std::size_t equals = text.find('=');
  spec.name = text.substr(0, equals);
  ROCKHOPPER_TRY(check_name(spec.name));
  if (equals == std::string_view::npos) {
    return fail(ErrorCode::invalid_argument, "expected is NAME=SIZE[:OPTION]...");
  }
  std::string_view rest = text.substr(equals + 1);
  const std::string_view size = rest.substr(0, rest.find(':'));
  if (!stack::parse_bytes(size, spec.bytes) || spec.bytes == 0) {
    return fail(ErrorCode::invalid_argument, "{:?} is no size as 64KiB or 16MiB", size);
  }
  bool has_keys = false;
  for (rest.remove_prefix(size.size()); !rest.empty();) {
    rest.remove_prefix(1);
    // A path may have colons, so it is the last one.
    if (const auto path = value_of(rest, "file"); path && !path->empty()) {
      spec.file = *path;
      break;
    }
    const std::string_view option = rest.substr(0, rest.find(':'));
    ROCKHOPPER_TRY(parse_option(option, spec));
    has_keys = has_keys || option.starts_with("keys");
    rest.remove_prefix(option.size());
  }
  const bool conflated = spec.kind == publisher::StoreKind::conflated;
  if (has_keys && !conflated) {
    return fail(ErrorCode::invalid_argument, "keys= is for conflated stores");
  }
  if (conflated && !spec.file.empty()) {
    return fail(ErrorCode::invalid_argument, "conflated stores are not kept in files");
  }
  if (!conflated && (!std::has_single_bit(spec.bytes) || spec.bytes < publisher::kRingMin)) {
    return fail(ErrorCode::invalid_argument, "the size must be a power of two from {} on",
                publisher::kRingMin);
  }
  return spec;
}

}  // namespace

Expected<StoreSpec> parse_store(std::string_view text) {
  auto spec = parse(text);
  if (!spec) return fail(ErrorCode::invalid_argument, "--store {}: {}", text, spec.error().message);
  return spec;
}

Expected<KeyRule> parse_key_rule(std::string_view text) {
  if (text == "word") return KeyRule{};
  std::uint64_t bytes = 0;
  if (text.starts_with("bytes:") && stack::parse_unsigned(text.substr(6), bytes) && bytes > 0) {
    return KeyRule{.bytes = bytes};
  }
  return fail(ErrorCode::invalid_argument, "--key {}: expected is word or bytes:N", text);
}

}  // namespace rockhopper::apps::publish
