// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_run/environment.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/rh_run/sysfs_tree.h"
#include "apps/verbs/abi/environment.h"

namespace rockhopper::apps::launcher {
namespace {

constexpr char kLibraryPath[] = "LD_LIBRARY_PATH";
constexpr char kPreload[] = "LD_PRELOAD";
constexpr char kPathsLibrary[] = "/librh-paths.so";
constexpr char kVerbsLibrary[] = "/libibverbs.so.1";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

void set_if_given(const char* name, const std::string& value) {
  if (!value.empty()) set(name, value);
}

/// The parts of `list`, which stand between any of `separators`, without `taken_out`. The loader
/// takes an empty part of LD_LIBRARY_PATH for the current folder, so that stays.
std::vector<std::string> parts_without(const std::string& list, const char* separators,
                                       const std::vector<std::string>& taken_out) {
  std::vector<std::string> parts;
  if (list.empty()) return parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find_first_of(separators, begin), list.size());
    const std::string part = list.substr(begin, end - begin);
    if (std::find(taken_out.begin(), taken_out.end(), part) == taken_out.end()) {
      parts.push_back(part);
    }
    begin = end + 1;
  }
  return parts;
}

/// Puts `first` before the parts of the list in a variable, each once.
void put_first(const char* name, const char* separators, const std::vector<std::string>& first,
               const std::vector<std::string>& taken_out) {
  std::vector<std::string> parts = first;
  for (std::string& part : parts_without(variable(name), separators, taken_out)) {
    parts.push_back(std::move(part));
  }
  std::string joined;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) joined += ':';
    joined += part;
  }
  if (parts.empty()) {
    unsetenv(name);
  } else {
    set(name, joined);
  }
}

std::vector<std::string> preloads(const std::string& folder) {
  return {folder + kPathsLibrary, folder + kVerbsLibrary};
}

std::string joined_devices(const Options& options) {
  std::string names;
  for (const std::string& name : options.devices) {
    names += names.empty() ? "" : ",";
    names += name;
  }
  return names;
}

}  // namespace

Expected<std::string> library_folder() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(ErrorCode::io, "/proc/self/exe cannot be read: {}", error.message());
  for (const char* relative : {"verbs", ROCKHOPPER_VERBS_FROM_BIN}) {
    const auto folder = (self.parent_path() / relative).lexically_normal();
    if (std::filesystem::exists(folder / "libibverbs.so.1", error)) return folder.string();
  }
  return fail(ErrorCode::io, "libibverbs.so.1 is neither in {}/verbs nor in {}",
              self.parent_path().string(),
              (self.parent_path() / ROCKHOPPER_VERBS_FROM_BIN).lexically_normal().string());
}

Expected<bool> is_off() {
  const std::string value = variable(verbs::kVerbsVariable);
  if (value.empty() || value == "off") return !value.empty();
  return fail(ErrorCode::invalid_argument, "{} is \"off\" or not set, not \"{}\"",
              verbs::kVerbsVariable, value);
}

Expected<void> set_environment(const Options& options, const std::string& folder) {
  set_if_given(verbs::kDevicesVariable, joined_devices(options));
  set_if_given("ROCKHOPPER_ADDRESSES", options.addresses);
  set_if_given("ROCKHOPPER_PCAP", options.pcap);
  set_if_given("ROCKHOPPER_FAULTS", options.faults);
  set_if_given("ROCKHOPPER_PROGRESS", options.progress);
  set_if_given("ROCKHOPPER_UPLINK", options.uplink);
  ROCKHOPPER_TRY(const std::string tree, render_tree());
  set(verbs::kTreeVariable, tree);

  // Another rh-run around this one may have preloaded both.
  auto first = preloads(folder);
  if (!options.preload) first.pop_back();
  put_first(kLibraryPath, ":;", {folder}, {folder});
  put_first(kPreload, ": ", first, first);
  return {};
}

void clear_environment(const std::string& folder) {
  put_first(kLibraryPath, ":;", {}, {folder});
  put_first(kPreload, ": ", {}, preloads(folder));
  unsetenv(verbs::kTreeVariable);
}

}  // namespace rockhopper::apps::launcher
