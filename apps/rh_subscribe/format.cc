// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/format.h"

#include <utility>

#include <boost/endian/conversion.hpp>
#include <nlohmann/json.hpp>

#include "apps/common/json_bytes.h"

namespace rockhopper::apps::subscribe {
namespace {

void append_json(const Delivery& delivery, std::string& out) {
  nlohmann::ordered_json object{{"store", delivery.store},
                                {"epoch", delivery.epoch},
                                {"seq", delivery.sequence},
                                {"time_ns", delivery.time_ns}};
  JsonBytes bytes = to_json_bytes(delivery.payload);
  object[bytes.name] = std::move(bytes.value);
  out += object.dump();
  out += '\n';
}

}  // namespace

std::string_view extension(Format format) {
  switch (format) {
    case Format::lines:
      return ".txt";
    case Format::records:
      return ".records";
    case Format::json:
      break;
  }
  return ".jsonl";
}

void append(Format format, const Delivery& delivery, std::string& out) {
  switch (format) {
    case Format::lines:
      out += as_text(delivery.payload);
      out += '\n';
      break;
    case Format::records: {
      std::array<unsigned char, 4> length;
      boost::endian::store_little_u32(length.data(),
                                      static_cast<std::uint32_t>(delivery.payload.size()));
      out.append(reinterpret_cast<const char*>(length.data()), length.size());
      out += as_text(delivery.payload);
      break;
    }
    case Format::json:
      append_json(delivery, out);
      break;
  }
}

void append(Format format, const Loss& loss, std::string& out) {
  if (format != Format::json) return;
  const nlohmann::ordered_json object{
      {"store", loss.store}, {"epoch", loss.epoch}, {"lost", {loss.first, loss.last}}};
  out += object.dump();
  out += '\n';
}

}  // namespace rockhopper::apps::subscribe
