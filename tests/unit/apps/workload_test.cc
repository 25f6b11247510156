// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_perf/workload.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/rh_perf/lock_words.h"
#include "tests/support/seed.h"
#include "tests/unit/apps/fake_backend.h"

namespace rockhopper::apps::perf::workload_test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kSecond = 1'000'000'000;

/// A client and a server joined by fake devices, on one thread.
class Lab {
 public:
  explicit Lab(const Agreement& agreement)
      : agreement_(agreement), layout_(Layout::make(agreement_).value()) {
    client_device.set_peer(&server_device);
    server_device.set_peer(&client_device);
    const Side client_side = client_device.prepare(agreement_, layout_.bytes(), {}).value();
    const Side server_side = server_device.prepare(agreement_, layout_.bytes(), {}).value();
    client = std::make_unique<Traffic>(client_device, agreement_, layout_, server_side, watch_);
    server = std::make_unique<Traffic>(server_device, agreement_, layout_, client_side, watch_);
  }

  void start(const RunSpec& spec) {
    ASSERT_TRUE(client->start(spec));
    ASSERT_TRUE(server->start(spec));
    pong_ = std::make_unique<PongServer>(*server, spec);
    client_device.on_poll = [this, spec] {
      ASSERT_TRUE(server->poll_unwatched());
      if (spec.kind != RunKind::latency) return;
      ASSERT_TRUE(pong_->turn());
    };
  }

  /// A validation: what either end finds.
  Expected<void> validate(const RunSpec& spec) {
    Expected<void> served;
    EXPECT_TRUE(client->start(spec));
    EXPECT_TRUE(server->start(spec));
    client_device.on_poll = [this, &served] {
      auto polled = server->poll_unwatched();
      if (!polled && served) served = tl::make_unexpected(polled.error());
    };
    auto run = run_validation(*client, spec);
    if (!run) return run;
    while (server->poll_unwatched().value_or(false)) {
    }
    return served.and_then([this] { return server->check_validation(); });
  }

  FakeBackend client_device;
  FakeBackend server_device;
  std::unique_ptr<Traffic> client;
  std::unique_ptr<Traffic> server;

 private:
  Agreement agreement_;
  Layout layout_;
  Watch watch_{[]() -> Expected<void> { return {}; }, kSecond};
  std::unique_ptr<PongServer> pong_;
};

Agreement make_agreement(std::uint32_t size, std::uint16_t qps = 1) {
  Agreement agreement;
  agreement.size_max = size;
  agreement.qps = qps;
  agreement.window = 16;
  agreement.receive_depth = 8;
  return agreement;
}

RunSpec make_spec(Operation operation, RunKind kind, std::uint32_t size) {
  RunSpec spec;
  spec.operation = operation;
  spec.kind = kind;
  spec.size = is_atomic(operation) ? 8 : size;
  spec.iterations = 100;
  spec.seed = 42;
  return spec;
}

class Workload : public ::testing::TestWithParam<Operation> {};

TEST_P(Workload, BandwidthCountsWhatWasAskedFor) {
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 50; ++round) {
    Agreement agreement = make_agreement(8, static_cast<std::uint16_t>(1 + random() % 3));
    agreement.window = static_cast<std::uint32_t>(1 + random() % 20);
    RunSpec spec = make_spec(GetParam(), RunKind::bandwidth, 8);
    spec.iterations = 1 + random() % 100;
    spec.warmup = random() % 50;
    const auto moderation = static_cast<std::uint32_t>(1 + random() % 40);
    SCOPED_TRACE(fmt::format("window {} iterations {} warm-up {} moderation {} qps {}",
                             agreement.window, spec.iterations, spec.warmup, moderation,
                             agreement.qps));
    Lab lab(agreement);
    lab.start(spec);
    const auto result = run_bandwidth(*lab.client, spec, moderation);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->operations, spec.iterations * agreement.qps);
    EXPECT_LE(lab.client_device.outstanding_max, agreement.window);
    for (std::uint16_t qp = 0; qp < agreement.qps; ++qp) {
      EXPECT_EQ(lab.client->posted(qp), spec.warmup + spec.iterations);
      if (is_atomic(GetParam()) && GetParam() != Operation::lock) {
        EXPECT_EQ(lab.server->target_words()[qp], lab.client->posted(qp));
      }
    }
    if (GetParam() == Operation::lock) {
      const std::uint64_t scopes = agreement.qps * (spec.warmup + spec.iterations);
      EXPECT_TRUE(check_lock_words(lab.server->target_words(), scopes));
    }
  }
}

TEST_P(Workload, BandwidthByTimeLeavesNothingOutstanding) {
  RunSpec spec = make_spec(GetParam(), RunKind::bandwidth, 8);
  spec.iterations = 0;
  spec.duration_ns = 2'000'000;
  Lab lab(make_agreement(8, 2));
  lab.start(spec);
  const auto result = run_bandwidth(*lab.client, spec, 5);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GT(result->operations, 0u);
  EXPECT_GE(result->seconds, 0.002);
  EXPECT_EQ(lab.client->completed(), lab.client->posted(0) + lab.client->posted(1));
}

TEST_P(Workload, LatencyTakesASampleForEachIteration) {
  RunSpec spec = make_spec(GetParam(), RunKind::latency, 64);
  spec.iterations = 300;  // more than the marks of WRITEs have values
  spec.warmup = 10;
  Lab lab(make_agreement(64));
  lab.start(spec);
  const auto result = run_latency(*lab.client, spec);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->operations, spec.iterations);
  ASSERT_TRUE(result->latency);
  EXPECT_EQ(result->latency->count, spec.iterations);
  EXPECT_LE(result->latency->min_ns, result->latency->p50_ns);
  EXPECT_LE(result->latency->p50_ns, result->latency->max_ns);
}

