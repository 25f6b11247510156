// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/messages.h"

#include <limits>

#include <fmt/format.h>

#include "apps/common/measuring_options.h"
#include "apps/common/sizes.h"
#include "apps/rh_perf/lock_words.h"

namespace rockhopper::apps::perf {

void Agreement::describe(Fields& fields) {
  fields.choice("transport", transport);
  fields.choice("lock_mode", lock_mode);
  fields.number("qps", qps, 1, kQpsMax);
  fields.number("window", window, 1, kDepthMax);
  fields.number("receive_depth", receive_depth, 1, kDepthMax);
  fields.number("size_max", size_max, 0, kSizeMax);
  fields.number("inline_bytes", inline_bytes, 0, 1024);
  fields.number("outstanding_reads", outstanding_reads, 1, 255);
  fields.path_mtu("path_mtu", path_mtu);
  fields.number("ack_timeout", ack_timeout, 0, 31);
  fields.number("service_level", service_level, 0, 7);
  fields.number("traffic_class", traffic_class);
  fields.flag("selective_repeat", selective_repeat);
  fields.require(lock_mode != LockMode::cas || (transport == Transport::rc && window == 1),
                 "lock_mode",
                 "by compare and swap there is one scope at a time on an RC queue pair");
}

void QpAddress::describe(Fields& fields) {
  fields.number24("qpn", qpn);
  fields.number24("psn", psn);
  fields.number("access_key", access_key);
}

void Side::describe(Fields& fields) {
  fields.address("gid", gid);
  fields.number("address", address);
  fields.number("bytes", bytes, 1);
  fields.number("rkey", rkey);
  fields.list("qps", qps);
}

void RunSpec::describe(Fields& fields) {
  fields.choice("operation", operation);
  fields.choice("kind", kind);
  fields.number("size", size);
  fields.number("iterations", iterations, 0, kIterationsMax);
  fields.number("duration_ns", duration_ns);
  fields.number("warmup", warmup);
  fields.flag("bidirectional", bidirectional);
  fields.number("seed", seed);
  fields.require(!is_atomic(operation) || size == 8, "size", "a word has 8 bytes");
  fields.require(kind != RunKind::latency || operation != Operation::write || size > 0, "size",
                 "of a WRITE the last byte is watched");
}

void Measurement::describe(Fields& fields) {
  fields.number("operations", operations);
  fields.real("seconds", seconds, std::numeric_limits<double>::min());
  fields.real("peak_operations_per_s", peak_operations_per_s);
}

Expected<void> check_side(const Side& side, const Agreement& agreement, const Layout& layout) {
  if (side.qps.size() != agreement.qps) {
    return bad_message(fmt::format("qps: there are {}, not {}", side.qps.size(), agreement.qps));
  }
  if (side.bytes == layout.bytes()) return {};
  return fail(ErrorCode::io,
              "the peer's memory has {} bytes, not {}; are both ends of the same version?",
              side.bytes, layout.bytes());
}

Expected<RunSpec> run_spec_from_json(const nlohmann::json& json, const Agreement& agreement) {
  ROCKHOPPER_TRY(auto spec, fields_from_json<RunSpec>(json));
  if ((spec.operation == Operation::lock) != (agreement.lock_mode != LockMode::none)) {
    return bad_message("operation: another one was agreed on");
  }
  if (spec.size > agreement.size_max) return bad_message("size: is above what was agreed on");
  return spec;
}

Expected<std::vector<std::uint64_t>> words_from_json(const nlohmann::json& json,
                                                     const Agreement& agreement) {
  JsonErrors errors;
  auto words = JsonObject(json, "", errors).numbers("words");
  if (errors.any()) return bad_message(errors.first().message);
  const std::size_t count = agreement.lock_mode == LockMode::none ? agreement.qps : kLockWordCount;
  if (words.size() == count) return words;
  return bad_message(fmt::format("words: there are {}, not {}", words.size(), count));
}

Expected<LockStatistics> lock_statistics_from_json(const nlohmann::json& json) {
  JsonErrors errors;
  JsonObject object(json, "", errors);
  LockStatistics statistics;
  auto locks = object.object("locks");
  if (!locks) return bad_message("locks: is missing");
  if (errors.any()) return bad_message(errors.first().message);
  for (const auto& [name, value] : json["locks"].items()) {
    statistics[name] = locks->number(name.c_str(), 0, UINT64_MAX);
  }
  if (errors.any()) return bad_message(errors.first().message);
  return statistics;
}

}  // namespace rockhopper::apps::perf
