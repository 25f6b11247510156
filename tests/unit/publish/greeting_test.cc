// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/greeting.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "apps/rh_publish/proof.h"

namespace rockhopper::apps::publish::greeting_test {
namespace {

using nlohmann::json;

constexpr const char* kSecret = "sixteen bytes or more";

/// As it comes: numbers of a text that are not negative are unsigned.
json received(const json& object) { return json::parse(object.dump()); }

Challenge a_challenge() {
  return {.nonce = make_nonce().value(), .transport = Transport::dc, .path_mtu = 2048};
}

Hello a_hello() {
  return {.name = "ann",
          .nonce = make_nonce().value(),
          .path_mtu = 1024,
          .side = {.gid = *stack::IpAddress::parse("10.42.0.2"),
                   .qpn = 0x123456,
                   .psn = 7,
                   .access_key = UINT64_MAX}};
}

TEST(Greeting, ComesOutAsItWentIn) {
  const Challenge challenge = a_challenge();
  const auto same_challenge = fields_from_json<Challenge>(received(fields_to_json(challenge)));
  ASSERT_TRUE(same_challenge);
  EXPECT_EQ(same_challenge->nonce, challenge.nonce);
  EXPECT_EQ(same_challenge->transport, challenge.transport);
  EXPECT_EQ(same_challenge->path_mtu, challenge.path_mtu);

  const Hello hello = a_hello();
  const auto same_hello = hello_from_json(received(fields_to_json(hello)), challenge);
  ASSERT_TRUE(same_hello) << same_hello.error().message;
  EXPECT_EQ(same_hello->name, hello.name);
  EXPECT_EQ(same_hello->nonce, hello.nonce);
  EXPECT_EQ(same_hello->path_mtu, hello.path_mtu);
  EXPECT_EQ(same_hello->side.gid, hello.side.gid);
  EXPECT_EQ(same_hello->side.qpn, hello.side.qpn);
  EXPECT_EQ(same_hello->side.psn, hello.side.psn);
  EXPECT_EQ(same_hello->side.access_key, hello.side.access_key);

  const auto welcome =
      fields_from_json<Welcome>(received(fields_to_json(Welcome{.side = hello.side})));
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->side.qpn, hello.side.qpn);
}

/// `object` with another value of a member, "outer.inner" for one of an object in it.
json with(json object, const std::string& path, const json& value) {
  const std::size_t point = path.find('.');
  if (point == std::string::npos) {
    object[path] = value;
  } else {
    object[path.substr(0, point)][path.substr(point + 1)] = value;
  }
  return received(object);
}

TEST(Greeting, EveryMemberIsChecked) {
  ASSERT_TRUE(hello_from_json(received(fields_to_json(a_hello())), a_challenge()));
  const Challenge challenge = a_challenge();
  const json good_challenge = fields_to_json(challenge);
  for (const auto& [path, value] :
       std::initializer_list<std::pair<const char*, json>>{{"version", kGreetingVersion + 1},
                                                           {"nonce", "short"},
                                                           {"nonce", 7},
                                                           {"transport", "ud"},
                                                           {"path_mtu", 8192},
                                                           {"path_mtu", 1000},
                                                           {"path_mtu", -1}}) {
    EXPECT_FALSE(fields_from_json<Challenge>(with(good_challenge, path, value))) << path << value;
  }
  const json good = fields_to_json(a_hello());
  for (const auto& [path, value] :
       std::initializer_list<std::pair<const char*, json>>{{"name", "../x"},
                                                           {"name", nullptr},
                                                           {"nonce", ""},
                                                           {"path_mtu", 4096},
                                                           {"path_mtu", 0},
                                                           {"side", 1},
                                                           {"side.gid", "10.42"},
                                                           {"side.gid", "0.0.0.0"},
                                                           {"side.gid", "224.0.0.1"},
                                                           {"side.qpn", 1 << 24},
                                                           {"side.psn", 1 << 24},
                                                           {"side.access_key", "x"}}) {
    EXPECT_FALSE(hello_from_json(with(good, path, value), challenge)) << path << value;
  }
  for (const json& object : {json(), json::array(), json("x"), json::object()}) {
    EXPECT_FALSE(fields_from_json<Challenge>(object));
    EXPECT_FALSE(hello_from_json(object, challenge));
    EXPECT_FALSE(fields_from_json<Welcome>(object));
    EXPECT_FALSE(has_proof(object, kSecret, object));
    EXPECT_FALSE(has_proof(object, kSecret, object, object));
  }
}

// PB-9, PB-26: nobody can take another's proof for his own queue pair, or show it again.
TEST(Greeting, ASubscribersProofIsForThisChallengeAndThisHelloOnly) {
  const json challenge = fields_to_json(a_challenge());
  json hello = fields_to_json(a_hello());
  EXPECT_FALSE(has_proof(hello, kSecret, challenge));
  add_proof(hello, kSecret, challenge);
  EXPECT_TRUE(has_proof(hello, kSecret, challenge));
  EXPECT_TRUE(has_proof(json::parse(hello.dump()), kSecret, json::parse(challenge.dump())));
  EXPECT_FALSE(has_proof(hello, "another secret, as long", challenge));
  EXPECT_FALSE(has_proof(hello, kSecret, fields_to_json(a_challenge())));
  for (const auto& [path, value] :
       std::initializer_list<std::pair<const char*, json>>{{"name", "ben"},
                                                           {"nonce", make_nonce().value()},
                                                           {"path_mtu", 512},
                                                           {"side.gid", "10.42.0.3"},
                                                           {"side.qpn", 1},
                                                           {"side.psn", 8},
                                                           {"side.access_key", 1},
                                                           {"more", true},
                                                           {"proof", ""},
                                                           {"proof", 1}}) {
    EXPECT_FALSE(has_proof(with(hello, path, value), kSecret, challenge)) << path;
  }
}

TEST(Greeting, APublishersProofIsForThisGreetingOnly) {
  const json challenge = fields_to_json(a_challenge());
  json hello = fields_to_json(a_hello());
  add_proof(hello, kSecret, challenge);
  json welcome = fields_to_json(Welcome{.side = a_hello().side});
  add_proof(welcome, kSecret, challenge, hello);
  EXPECT_TRUE(has_proof(welcome, kSecret, challenge, hello));
  EXPECT_FALSE(has_proof(welcome, "another secret, as long", challenge, hello));
  EXPECT_FALSE(has_proof(welcome, kSecret, fields_to_json(a_challenge()), hello));
  EXPECT_FALSE(has_proof(welcome, kSecret, challenge, fields_to_json(a_hello())));
  EXPECT_FALSE(has_proof(with(welcome, "side.qpn", 1), kSecret, challenge, hello));
  // A subscriber's own proof sent back is none of a publisher.
  EXPECT_FALSE(has_proof(with(welcome, "proof", hello["proof"]), kSecret, challenge, hello));
}

}  // namespace
}  // namespace rockhopper::apps::publish::greeting_test
