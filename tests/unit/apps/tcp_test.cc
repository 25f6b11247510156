// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/tcp.h"

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace rockhopper::apps {
namespace {

constexpr std::uint32_t kLongMs = 30'000;

/// Counts its turns, and says each time that there is more to do.
class Busy final : public Background {
 public:
  bool turn() override {
    ++turns;
    return true;
  }
  int turns = 0;
};

/// Both ends of a connection, made on this thread.
struct Pair {
  static Pair make() {
    NoBackground none;
    auto listener = TcpListener::open(0);
    EXPECT_TRUE(listener);
    auto client = TcpConnection::connect("localhost", listener->port(), kLongMs, none);
    EXPECT_TRUE(client) << client.error().message;
    auto server = listener->accept(none);
    EXPECT_TRUE(server);
    return {std::move(*client), std::move(*server)};
  }
  TcpConnection client;
  TcpConnection server;
};

TEST(Tcp, CarriesBytesAndLines) {
  NoBackground none;
  Pair pair = Pair::make();
  ASSERT_TRUE(pair.client.send("12345first\nsecond\n", kLongMs, none));
  std::array<char, 5> bytes;
  ASSERT_TRUE(pair.server.receive(bytes, kLongMs, none));
  EXPECT_EQ(std::string(bytes.data(), bytes.size()), "12345");
  EXPECT_EQ(pair.server.receive_line(kLongMs, none).value(), "first");
  EXPECT_EQ(pair.server.receive_line(kLongMs, none).value(), "second");
  EXPECT_EQ(pair.server.poll_line().value(), std::nullopt);
}

TEST(Tcp, AListenerHasClientsThatHaveComeAlready) {
  NoBackground none;
  auto listener = TcpListener::open(0);
  ASSERT_TRUE(listener);
  EXPECT_FALSE(listener->poll_accept().value().has_value());
  auto first = TcpConnection::connect("localhost", listener->port(), kLongMs, none);
  auto second = TcpConnection::connect("localhost", listener->port(), kLongMs, none);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(listener->poll_accept().value().has_value());
  EXPECT_TRUE(listener->poll_accept().value().has_value());
  EXPECT_FALSE(listener->poll_accept().value().has_value());
}

TEST(Tcp, AClosedPeerIsNoticedAfterWhatItSent) {
  NoBackground none;
  Pair pair = Pair::make();
  ASSERT_TRUE(pair.client.send("last\n", kLongMs, none));
  std::optional<TcpConnection>(std::move(pair.client)).reset();
  EXPECT_EQ(pair.server.receive_line(kLongMs, none).value(), "last");
  const auto line = pair.server.receive_line(kLongMs, none);
  ASSERT_FALSE(line);
  EXPECT_NE(line.error().code, ErrorCode::timeout);
  EXPECT_TRUE(pair.server.peer_closed());
}

TEST(Tcp, TheBackgroundGoesOnWhileNothingComes) {
  Busy busy;
  Pair pair = Pair::make();
  std::array<char, 1> byte;
  const auto received = pair.server.receive(byte, 20, busy);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, ErrorCode::timeout);
  EXPECT_GT(busy.turns, 10);
}

TEST(Tcp, AnEndlessLineIsRefused) {
  NoBackground none;
  Pair pair = Pair::make();
  const std::string much(TcpConnection::kLineMax + 100'000, 'x');
  std::thread sender([&] {
    NoBackground own;
    (void)pair.client.send(much, kLongMs, own);
  });
  const auto line = pair.server.receive_line(kLongMs, none);
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, ErrorCode::io);
  std::optional<TcpConnection>(std::move(pair.server)).reset();
  sender.join();
}

TEST(Tcp, NoServerAndNoHostAreErrorsWithinTheTime) {
  NoBackground none;
  const std::uint16_t port = TcpListener::open(0)->port();  // closed with the statement
  const auto refused = TcpConnection::connect("localhost", port, 100, none);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(std::to_string(port)), std::string::npos);
  EXPECT_FALSE(TcpConnection::connect("no host has spaces", 1, 100, none));
}

}  // namespace
}  // namespace rockhopper::apps
