// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/messages.h"

#include <limits>
#include <string>

#include <nlohmann/json.hpp>

#include "apps/common/json_reader.h"
#include "apps/common/sizes.h"
#include "apps/rh_perf/lock_words.h"
#include "roce/wire/psn.h"

namespace rockhopper::apps::perf {
namespace {

constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();

}  // namespace

nlohmann::json to_json(const Agreement& agreement) {
  return {{"transport", to_string(agreement.transport)},
          {"lock_mode", to_string(agreement.lock_mode)},
          {"qps", agreement.qps},
          {"window", agreement.window},
          {"receive_depth", agreement.receive_depth},
          {"size_max", agreement.size_max},
          {"inline_bytes", agreement.inline_bytes},
          {"outstanding_reads", agreement.outstanding_reads},
          {"path_mtu", agreement.path_mtu},
          {"ack_timeout", agreement.ack_timeout},
          {"service_level", agreement.service_level},
          {"traffic_class", agreement.traffic_class},
          {"selective_repeat", agreement.selective_repeat}};
}

Expected<Agreement> agreement_from_json(const nlohmann::json& object) {
  JsonReader reader(object);
  Agreement agreement;
  agreement.transport = reader.choice("transport", parse_transport);
  agreement.qps = reader.number<std::uint16_t>("qps", 1, kQpsMax);
  agreement.window = reader.number<std::uint32_t>("window", 1, kDepthMax);
  agreement.receive_depth = reader.number<std::uint32_t>("receive_depth", 1, kDepthMax);
  agreement.size_max = reader.number<std::uint32_t>("size_max", 0, kSizeMax);
  agreement.inline_bytes = reader.number<std::uint32_t>("inline_bytes", 0, 1024);
  agreement.outstanding_reads = reader.number<std::uint16_t>("outstanding_reads", 1, 255);
  agreement.path_mtu = reader.path_mtu("path_mtu");
  agreement.ack_timeout = reader.number<std::uint8_t>("ack_timeout", 0, 31);
  agreement.service_level = reader.number<std::uint8_t>("service_level", 0, 7);
  agreement.traffic_class = reader.number<std::uint8_t>("traffic_class", 0, 255);
  agreement.selective_repeat = reader.flag("selective_repeat");
  agreement.lock_mode = reader.choice("lock_mode", parse_lock_mode);
  // By compare and swap there is one scope at a time on an RC queue pair.
  if (agreement.lock_mode == LockMode::cas &&
      (agreement.transport != Transport::rc || agreement.window != 1)) {
    reader.refuse("lock_mode");
  }
  ROCKHOPPER_TRY(reader.result());
  return agreement;
}

nlohmann::json to_json(const Side& side) {
  nlohmann::json qps = nlohmann::json::array();
  for (const QpAddress& qp : side.qps) {
    qps.push_back({{"qpn", qp.qpn}, {"psn", qp.psn}, {"access_key", qp.access_key}});
  }
  return {{"gid", side.gid.to_string()},
          {"address", side.address},
          {"bytes", side.bytes},
          {"rkey", side.rkey},
          {"qps", std::move(qps)}};
}

Expected<Side> side_from_json(const nlohmann::json& object, const Agreement& agreement) {
  JsonReader reader(object);
  Side side;
  side.gid = reader.address("gid");
  side.address = reader.number<std::uint64_t>("address", 0, kAny);
  side.bytes = reader.number<std::uint64_t>("bytes", 1, kAny);
  side.rkey = reader.number<std::uint32_t>("rkey", 0, UINT32_MAX);
  if (const auto* qps = reader.array("qps", agreement.qps)) {
    for (const auto& item : *qps) {
      JsonReader qp(item);
      side.qps.push_back({qp.number<std::uint32_t>("qpn", 0, wire::kMask24),
                          qp.number<std::uint32_t>("psn", 0, wire::kMask24),
                          qp.number<std::uint64_t>("access_key", 0, kAny)});
      if (!qp.result()) reader.refuse("qps");
    }
  }
  ROCKHOPPER_TRY(reader.result());
  return side;
}

nlohmann::json to_json(const RunSpec& spec) {
  return {{"operation", to_string(spec.operation)},
          {"kind", to_string(spec.kind)},
          {"size", spec.size},
          {"iterations", spec.iterations},
          {"duration_ns", spec.duration_ns},
          {"warmup", spec.warmup},
          {"bidirectional", spec.bidirectional},
          {"seed", spec.seed}};
}

Expected<RunSpec> run_spec_from_json(const nlohmann::json& object, const Agreement& agreement) {
  JsonReader reader(object);
  RunSpec spec;
  spec.operation = reader.choice("operation", parse_operation);
  const bool has_locks = agreement.lock_mode != LockMode::none;
  if ((spec.operation == Operation::lock) != has_locks) reader.refuse("operation");
  spec.kind = reader.choice("kind", parse_run_kind);
  spec.size = reader.number<std::uint32_t>("size", 0, agreement.size_max);
  // The word of an atomic must lie in its slot, and a WRITE's last byte must exist to be watched.
  if (is_atomic(spec.operation) && spec.size != 8) reader.refuse("size");
  if (spec.kind == RunKind::latency && spec.operation == Operation::write && spec.size == 0) {
    reader.refuse("size");
  }
  spec.iterations = reader.number<std::uint64_t>("iterations", 0, kAny);
  spec.duration_ns = reader.number<std::uint64_t>("duration_ns", 0, kAny);
  spec.warmup = reader.number<std::uint64_t>("warmup", 0, kAny);
  spec.bidirectional = reader.flag("bidirectional");
  spec.seed = reader.number<std::uint64_t>("seed", 0, kAny);
  ROCKHOPPER_TRY(reader.result());
  return spec;
}

nlohmann::json to_json(const Measurement& measurement) {
  return {{"operations", measurement.operations},
          {"seconds", measurement.seconds},
          {"peak_operations_per_s", measurement.peak_operations_per_s}};
}

Expected<Measurement> measurement_from_json(const nlohmann::json& object) {
  JsonReader reader(object);
  Measurement measurement;
  measurement.operations = reader.number<std::uint64_t>("operations", 0, kAny);
  measurement.seconds = reader.real("seconds");
  measurement.peak_operations_per_s = reader.real("peak_operations_per_s");
  if (!(measurement.seconds > 0)) reader.refuse("seconds");
  ROCKHOPPER_TRY(reader.result());
  return measurement;
}

Expected<std::vector<std::uint64_t>> words_from_json(const nlohmann::json& object,
                                                     const Agreement& agreement) {
  JsonReader reader(object);
  std::vector<std::uint64_t> words;
  const std::size_t count = agreement.lock_mode == LockMode::none ? agreement.qps : kLockWordCount;
  if (const auto* list = reader.array("words", count)) {
    for (const auto& word : *list) {
      if (!word.is_number_unsigned()) reader.refuse("words");
      words.push_back(word.is_number_unsigned() ? word.get<std::uint64_t>() : 0);
    }
  }
  ROCKHOPPER_TRY(reader.result());
  return words;
}

Expected<LockStatistics> lock_statistics_from_json(const nlohmann::json& object) {
  JsonReader reader(object);
  LockStatistics statistics;
  if (const auto* locks = reader.object("locks")) {
    JsonReader values(*locks);
    for (const auto& [name, value] : locks->items()) {
      statistics[name] = values.number<std::uint64_t>(name.c_str(), 0, kAny);
    }
    if (!values.result()) reader.refuse("locks");
  }
  ROCKHOPPER_TRY(reader.result());
  return statistics;
}

}  // namespace rockhopper::apps::perf
