// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/fields.h"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rockhopper::apps {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

enum class Colour : std::uint8_t { red, green };
constexpr auto names_of(Colour) { return std::array{Names{"red"}, Names{"green"}}; }
enum class Key : std::uint32_t {};

struct Item {
  std::uint64_t value = 0;
  void describe(Fields& fields) { fields.number("value", value, 1, 9); }
};

struct Whole {
  std::uint16_t small = 3;
  Key key{7};
  std::uint32_t psn = 0;
  wire::Qpn qpn;
  std::uint16_t path_mtu = 1024;
  double ratio = 0.5;
  bool flag = true;
  std::string text = "t";
  stack::IpAddress address = *stack::IpAddress::parse("fd42::1");
  stack::IpAddress station = *stack::IpAddress::parse("10.0.0.1");
  Colour colour = Colour::green;
  Item item{.value = 4};
  std::vector<Item> items{{1}, {2}};
  std::string may_be_missing = "here";

  void describe(Fields& fields) {
    fields.constant("version", 5);
    fields.number("small", small, 2);
    fields.number("key", key);
    fields.number24("psn", psn);
    fields.qpn("qpn", qpn);
    fields.path_mtu("path_mtu", path_mtu);
    fields.real("ratio", ratio, 0, 1);
    fields.flag("flag", flag);
    fields.text("text", text);
    fields.address("address", address);
    fields.unicast("station", station);
    fields.choice("colour", colour);
    fields.object("item", item);
    fields.list("items", items);
    if (fields.has("may_be_missing")) fields.text("may_be_missing", may_be_missing);
    fields.require(text != "forbidden", "text", "is forbidden");
  }
};

/// What is wrong with the whole struct when that member has that value.
std::string refusal(const char* member, const json& value) {
  json object = fields_to_json(Whole{});
  object[member] = value;
  const auto whole = read_fields<Whole>(json::parse(object.dump()));
  return whole ? "" : whole.error().message;
}

TEST(Fields, ComeBackAsTheyWere) {
  Whole whole;
  whole.small = 65535;
  whole.key = Key{0xffffffff};
  whole.psn = 0xffffff;
  whole.qpn = wire::Qpn::make(0xabcdef);
  whole.path_mtu = 4096;
  whole.ratio = 1;
  whole.flag = false;
  whole.colour = Colour::red;
  whole.items = {{9}};
  const json object = fields_to_json(whole);
  EXPECT_EQ(object["version"], 5u);
  EXPECT_EQ(object["address"], "fd42::1");
  EXPECT_EQ(object["colour"], "red");
  EXPECT_EQ(object["item"], (json{{"value", 4u}}));
  const auto back = fields_from_json<Whole>(json::parse(object.dump()));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(fields_to_json(*back), object);
  EXPECT_EQ(back->key, whole.key);
  EXPECT_EQ(back->qpn, whole.qpn);
  EXPECT_EQ(back->items.size(), 1u);
}

TEST(Fields, AMemberThatIsMissingOrOfAnotherTypeIsNamed) {
  const json whole = fields_to_json(Whole{});
  for (const auto& [name, good] : whole.items()) {
    json less = whole;
    less.erase(name);
    const auto missing = read_fields<Whole>(less);
    if (name == "may_be_missing") {
      EXPECT_TRUE(missing);
    } else {
      ASSERT_FALSE(missing) << name;
      EXPECT_EQ(missing.error().message, name + ": is missing");
    }
    for (const json& value : {json(), json(-1), json("no"), json::array({1}), json::object()}) {
      if (value.type() == good.type() && (name == "text" || name == "may_be_missing")) continue;
      EXPECT_THAT(refusal(name.c_str(), value), ::testing::StartsWith(name)) << value;
    }
  }
  EXPECT_FALSE(read_fields<Whole>(json()));
  EXPECT_FALSE(read_fields<Whole>(json::array()));
}

TEST(Fields, RangesAreChecked) {
  EXPECT_EQ(refusal("small", 1), "small: a whole number from 2 to 65535 is expected");
  EXPECT_NE(refusal("small", 65536), "");
  EXPECT_NE(refusal("key", std::uint64_t{1} << 32), "");
  EXPECT_NE(refusal("psn", 1 << 24), "");
  EXPECT_NE(refusal("qpn", 1 << 24), "");
  EXPECT_EQ(refusal("path_mtu", 1000), "path_mtu: is no path MTU");
  EXPECT_NE(refusal("path_mtu", 8192), "");
  EXPECT_NE(refusal("ratio", 1.5), "");
  EXPECT_EQ(refusal("colour", "blue"), "colour: expected is one of: red, green");
  EXPECT_NE(refusal("address", "10.42"), "");
  EXPECT_EQ(refusal("address", "224.0.0.1"), "");
  EXPECT_NE(refusal("station", "224.0.0.1"), "");
  EXPECT_NE(refusal("station", "0.0.0.0"), "");
  EXPECT_EQ(refusal("version", 6), "version: is 6 there, and 5 here");
  EXPECT_EQ(refusal("text", "forbidden"), "text: is forbidden");
  EXPECT_EQ(refusal("item", {{"value", 10}}), "item.value: a whole number from 1 to 9 is expected");
  EXPECT_EQ(refusal("items", {{{"value", 1}}, {{"value", 0}}}),
            "items[1].value: a whole number from 1 to 9 is expected");
}

TEST(Fields, APeerIsToldThatItMayBeAnotherProgram) {
  const auto whole = fields_from_json<Whole>(json::object());
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().code, ErrorCode::io);
  EXPECT_THAT(whole.error().message, HasSubstr("version: is missing; is it the same program"));
}

}  // namespace
}  // namespace rockhopper::apps
