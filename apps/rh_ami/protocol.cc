// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/protocol.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "apps/common/json_reader.h"
#include "roce/wire/psn.h"

namespace rockhopper::apps::messages {

namespace {

constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();

}  // namespace

nlohmann::json to_json(const Agreement& agreement) {
  return {{"transport", to_string(agreement.transport)},
          {"path_mtu", agreement.path_mtu},
          {"size_max", agreement.size_max},
          {"window", agreement.window},
          {"eager_bytes", agreement.eager_bytes},
          {"ack_timeout", agreement.ack_timeout},
          {"check", agreement.check}};
}

Expected<Agreement> agreement_from_json(const nlohmann::json& object) {
  JsonReader reader(object);
  Agreement agreement;
  agreement.transport = reader.choice("transport", parse_transport);
  agreement.path_mtu = reader.path_mtu("path_mtu");
  agreement.size_max = reader.number<std::uint32_t>("size_max", 0, kSizeMax);
  agreement.window = reader.number<std::uint32_t>("window", 1, kWindowMax);
  agreement.eager_bytes = reader.number<std::uint32_t>("eager_bytes", 0, 1u << 20);
  agreement.ack_timeout = reader.number<std::uint8_t>("ack_timeout", 1, 31);
  agreement.check = reader.flag("check");
  ROCKHOPPER_TRY(reader.result());
  return agreement;
}

nlohmann::json to_json(const Side& side) {
  return {{"gid", side.gid.to_string()},
          {"address", side.address},
          {"rkey", side.rkey},
          {"qpn", side.qpn},
          {"psn", side.psn},
          {"access_key", side.access_key},
          {"token", side.token},
          {"shared_path", side.shared_path}};
}

Expected<Side> side_from_json(const nlohmann::json& object) {
  JsonReader reader(object);
  Side side;
  side.gid = reader.address("gid");
  side.address = reader.number<std::uint64_t>("address", 0, kAny);
  side.rkey = reader.number<std::uint32_t>("rkey", 0, UINT32_MAX);
  side.qpn = reader.number<std::uint32_t>("qpn", 0, wire::kMask24);
  side.psn = reader.number<std::uint32_t>("psn", 0, wire::kMask24);
  side.access_key = reader.number<std::uint64_t>("access_key", 0, kAny);
  side.token = reader.number<std::uint64_t>("token", 0, kAny);
  side.shared_path = reader.text("shared_path");
  ROCKHOPPER_TRY(reader.result());
  return side;
}

nlohmann::json to_json(const RunSpec& spec) {
  return {{"operation", to_string(spec.operation)},
          {"size", spec.size},
          {"iterations", spec.iterations},
          {"duration_ns", spec.duration_ns},
          {"warmup", spec.warmup},
          {"seed", spec.seed}};
}

Expected<RunSpec> run_spec_from_json(const nlohmann::json& object, const Agreement& agreement) {
  JsonReader reader(object);
  RunSpec spec;
  spec.operation = reader.choice("operation", parse_operation);
  const std::uint32_t largest = std::max<std::uint32_t>(agreement.size_max, 8);
  spec.size = reader.number<std::uint32_t>("size", 0, largest);
  spec.iterations = reader.number<std::uint64_t>("iterations", 0, kAny);
  spec.duration_ns = reader.number<std::uint64_t>("duration_ns", 0, kAny);
  spec.warmup = reader.number<std::uint64_t>("warmup", 0, kAny);
  spec.seed = reader.number<std::uint64_t>("seed", 0, kAny);
  ROCKHOPPER_TRY(reader.result());
  return spec;
}

Expected<std::uint64_t> number_from_json(const nlohmann::json& object, const char* name) {
  JsonReader reader(object);
  const auto number = reader.number<std::uint64_t>(name, 0, kAny);
  ROCKHOPPER_TRY(reader.result());
  return number;
}

}  // namespace rockhopper::apps::messages
