// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/common/queue_address.h"
#include "apps/common/transport.h"

namespace rockhopper::apps::publish {

/// What a publisher and a subscriber say to each other by TCP, each an object of one member:
///
///   publisher                                   subscriber
///   challenge {version, nonce, transport, path_mtu}
///                                               hello {name, nonce, path_mtu, side, proof}
///   welcome   {side, proof}
///   end       {}        nothing more is published
///
/// and `error` of either. A subscriber closes the connection when it leaves. Whoever has a name
/// proves that it knows its secret, and so does the publisher: each by an HMAC over all that both
/// have said before, so that neither the queue pairs nor the nonces can be another's.
inline constexpr std::uint64_t kGreetingVersion = 1;

struct Challenge {
  std::string nonce;
  Transport transport = Transport::rc;
  std::uint16_t path_mtu = 1024;  ///< the largest
  void describe(Fields& fields);
};

struct Hello {
  std::string name;  ///< empty: none
  std::string nonce;
  std::uint16_t path_mtu = 1024;  ///< for both
  QueueAddress side;
  void describe(Fields& fields);
};

struct Welcome {
  QueueAddress side;
  void describe(Fields& fields);
};

/// `challenge` is what the hello answers.
[[nodiscard]] Expected<Hello> hello_from_json(const nlohmann::json& object,
                                              const Challenge& challenge);

/// Adds the subscriber's proof to a hello.
void add_proof(nlohmann::json& hello, std::string_view secret, const nlohmann::json& challenge);
[[nodiscard]] bool has_proof(const nlohmann::json& hello, std::string_view secret,
                             const nlohmann::json& challenge);
/// Adds the publisher's proof to a welcome; `hello` is as the subscriber has sent it.
void add_proof(nlohmann::json& welcome, std::string_view secret, const nlohmann::json& challenge,
               const nlohmann::json& hello);
[[nodiscard]] bool has_proof(const nlohmann::json& welcome, std::string_view secret,
                             const nlohmann::json& challenge, const nlohmann::json& hello);

}  // namespace rockhopper::apps::publish
