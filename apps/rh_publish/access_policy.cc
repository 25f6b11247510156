// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/access_policy.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/common/json.h"
#include "apps/rh_publish/names.h"

namespace rockhopper::apps::publish {

/// Makes a policy of a document.
class PolicyReader {
 public:
  explicit PolicyReader(std::span<const std::string> stores) : stores_(stores) {}

  [[nodiscard]] Expected<AccessPolicy> read(const nlohmann::json& document) {
    constexpr std::array kDirectory{std::pair<std::string_view, bool>{"all", true},
                                    std::pair<std::string_view, bool>{"own", false}};
    JsonObject object(document, "", errors_);
    for (JsonObject& subscriber : object.objects("subscribers")) {
      read_subscriber(subscriber);
    }
    policy_.everyone_ = read_stores(object, "everyone");
    policy_.all_see_all_ = object.choice<bool>("directory", kDirectory, std::optional<bool>(true));
    object.finish();
    if (errors_.any()) return tl::make_unexpected(errors_.first());
    return std::move(policy_);
  }

 private:
  void read_subscriber(JsonObject& object) {
    const std::string name = object.text("name");
    if (auto valid = check_name(name); !valid) object.fail("name", valid.error().message);
    AccessPolicy::Entry entry{.secret = object.text("secret"),
                              .grant = read_stores(object, "stores")};
    if (entry.secret.size() < AccessPolicy::kSecretMin ||
        entry.secret.size() > AccessPolicy::kSecretMax) {
      object.fail("secret", fmt::format("{} to {} bytes are expected", AccessPolicy::kSecretMin,
                                        AccessPolicy::kSecretMax));
    }
    if (!policy_.subscribers_.emplace(name, std::move(entry)).second) {
      object.fail("name", fmt::format("there is another {:?}", name));
    }
    object.finish();
  }

  AccessPolicy::Grant read_stores(JsonObject& object, const char* key) {
    AccessPolicy::Grant grant;
    const std::vector<std::string> names = object.texts(key);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == "*") {
        grant.all = true;
      } else if (std::find(stores_.begin(), stores_.end(), names[i]) == stores_.end()) {
        object.fail(fmt::format("{}[{}]", key, i).c_str(),
                    fmt::format("there is no store {:?}; there are: {}", names[i],
                                fmt::join(stores_, ", ")));
      } else {
        grant.stores.insert(names[i]);
      }
    }
    return grant;
  }

  std::span<const std::string> stores_;
  JsonErrors errors_;
  AccessPolicy policy_;
};

AccessPolicy AccessPolicy::open() {
  AccessPolicy policy;
  policy.open_ = true;
  policy.everyone_.all = true;
  return policy;
}

Expected<AccessPolicy> AccessPolicy::parse(std::string_view json,
                                           std::span<const std::string> stores) {
  ROCKHOPPER_TRY(auto document, parse_json(json));
  return PolicyReader(stores).read(document);
}

bool AccessPolicy::may_read(std::string_view subscriber, std::string_view store) const {
  if (everyone_.has(store)) return true;
  const auto found = subscribers_.find(subscriber);
  return found != subscribers_.end() && found->second.grant.has(store);
}

bool AccessPolicy::may_see(std::string_view subscriber, std::string_view store) const {
  return all_see_all_ || may_read(subscriber, store);
}

bool AccessPolicy::admits_anonymous() const {
  return everyone_.all || !everyone_.stores.empty() || all_see_all_;
}

std::optional<std::string_view> AccessPolicy::secret(std::string_view subscriber) const {
  const auto found = subscribers_.find(subscriber);
  if (found == subscribers_.end()) return std::nullopt;
  return found->second.secret;
}

}  // namespace rockhopper::apps::publish
