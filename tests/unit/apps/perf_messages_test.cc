// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/common/sizes.h"
#include "apps/rh_perf/messages.h"

namespace rockhopper::apps::perf::perf_messages_test {
namespace {

using nlohmann::json;

Agreement make_agreement() {
  Agreement agreement;
  agreement.qps = 2;
  agreement.size_max = 4096;
  return agreement;
}

Side make_side() {
  Side side;
  side.gid = *stack::IpAddress::parse("fd42::1");
  side.address = 0xfedcba9876543210;
  side.bytes = Layout::make(make_agreement())->bytes();
  side.rkey = 0xffffffff;
  side.qps = {{0x000001, 0xffffff, 0}, {0xabcdef, 0, UINT64_MAX}};
  return side;
}

/// A peer's end that has been checked against the agreement.
Expected<Side> side_from_json(const json& message) {
  ROCKHOPPER_TRY(auto side, fields_from_json<Side>(message));
  const Agreement agreement = make_agreement();
  ROCKHOPPER_TRY(check_side(side, agreement, Layout::make(agreement).value()));
  return side;
}

/// Through text, as on the wire.
json sent(const json& message) { return json::parse(message.dump()); }

TEST(PerfMessages, AgreementsComeBack) {
  Agreement agreement = make_agreement();
  agreement.transport = Transport::dc;
  agreement.path_mtu = 2048;
  agreement.window = 7;
  agreement.ack_timeout = 31;
  const auto back = fields_from_json<Agreement>(sent(fields_to_json(agreement)));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->transport, agreement.transport);
  EXPECT_EQ(back->qps, agreement.qps);
  EXPECT_EQ(back->window, agreement.window);
  EXPECT_EQ(back->receive_depth, agreement.receive_depth);
  EXPECT_EQ(back->size_max, agreement.size_max);
  EXPECT_EQ(back->outstanding_reads, agreement.outstanding_reads);
  EXPECT_EQ(back->path_mtu, agreement.path_mtu);
  EXPECT_EQ(back->ack_timeout, agreement.ack_timeout);
}

TEST(PerfMessages, SidesComeBack) {
  const Side side = make_side();
  const auto back = side_from_json(sent(fields_to_json(side)));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->gid, side.gid);
  EXPECT_EQ(back->address, side.address);
  EXPECT_EQ(back->bytes, side.bytes);
  EXPECT_EQ(back->rkey, side.rkey);
  ASSERT_EQ(back->qps.size(), 2u);
  EXPECT_EQ(back->qps[1].qpn, side.qps[1].qpn);
  EXPECT_EQ(back->qps[0].psn, side.qps[0].psn);
  EXPECT_EQ(back->qps[1].access_key, side.qps[1].access_key);
}

TEST(PerfMessages, RunsComeBack) {
  RunSpec spec;
  spec.operation = Operation::faa;
  spec.kind = RunKind::validation;
  spec.size = 8;
  spec.iterations = 1;
  spec.seed = UINT64_MAX;
  const auto back = run_spec_from_json(sent(fields_to_json(spec)), make_agreement());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->operation, spec.operation);
  EXPECT_EQ(back->kind, spec.kind);
  EXPECT_EQ(back->size, spec.size);
  EXPECT_EQ(back->seed, spec.seed);
}

/// Each member missing, and of each wrong type and value.
template <typename Parse>
void expect_every_member_checked(const json& good, Parse&& parse) {
  ASSERT_TRUE(parse(good));
  for (const auto& member : good.items()) {
    json bad = good;
    bad.erase(member.key());
    EXPECT_FALSE(parse(bad)) << member.key() << " missing";
    for (const json& value :
         {json(), json("no"), json(-1), json(1.5), json::array(), json::object()}) {
      if (value.type() == member.value().type() && member.value().is_string()) continue;
      bad = good;
      bad[member.key()] = value;
      EXPECT_FALSE(parse(bad)) << member.key() << " = " << value;
    }
  }
  EXPECT_FALSE(parse(json()));
  EXPECT_FALSE(parse(json::array()));
}

TEST(PerfMessages, NothingOfAPeerIsTakenOnTrust) {
  expect_every_member_checked(fields_to_json(make_agreement()),
                              [](const json& value) { return fields_from_json<Agreement>(value); });
  expect_every_member_checked(fields_to_json(make_side()),
                              [](const json& value) { return side_from_json(value); });
  expect_every_member_checked(fields_to_json(RunSpec{}), [](const json& value) {
    return run_spec_from_json(value, make_agreement());
  });
}

