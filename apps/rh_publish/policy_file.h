// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "apps/rh_publish/access_policy.h"

namespace rockhopper::apps::publish {

/// A policy that is read from a file, and again when the file changes.
class PolicyFile {
 public:
  /// How often the file is looked at.
  static constexpr std::uint64_t kLookNs = 500'000'000;

  /// `stores` are those that there are. An error is one line that names the file.
  [[nodiscard]] static Expected<PolicyFile> open(const std::string& path,
                                                 std::vector<std::string> stores);

  [[nodiscard]] const AccessPolicy& policy() const { return policy_; }
  /// Whether others than its owner can read the file, and so the secrets.
  [[nodiscard]] bool is_exposed() const;

  /// Reads the file again if it has changed, or if `at_once`: true if policy() is another one now.
  /// With an error the policy stays as it was; it is told once for each change.
  [[nodiscard]] Expected<bool> poll(std::uint64_t now_ns, bool at_once);

 private:
  /// What tells one version of a file from another.
  struct Version {
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = 0;
    std::int64_t changed_s = 0;
    std::int64_t changed_ns = 0;
    mode_t mode = 0;
    bool operator==(const Version&) const = default;
  };

  PolicyFile(std::string path, std::vector<std::string> stores)
      : path_(std::move(path)), stores_(std::move(stores)) {}
  [[nodiscard]] Expected<void> read();
  [[nodiscard]] std::optional<Version> look() const;

  std::string path_;
  std::vector<std::string> stores_;
  AccessPolicy policy_;
  std::optional<Version> version_;  ///< that was read last
  std::uint64_t next_look_ns_ = 0;
};

}  // namespace rockhopper::apps::publish
