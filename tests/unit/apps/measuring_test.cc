// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/measuring.h"

#include <array>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rockhopper::apps {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

enum class Work : std::uint8_t { push, pull };
constexpr auto names_of(Work) { return std::array{Names{"push"}, Names{"pull"}}; }

struct Run {
  Work operation = Work::push;
  std::uint32_t size = 0;
  std::uint64_t seed = 0;
  void describe(Fields& fields) {
    fields.choice("operation", operation);
    fields.number("size", size);
    fields.number("seed", seed);
  }
};
struct Nothing {
  void describe(Fields&) {}
};
using TestGreeting = Greeting<Nothing, Nothing, 7>;

/// A client whose measurements are what the server answers.
class Client final : public MeasuringClient<Run> {
 public:
  Client(const MeasuringOptions& options, std::vector<Run> runs)
      : MeasuringClient(options, background_, std::move(runs), 100) {}

  mutable std::vector<std::string> titles;  ///< that were asked for

 private:
  [[nodiscard]] Expected<void> greet() override {
    ROCKHOPPER_TRY(channel_->send("hello", fields_to_json(TestGreeting{})));
    ROCKHOPPER_TRY(channel_->receive<TestGreeting>("welcome"));
    return {};
  }
  [[nodiscard]] json details() const override { return {{"program", "test"}}; }
  [[nodiscard]] std::string title(const Run& run, bool first) const override {
    titles.push_back(std::string(name_of(run.operation)) + (first ? " first" : ""));
    return titles.back();
  }
  [[nodiscard]] Expected<ResultLine> measure(const Run& run) override {
    ROCKHOPPER_TRY(start(run));
    ROCKHOPPER_TRY(auto answer, stop({{"largest", size_max()}}));
    return ResultLine{answer, "row"};
  }

  NoBackground background_;
};

/// A server that answers with what it has been told, or fails at messages of that size.
class Server final : public MeasuringServer<Run> {
 public:
  Server(const MeasuringOptions& options, std::uint32_t bad_size)
      : MeasuringServer(options, background_), bad_size_(bad_size) {}

 private:
  [[nodiscard]] Expected<void> greet() override {
    ROCKHOPPER_TRY(channel_->receive<TestGreeting>("hello"));
    set_watch([this] { return look_for_stop(); });
    return channel_->send("welcome", fields_to_json(TestGreeting{}));
  }
  [[nodiscard]] json details() const override { return {{"program", "test"}}; }
  [[nodiscard]] Expected<Run> run_from_json(const json& object) const override {
    return fields_from_json<Run>(object);
  }
  [[nodiscard]] Expected<void> prepare(const Run& run) override {
    if (run.size == bad_size_) return fail(ErrorCode::unsupported, "no {} bytes here", run.size);
    return {};
  }
  [[nodiscard]] Expected<json> serve(const Run& run) override {
    while (!stop()) {
      ROCKHOPPER_TRY(watch_->turn(false));
    }
    return json{{"run", fields_to_json(run)}, {"stop", *stop()}};
  }
  [[nodiscard]] std::string served(const Run&) const override { return {}; }

  NoBackground background_;
  std::uint32_t bad_size_;
};

class Measuring : public ::testing::Test {
 protected:
  Measuring() {
    auto listener = TcpListener::open(0);
    EXPECT_TRUE(listener);
    options_.port = listener->port();
    options_.json = true;
    client_options_ = options_;
    client_options_.host = "127.0.0.1";
  }

  /// Both ends to their end; what the client's has been.
  Expected<void> run(Client& client, Server& server) {
    std::thread other([&] { server_result_ = server.run(); });
    auto result = client.run();
    other.join();
    return result;
  }

  MeasuringOptions options_;
  MeasuringOptions client_options_;
  Expected<void> server_result_;
};

TEST_F(Measuring, RunsAllAndBothEndsReportIt) {
  Client client(client_options_, {{Work::push, 8}, {Work::push, 64}, {Work::pull, 16}});
  Server server(options_, 1);
  ASSERT_TRUE(run(client, server));
  ASSERT_TRUE(server_result_);
  const json report = client.report();
  EXPECT_EQ(report["program"], "test");
  EXPECT_EQ(report["role"], "client");
  ASSERT_EQ(report["results"].size(), 3u);
  EXPECT_EQ(report["results"][2],
            json::parse(R"({"run": {"operation": "pull", "size": 16, "seed": 102},
                            "stop": {"largest": 64}})"));
  EXPECT_EQ(server.report()["role"], "server");
  EXPECT_EQ(server.report()["results"], report["results"]);
  EXPECT_EQ(client.titles, (std::vector<std::string>{"push first", "pull"}));
}

TEST_F(Measuring, AFailureHereIsTheOtherEndsToo) {
  Client client(client_options_, {{Work::push, 8}, {Work::push, 13}});
  Server server(options_, 13);
  const auto result = run(client, server);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the peer reports: no 13 bytes here");
  ASSERT_FALSE(server_result_);
  EXPECT_EQ(server_result_.error().message, "no 13 bytes here");
  EXPECT_EQ(client.report()["results"].size(), 1u) << "what was measured before stays";
}

TEST_F(Measuring, NothingButAStartIsServed) {
  Server server(options_, 1);
  std::thread other([&] { server_result_ = server.run(); });
  NoBackground none;
  auto connection = TcpConnection::connect("127.0.0.1", options_.port, 5'000, none);
  ASSERT_TRUE(connection);
  ControlChannel channel(std::move(*connection), none);
  ASSERT_TRUE(channel.send("hello", fields_to_json(TestGreeting{})));
  ASSERT_TRUE(channel.receive("welcome"));
  ASSERT_TRUE(channel.send("stop", json::object()));
  other.join();
  ASSERT_FALSE(server_result_);
  EXPECT_THAT(server_result_.error().message, HasSubstr("\"stop\" where \"start\" was due"));
}

}  // namespace
}  // namespace rockhopper::apps
