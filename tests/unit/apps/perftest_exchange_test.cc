// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/perftest_exchange.h"

#include <gtest/gtest.h>

namespace rockhopper::apps::perf {
namespace {

/// A peer that tells one version, and then whatever was said to it.
class PeerOfVersion final : public PerftestCarrier {
 public:
  explicit PeerOfVersion(std::string version) : next_(std::move(version)) {}

  Expected<void> send(std::string_view message) override {
    if (told_) next_ = message;
    return {};
  }
  Expected<std::string> receive(std::size_t bytes) override {
    told_ = true;
    next_.resize(bytes);
    return next_;
  }
  Expected<void> say_done() override { return {}; }
  bool peer_closed() override { return false; }
  PerftestForm form() const override { return PerftestForm::text; }

 private:
  std::string next_;
  bool told_ = false;
};

TEST(PerftestExchange, TheVersionIsANumber) {
  PeerOfVersion right("6.06");
  const auto greeting = PerftestExchange(right, true).greet(1024);
  ASSERT_TRUE(greeting) << greeting.error().message;
  EXPECT_EQ(greeting->version, "6.06");
  EXPECT_EQ(greeting->path_mtu, 1024u);
  // It goes into reports: no control characters, no broken UTF-8.
  for (const char* version : {"", "5.1", "6.06\xff", "6.06\x1b[2J", "nan", "inf", "rping-0"}) {
    PeerOfVersion wrong(version);
    EXPECT_FALSE(PerftestExchange(wrong, true).greet(1024)) << version;
  }
}

// It waits for a phase that no other version has.
TEST(PerftestExchange, OneVersionIsRefusedByName) {
  PeerOfVersion hanging("6.27");
  const auto refused = PerftestExchange(hanging, true).greet(1024);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("6.27"), std::string::npos) << refused.error().message;
  for (const char* version : {"6.26", "6.28", "6.29"}) {
    PeerOfVersion right(version);
    EXPECT_TRUE(PerftestExchange(right, true).greet(1024)) << version;
  }
}

}  // namespace
}  // namespace rockhopper::apps::perf
