// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/policy_file.h"

#include <utility>

#include "apps/common/json.h"

namespace rockhopper::apps::publish {

Expected<PolicyFile> PolicyFile::open(const std::string& path, std::vector<std::string> stores) {
  PolicyFile file(path, std::move(stores));
  ROCKHOPPER_TRY(file.read());
  return file;
}

bool PolicyFile::is_exposed() const {
  return version_ && (version_->mode & (S_IRGRP | S_IROTH)) != 0;
}

std::optional<PolicyFile::Version> PolicyFile::look() const {
  struct stat status = {};
  if (::stat(path_.c_str(), &status) != 0) return std::nullopt;
  return Version{.device = status.st_dev,
                 .inode = status.st_ino,
                 .bytes = status.st_size,
                 .changed_s = status.st_mtim.tv_sec,
                 .changed_ns = status.st_mtim.tv_nsec,
                 .mode = status.st_mode};
}

Expected<void> PolicyFile::read() {
  // Before the file: if it changes meanwhile, it is read again.
  version_ = look();
  ROCKHOPPER_TRY(auto text, read_text_file(path_));
  auto policy = AccessPolicy::parse(text, stores_);
  if (!policy) return fail(ErrorCode::invalid_argument, "{}: {}", path_, policy.error().message);
  policy_ = std::move(*policy);
  return {};
}

Expected<bool> PolicyFile::poll(std::uint64_t now_ns, bool at_once) {
  if (!at_once && now_ns < next_look_ns_) return false;
  next_look_ns_ = now_ns + kLookNs;
  // Who replaces a file by renaming leaves none for no moment, who writes it anew an incomplete one
  // for some: that is an error, and then a change.
  if (!at_once && look() == version_) return false;
  ROCKHOPPER_TRY(read());
  return true;
}

}  // namespace rockhopper::apps::publish
