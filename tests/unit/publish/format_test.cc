// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/format.h"

#include <optional>

#include <boost/beast/core/detail/base64.hpp>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/rh_publish/framing.h"
#include "tests/support/seed.h"
#include "tests/unit/publish/source_helpers.h"

namespace rockhopper::apps::subscribe::format_test {
namespace {

Delivery delivery_of(std::string_view payload) {
  return {.store = "news",
          .epoch = UINT64_MAX,
          .sequence = 7,
          .time_ns = 1'700'000'000'123'456'789,
          .payload = std::as_bytes(std::span(payload.data(), payload.size()))};
}

nlohmann::json json_of(std::string_view payload) {
  std::string out;
  append(Format::json, delivery_of(payload), out);
  EXPECT_EQ(out.find('\n'), out.size() - 1);
  return nlohmann::json::parse(out);
}

TEST(Format, LinesAndRecordsAreWhatAPublisherReads) {
  roce::SeededRandom random(test::seed());
  for (const auto& [format, framing] : {std::pair{Format::lines, publish::Framing::lines},
                                        std::pair{Format::records, publish::Framing::records}}) {
    for (const std::size_t length : {0u, 1u, 255u, 256u, 70'000u}) {
      const std::string message =
          publish::random_message(random, length, format == Format::records);
      std::string out = "x";
      append(format, delivery_of(message), out);
      const auto bytes = std::as_bytes(std::span(out)).subspan(1);
      const publish::Frame frame = publish::first_frame(framing, bytes, 0, length);
      EXPECT_EQ(frame.kind, publish::Frame::Kind::whole);
      EXPECT_EQ(frame.taken, bytes.size());
      EXPECT_EQ(
          std::string(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size()),
          message);
    }
  }
}

TEST(Format, AJsonObjectTellsWhereAMessageIsFrom) {
  const auto object = json_of("text");
  EXPECT_EQ(object["store"], "news");
  EXPECT_EQ(object["epoch"], UINT64_MAX);
  EXPECT_EQ(object["seq"], 7);
  EXPECT_EQ(object["time_ns"], 1'700'000'000'123'456'789u);
  EXPECT_EQ(object["text"], "text");
}

TEST(Format, TextIsTextInJson) {
  for (const std::string& text : {std::string(), std::string("a\nb\"c\\d\t"), std::string("\0x", 2),
                                  std::string("\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\xa7")}) {
    const auto object = json_of(text);
    EXPECT_EQ(object["text"], text);
    EXPECT_FALSE(object.contains("base64"));
  }
}

TEST(Format, BytesThatAreNoTextAreLossless) {
  roce::SeededRandom random(test::seed());
  // A lone continuation, an overlong form, a surrogate, one beyond U+10FFFF, one that ends too
  // soon.
  std::vector<std::string> messages{"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                    "ab\xe2\x82"};
  for (std::size_t length = 1; length < 200; ++length) {
    messages.push_back("\xff" + publish::random_message(random, length, true));
  }
  for (const std::string& message : messages) {
    const auto object = json_of(message);
    ASSERT_TRUE(object.contains("base64"));
    EXPECT_FALSE(object.contains("text"));
    const std::string text = object["base64"];
    namespace base64 = boost::beast::detail::base64;
    std::string back(base64::decoded_size(text.size()), '\0');
    back.resize(base64::decode(back.data(), text.data(), text.size()).first);
    EXPECT_EQ(back, message);
  }
}

// PB-21
TEST(Format, ALossIsAnObjectInJsonAndNothingElsewhere) {
  const Loss loss{.store = "news", .epoch = 3, .first = 10, .last = 12};
  std::string out;
  append(Format::lines, loss, out);
  append(Format::records, loss, out);
  EXPECT_EQ(out, "");
  append(Format::json, loss, out);
  EXPECT_EQ(nlohmann::json::parse(out),
            (nlohmann::json{{"store", "news"}, {"epoch", 3}, {"lost", {10, 12}}}));
}

TEST(Format, HasNames) {
  EXPECT_EQ(parse_name<Format>("lines"), Format::lines);
  EXPECT_EQ(parse_name<Format>("records"), Format::records);
  EXPECT_EQ(parse_name<Format>("json"), Format::json);
  EXPECT_EQ(parse_name<Format>("xml"), std::nullopt);
}

}  // namespace
}  // namespace rockhopper::apps::subscribe::format_test
