// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/protocol.h"

#include "apps/common/measuring_options.h"

namespace rockhopper::apps::messages {

void Agreement::describe(Fields& fields) {
  fields.choice("transport", transport);
  fields.path_mtu("path_mtu", path_mtu);
  fields.number("size_max", size_max, 0, kSizeMax);
  fields.number("window", window, 1, kWindowMax);
  fields.number("eager_bytes", eager_bytes, 0, 1u << 20);
  fields.number("ack_timeout", ack_timeout, 1, 31);
  fields.flag("check", check);
}

void Side::describe(Fields& fields) {
  QueueAddress::describe(fields);
  fields.number("address", address);
  fields.number("rkey", rkey);
  fields.text("shared_path", shared_path);
  fields.number("token", token);
}

void RunSpec::describe(Fields& fields) {
  fields.choice("operation", operation);
  fields.number("size", size);
  fields.number("iterations", iterations, 0, kIterationsMax);
  fields.number("duration_ns", duration_ns);
  fields.number("warmup", warmup);
  fields.number("seed", seed);
}

void Offer::describe(Fields& fields) {
  fields.constant("version", kProtocolVersion);
  fields.path_mtu("path_mtu", path_mtu);
}

void Hello::describe(Fields& fields) {
  fields.object("agreement", agreement);
  fields.object("side", side);
}

void Welcome::describe(Fields& fields) { fields.object("side", side); }

void Stop::describe(Fields& fields) { fields.number("instructions", instructions); }

}  // namespace rockhopper::apps::messages
