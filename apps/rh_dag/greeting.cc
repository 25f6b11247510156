// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/greeting.h"

#include <nlohmann/json.hpp>

#include "apps/common/json_reader.h"
#include "apps/services/dag/record.h"
#include "roce/wire/psn.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr unsigned kHashBits = 64;

stack::IpAddress read_gid(JsonReader& reader) {
  const stack::IpAddress gid = reader.address("gid");
  if (gid.is_unspecified() || gid.is_multicast()) reader.refuse("gid");
  return gid;
}

wire::Qpn read_target(JsonReader& reader) {
  return wire::Qpn::make(reader.number<std::uint32_t>("target", 0, wire::kMask24));
}

roce::MemoryKey read_key(JsonReader& reader, const char* name) {
  return static_cast<roce::MemoryKey>(reader.number<std::uint32_t>(name, 0, UINT32_MAX));
}

nlohmann::json to_json(const dag::Grant& grant) {
  return {{"client", grant.client},
          {"target", grant.target.value},
          {"access_key", grant.access_key},
          {"records_key", static_cast<std::uint32_t>(grant.records_key)},
          {"records_bytes", grant.records_bytes},
          {"area_key", static_cast<std::uint32_t>(grant.area_key)},
          {"application_key", static_cast<std::uint32_t>(grant.application_key)},
          {"application_bytes", grant.application_bytes},
          {"lease_ns", grant.lease_ns},
          {"capacity_max", grant.capacity_max},
          {"hash_bits", grant.hash_bits}};
}

dag::Grant read_grant(JsonReader& outer) {
  dag::Grant grant;
  const nlohmann::json* object = outer.object("grant");
  if (object == nullptr) return grant;
  JsonReader reader(*object);
  grant.client = reader.number<std::uint32_t>("client", 1, UINT32_MAX);
  grant.target = read_target(reader);
  grant.access_key = reader.number<std::uint64_t>("access_key", 0, UINT64_MAX);
  grant.records_key = read_key(reader, "records_key");
  grant.records_bytes = reader.number<std::uint64_t>("records_bytes", 1, UINT64_MAX);
  grant.area_key = read_key(reader, "area_key");
  grant.application_key = read_key(reader, "application_key");
  grant.application_bytes = reader.number<std::uint64_t>("application_bytes", 0, UINT64_MAX);
  grant.lease_ns = reader.number<std::uint64_t>("lease_ns", 1, UINT64_MAX);
  grant.capacity_max = reader.number<std::uint32_t>("capacity_max", 1, dag::kCapacityMax);
  grant.hash_bits = reader.number<std::uint8_t>("hash_bits", 1, kHashBits);
  if (!reader.result()) outer.refuse("grant");
  return grant;
}

}  // namespace

nlohmann::json to_json(const Offer& offer) {
  return {{"version", kGreetingVersion}, {"path_mtu", offer.path_mtu}};
}

nlohmann::json to_json(const Hello& hello) {
  return {{"path_mtu", hello.path_mtu},
          {"gid", hello.gid.to_string()},
          {"target", hello.target.value},
          {"access_key", hello.access_key}};
}

nlohmann::json to_json(const Welcome& welcome) {
  return {{"gid", welcome.gid.to_string()}, {"grant", to_json(welcome.grant)}};
}

Expected<Offer> offer_from_json(const nlohmann::json& object) {
  JsonReader reader(object);
  (void)reader.number<unsigned>("version", kGreetingVersion, kGreetingVersion);
  const Offer offer{.path_mtu = reader.path_mtu("path_mtu")};
  ROCKHOPPER_TRY(reader.result());
  return offer;
}

Expected<Hello> hello_from_json(const nlohmann::json& object, const Offer& offer) {
  JsonReader reader(object);
  Hello hello;
  hello.path_mtu = reader.path_mtu("path_mtu");
  hello.gid = read_gid(reader);
  hello.target = read_target(reader);
  hello.access_key = reader.number<std::uint64_t>("access_key", 0, UINT64_MAX);
  ROCKHOPPER_TRY(reader.result());
  if (hello.path_mtu != offer.path_mtu) {
    return fail(ErrorCode::unsupported, "the server's path MTU is {}, the client's {}",
                offer.path_mtu, hello.path_mtu);
  }
  return hello;
}

Expected<Welcome> welcome_from_json(const nlohmann::json& object) {
  JsonReader reader(object);
  Welcome welcome{.gid = read_gid(reader), .grant = read_grant(reader)};
  ROCKHOPPER_TRY(reader.result());
  return welcome;
}

}  // namespace rockhopper::apps::dag_node
