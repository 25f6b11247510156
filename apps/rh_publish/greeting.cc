// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/greeting.h"

#include "apps/rh_publish/names.h"
#include "apps/rh_publish/proof.h"

namespace rockhopper::apps::publish {
namespace {

constexpr const char* kProof = "proof";

void describe_nonce(Fields& fields, std::string& nonce) {
  fields.text("nonce", nonce);
  fields.require(nonce.size() == kNonceDigits, "nonce", "has another length");
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

void Challenge::describe(Fields& fields) {
  fields.constant("version", kGreetingVersion);
  describe_nonce(fields, nonce);
  fields.choice("transport", transport);
  fields.path_mtu("path_mtu", path_mtu);
}

void Hello::describe(Fields& fields) {
  fields.text("name", name);
  fields.require(name.empty() || check_name(name), "name", "is no name");
  describe_nonce(fields, nonce);
  fields.path_mtu("path_mtu", path_mtu);
  fields.object("side", side);
}

void Welcome::describe(Fields& fields) { fields.object("side", side); }

Expected<Hello> hello_from_json(const nlohmann::json& object, const Challenge& challenge) {
  ROCKHOPPER_TRY(auto hello, fields_from_json<Hello>(object));
  if (hello.path_mtu <= challenge.path_mtu) return hello;
  return bad_message("path_mtu: is above the publisher's");
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