TEST(PerfMessages, RangesAreChecked) {
  const auto refused = [](const char* name, const json& value) {
    json message = fields_to_json(make_agreement());
    message[name] = value;
    return !fields_from_json<Agreement>(message);
  };
  EXPECT_TRUE(refused("qps", 0));
  EXPECT_TRUE(refused("qps", kQpsMax + 1));
  EXPECT_TRUE(refused("window", kDepthMax + 1));
  EXPECT_TRUE(refused("size_max", std::uint64_t{kSizeMax} + 1));
  EXPECT_TRUE(refused("path_mtu", 1000));
  EXPECT_TRUE(refused("path_mtu", 8192));
  EXPECT_TRUE(refused("ack_timeout", 32));
}

TEST(PerfMessages, ARunMustFitTheAgreement) {
  RunSpec spec;
  spec.size = 4097;
  EXPECT_FALSE(run_spec_from_json(fields_to_json(spec), make_agreement()));
  spec.operation = Operation::cas;
  spec.size = 16;
  EXPECT_FALSE(run_spec_from_json(fields_to_json(spec), make_agreement()));
  spec.operation = Operation::write;
  spec.kind = RunKind::latency;
  spec.size = 0;
  EXPECT_FALSE(run_spec_from_json(fields_to_json(spec), make_agreement()));
}

TEST(PerfMessages, LocksAreAgreedOn) {
  Agreement agreement = make_agreement();
  agreement.lock_mode = LockMode::target;
  const auto back = fields_from_json<Agreement>(sent(fields_to_json(agreement)));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->lock_mode, LockMode::target);
  json message = fields_to_json(agreement);
  message["lock_mode"] = "gate";
  EXPECT_FALSE(fields_from_json<Agreement>(message));

  RunSpec spec;
  spec.size = 8;
  EXPECT_FALSE(run_spec_from_json(fields_to_json(spec), agreement)) << "another operation";
  spec.operation = Operation::lock;
  EXPECT_TRUE(run_spec_from_json(fields_to_json(spec), agreement));
  EXPECT_FALSE(run_spec_from_json(fields_to_json(spec), make_agreement())) << "without locks";

  agreement.lock_mode = LockMode::cas;
  agreement.window = 1;
  EXPECT_TRUE(fields_from_json<Agreement>(fields_to_json(agreement)));
  agreement.window = 2;
  EXPECT_FALSE(fields_from_json<Agreement>(fields_to_json(agreement)));
  agreement.window = 1;
  agreement.transport = Transport::dc;
  EXPECT_FALSE(fields_from_json<Agreement>(fields_to_json(agreement)));
}

TEST(PerfMessages, WordsAndStatisticsOfLocks) {
  Agreement agreement = make_agreement();
  agreement.qps = 5;
  agreement.lock_mode = LockMode::target;
  EXPECT_TRUE(words_from_json(json::parse(R"({"words": [1, 2]})"), agreement));
  EXPECT_FALSE(words_from_json(json::parse(R"({"words": [1, 2, 3, 4, 5]})"), agreement));
  const auto statistics =
      lock_statistics_from_json(json::parse(R"({"locks": {"grants": 3, "waits": 0}})"));
  ASSERT_TRUE(statistics);
  EXPECT_EQ(*statistics, (LockStatistics{{"grants", 3}, {"waits", 0}}));
  for (const char* bad : {R"({})", R"({"locks": 1})", R"({"locks": {"grants": "3"}})",
                          R"({"locks": {"grants": -3}})"}) {
    EXPECT_FALSE(lock_statistics_from_json(json::parse(bad))) << bad;
  }
}

TEST(PerfMessages, OneWordForEachQueuePair) {
  const auto words = words_from_json(json::parse(R"({"words": [1, 2]})"), make_agreement());
  ASSERT_TRUE(words);
  EXPECT_EQ(*words, (std::vector<std::uint64_t>{1, 2}));
  for (const char* bad : {R"({"words": [1]})", R"({"words": [1, "2"]})", R"({"words": [1, -2]})"}) {
    EXPECT_FALSE(words_from_json(json::parse(bad), make_agreement())) << bad;
  }
  EXPECT_FALSE(words_from_json(json::object(), make_agreement()));
}

}  // namespace
}  // namespace rockhopper::apps::perf::perf_messages_test
