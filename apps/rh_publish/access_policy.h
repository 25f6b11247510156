// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "stack/error.h"

namespace rockhopper::apps::publish {

/// Who may read which stores, as a policy file says:
///
///   {"subscribers": [{"name": "ann", "secret": "...", "stores": ["prices", "news"]},
///                    {"name": "ben", "secret": "...", "stores": ["*"]}],
///    "everyone": ["news"],
///    "directory": "all"}
///
/// "*" is every store; "everyone" are the stores that one may read without a name; "directory" is
/// whether all stores are shown to all ("all", as without it) or to those only who may read them
/// ("own").
class AccessPolicy {
 public:
  static constexpr std::size_t kSecretMin = 16;
  static constexpr std::size_t kSecretMax = 1024;

  /// Everybody may read everything, without a name.
  [[nodiscard]] static AccessPolicy open();
  /// `stores` are those that there are. An error is one line that begins with the member's path.
  [[nodiscard]] static Expected<AccessPolicy> parse(std::string_view json,
                                                    std::span<const std::string> stores);

  /// `subscriber` empty: somebody without a name.
  [[nodiscard]] bool may_read(std::string_view subscriber, std::string_view store) const;
  [[nodiscard]] bool may_see(std::string_view subscriber, std::string_view store) const;
  /// Whether anything may be read, or seen, without a name.
  [[nodiscard]] bool admits_anonymous() const;
  /// What the subscriber has to prove that it knows; nothing: there is no such subscriber.
  [[nodiscard]] std::optional<std::string_view> secret(std::string_view subscriber) const;
  [[nodiscard]] bool is_open() const { return open_; }

 private:
  struct Grant {
    bool all = false;
    std::set<std::string, std::less<>> stores{};
    [[nodiscard]] bool has(std::string_view store) const {
      return all || stores.find(store) != stores.end();
    }
  };
  struct Entry {
    std::string secret;
    Grant grant;
  };
  friend class PolicyReader;

  bool open_ = false;
  bool all_see_all_ = true;
  Grant everyone_;
  std::map<std::string, Entry, std::less<>> subscribers_;
};

}  // namespace rockhopper::apps::publish
