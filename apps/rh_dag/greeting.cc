// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/greeting.h"

#include "apps/services/dag/record.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr unsigned kHashBits = 64;

void describe(Fields& fields, dag::Grant& grant) {
  fields.number("client", grant.client, 1);
  fields.qpn("target", grant.target);
  fields.number("access_key", grant.access_key);
  fields.number("records_key", grant.records_key);
  fields.number("records_bytes", grant.records_bytes, 1);
  fields.number("area_key", grant.area_key);
  fields.number("application_key", grant.application_key);
  fields.number("application_bytes", grant.application_bytes);
  fields.number("lease_ns", grant.lease_ns, 1);
  fields.number("capacity_max", grant.capacity_max, 1, dag::kCapacityMax);
  fields.number("hash_bits", grant.hash_bits, 1, kHashBits);
}

}  // namespace

void Offer::describe(Fields& fields) {
  fields.constant("version", kGreetingVersion);
  fields.path_mtu("path_mtu", path_mtu);
}

void Hello::describe(Fields& fields) {
  fields.path_mtu("path_mtu", path_mtu);
  fields.unicast("gid", gid);
  fields.qpn("target", target);
  fields.number("access_key", access_key);
}

void Welcome::describe(Fields& fields) {
  fields.unicast("gid", gid);
  fields.object("grant", [this](Fields& inner) { dag_node::describe(inner, grant); });
}

Expected<Hello> hello_from_json(const nlohmann::json& object, const Offer& offer) {
  ROCKHOPPER_TRY(auto hello, fields_from_json<Hello>(object));
  if (hello.path_mtu == offer.path_mtu) return hello;
  return fail(ErrorCode::unsupported, "the server's path MTU is {}, the client's {}",
              offer.path_mtu, hello.path_mtu);
}

}  // namespace rockhopper::apps::dag_node
