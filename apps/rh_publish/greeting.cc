// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/greeting.h"

#include <nlohmann/json.hpp>

#include "apps/common/json_reader.h"
#include "apps/rh_publish/names.h"
#include "apps/rh_publish/proof.h"
#include "roce/wire/psn.h"

namespace rockhopper::apps::publish {
namespace {

constexpr const char* kProof = "proof";

nlohmann::json to_json(const Side& side) {
  return {{"gid", side.gid.to_string()},
          {"qpn", side.qpn},
          {"psn", side.psn},
          {"access_key", side.access_key}};
}

Side read_side(JsonReader& outer) {
  Side side;
  const nlohmann::json* object = outer.object("side");
  if (object == nullptr) return side;
  JsonReader reader(*object);
  side.gid = reader.address("gid");
  if (side.gid.is_unspecified() || side.gid.is_multicast()) reader.refuse("gid");
  side.qpn = reader.number<std::uint32_t>("qpn", 0, wire::kMask24);
  side.psn = reader.number<std::uint32_t>("psn", 0, wire::kMask24);
  side.access_key = reader.number<std::uint64_t>("access_key", 0, UINT64_MAX);
  if (!reader.result()) outer.refuse("side");
  return side;
}

std::string read_nonce(JsonReader& reader) {
  std::string nonce = reader.text("nonce");
  if (nonce.size() != kNonceDigits) reader.refuse("nonce");
  return nonce;
}

/// The same for both ends: members are in order, and what is proved is not part of it.
std::string without_proof(nlohmann::json object) {
  if (object.is_object()) object.erase(kProof);
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

constexpr std::string_view kSubscriber = "rh-subscribe";
constexpr std::string_view kPublisher = "rh-publish";

std::string proof_of(const nlohmann::json& object) {
  if (!object.is_object()) return {};
  const auto found = object.find(kProof);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

nlohmann::json to_json(const Challenge& challenge) {
  return {{"version", kGreetingVersion},
          {"nonce", challenge.nonce},
          {"transport", to_string(challenge.transport)},
          {"path_mtu", challenge.path_mtu}};
}

nlohmann::json to_json(const Hello& hello) {
  return {{"name", hello.name},
          {"nonce", hello.nonce},
          {"path_mtu", hello.path_mtu},
          {"side", to_json(hello.side)}};
}

nlohmann::json to_json(const Welcome& welcome) { return {{"side", to_json(welcome.side)}}; }

Expected<Challenge> challenge_from_json(const nlohmann::json& object) {
  JsonReader reader(object);
  Challenge challenge;
  (void)reader.number<unsigned>("version", kGreetingVersion, kGreetingVersion);
  challenge.nonce = read_nonce(reader);
  challenge.transport = reader.choice("transport", parse_transport);
  challenge.path_mtu = reader.path_mtu("path_mtu");
  ROCKHOPPER_TRY(reader.result());
  return challenge;
}

Expected<Hello> hello_from_json(const nlohmann::json& object, const Challenge& challenge) {
  JsonReader reader(object);
  Hello hello;
  hello.name = reader.text("name");
  if (!hello.name.empty() && !check_name(hello.name)) reader.refuse("name");
  hello.nonce = read_nonce(reader);
  hello.path_mtu = reader.path_mtu("path_mtu", challenge.path_mtu);
  hello.side = read_side(reader);
  ROCKHOPPER_TRY(reader.result());
  return hello;
}

Expected<Welcome> welcome_from_json(const nlohmann::json& object) {
  JsonReader reader(object);
  Welcome welcome{.side = read_side(reader)};
  ROCKHOPPER_TRY(reader.result());
  return welcome;
}

void add_proof(nlohmann::json& hello, std::string_view secret, const nlohmann::json& challenge) {
  hello[kProof] = make_proof(secret, {kSubscriber, challenge.dump(), without_proof(hello)});
}

bool has_proof(const nlohmann::json& hello, std::string_view secret,
               const nlohmann::json& challenge) {
  return is_proof(proof_of(hello), secret, {kSubscriber, challenge.dump(), without_proof(hello)});
}

void add_proof(nlohmann::json& welcome, std::string_view secret, const nlohmann::json& challenge,
               const nlohmann::json& hello) {
  welcome[kProof] = make_proof(
      secret, {kPublisher, challenge.dump(), without_proof(hello), without_proof(welcome)});
}

bool has_proof(const nlohmann::json& welcome, std::string_view secret,
               const nlohmann::json& challenge, const nlohmann::json& hello) {
  return is_proof(proof_of(welcome), secret,
                  {kPublisher, challenge.dump(), without_proof(hello), without_proof(welcome)});
}

}  // namespace rockhopper::apps::publish