TEST_P(Workload, ValidationAcceptsAnHonestDevice) {
  for (const std::uint32_t size : {0u, 1u, 7u, 64u, 5000u}) {
    Lab lab(make_agreement(std::max(size, 8u), 3));
    const auto spec = make_spec(GetParam(), RunKind::validation, size);
    const auto valid = lab.validate(spec);
    EXPECT_TRUE(valid) << size << ": " << valid.error().message;
    // Again on the same queue pairs: nothing of the first time is left over.
    RunSpec again = spec;
    again.seed = 43;
    EXPECT_TRUE(lab.validate(again)) << size;
  }
}

TEST_P(Workload, ValidationFindsARequestThatWasNotExecuted) {
  Lab lab(make_agreement(100));
  int number = 0;
  lab.client_device.tamper = [&number](SendRequest&) { return ++number == 20 ? 0 : 1; };
  EXPECT_FALSE(lab.validate(make_spec(GetParam(), RunKind::validation, 100)));
}

TEST_P(Workload, ValidationFindsDataOfAnotherPlace) {
  Lab lab(make_agreement(100));
  int number = 0;
  lab.client_device.tamper = [&number](SendRequest& request) {
    if (++number != 20) return 1;
    // The neighbouring slot: of the sender's memory for SEND and WRITE, of the target's else.
    const bool outgoing =
        request.operation == Operation::send || request.operation == Operation::write;
    if (outgoing) {
      request.local_offset -= 128;
    } else {
      request.remote_address -= 128;
    }
    return 1;
  };
  EXPECT_FALSE(lab.validate(make_spec(GetParam(), RunKind::validation, 100)));
}

TEST_P(Workload, AFailedCompletionEndsTheRun) {
  RunSpec spec = make_spec(GetParam(), RunKind::bandwidth, 8);
  Lab lab(make_agreement(8));
  lab.start(spec);
  lab.client_device.next_error = "remote access error";
  const auto result = run_bandwidth(*lab.client, spec, 1);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("remote access error"));
}

INSTANTIATE_TEST_SUITE_P(Operations, Workload,
                         ::testing::Values(Operation::send, Operation::write, Operation::read,
                                           Operation::cas, Operation::faa, Operation::lock),
                         [](const auto& item) { return std::string(name_of(item.param)); });

TEST(WorkloadAtomics, OneExecutedTwiceIsFound) {
  for (const Operation operation : {Operation::cas, Operation::faa, Operation::lock}) {
    Lab lab(make_agreement(8));
    int number = 0;
    lab.client_device.tamper = [&number](SendRequest&) { return ++number == 20 ? 2 : 1; };
    RunSpec spec = make_spec(operation, RunKind::bandwidth, 8);
    lab.start(spec);
    ASSERT_TRUE(run_bandwidth(*lab.client, spec, 4));
    if (operation == Operation::faa) {
      EXPECT_NE(lab.server->target_words()[0], lab.client->posted(0));
    }
    if (operation == Operation::lock) {
      EXPECT_FALSE(check_lock_words(lab.server->target_words(), lab.client->posted(0)));
    }
    number = 0;
    EXPECT_FALSE(lab.validate(make_spec(operation, RunKind::validation, 8)));
  }
}

TEST(WorkloadSends, AMessageThatIsSentAnewTakesTheNextReceive) {
  Lab lab(make_agreement(5000, 2));
  int number = 0;
  lab.client_device.interrupts = [&number] { return ++number % 5 == 0; };
  const auto valid = lab.validate(make_spec(Operation::send, RunKind::validation, 5000));
  EXPECT_TRUE(valid) << valid.error().message;
  EXPECT_GE(number, 5);
}

TEST(WorkloadLocks, TheWordIsFreeAndHasCountedTheScopes) {
  const auto good = [](std::uint64_t word, std::uint64_t counter, std::uint64_t scopes) {
    return check_lock_words(std::vector{word, counter}, scopes).has_value();
  };
  constexpr std::uint64_t kOnce = std::uint64_t{1} << 40;
  EXPECT_TRUE(good(0, 0, 0));
  EXPECT_TRUE(good(7 * kOnce, 7, 7));
  EXPECT_TRUE(good(0, 1 << 24, 1 << 24));  // the generation has 24 bits
  EXPECT_FALSE(good(6 * kOnce, 7, 7));
  EXPECT_FALSE(good(7 * kOnce, 6, 7));
  EXPECT_FALSE(good(7 * kOnce | std::uint64_t{1} << 36, 7, 7));  // held
  EXPECT_FALSE(good(7 * kOnce | std::uint64_t{1} << 32, 7, 7));  // somebody waits
}

TEST(WorkloadWatch, SilenceIsAFailureOnlyWhileWaiting) {
  int checks = 0;
  Watch watch(
      [&checks]() -> Expected<void> {
        ++checks;
        return {};
      },
      1'000'000);
  watch.set_impatient(false);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(watch.turn(false));
  }
  EXPECT_GT(checks, 0);
  watch.set_impatient(true);
  Expected<void> turned;
  while (turned) {
    turned = watch.turn(false);
  }
  EXPECT_EQ(turned.error().code, ErrorCode::timeout);
}

}  // namespace
}  // namespace rockhopper::apps::perf::workload_test
