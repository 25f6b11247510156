// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/driver_folder.h"

#include <cassert>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <dlfcn.h>
#include <rte_build_config.h>

namespace rockhopper::stack {
namespace {

constexpr std::string_view kDriverFolder = RTE_EAL_PMD_PATH;
constexpr std::string_view kLibraryPrefix = "librte_";

bool is_hidden = false;
bool was_left_out = false;

struct DriverLibrary {
  std::string path;
  std::string driver;  ///< such as "net_memif"
};

/// Those of several names are there several times.
std::vector<DriverLibrary> libraries(std::error_code& error) {
  std::vector<DriverLibrary> all;
  std::filesystem::directory_iterator entry(kDriverFolder, error);
  for (; !error && entry != end(entry); entry.increment(error)) {
    const std::string name = entry->path().filename();
    const std::size_t length = name.find(".so");
    if (!name.starts_with(kLibraryPrefix) || length == std::string::npos) continue;
    all.push_back(
        {entry->path(), name.substr(kLibraryPrefix.size(), length - kLibraryPrefix.size())});
  }
  return all;
}

/// It stays for the life of the process, as all drivers do. False with dlerror() if it cannot.
bool load(const DriverLibrary& library) {
  return dlopen(library.path.c_str(), RTLD_NOW) != nullptr;
}

}  // namespace

DriverFolder::Hidden::Hidden() {
  assert(!is_hidden);
  is_hidden = true;
}

DriverFolder::Hidden::~Hidden() { is_hidden = false; }

bool DriverFolder::hides(std::string_view path) {
  if (!is_hidden || path != kDriverFolder) return false;
  was_left_out = true;
  return true;
}

Expected<void> DriverFolder::load_for(std::string_view device) {
  if (!was_left_out) return {};
  std::error_code error;
  const std::vector<DriverLibrary> all = libraries(error);
  if (error) return fail(ErrorCode::io, "{}: {}", kDriverFolder, error.message());
  const DriverLibrary* best = nullptr;
  for (const DriverLibrary& library : all) {
    if (device.starts_with(library.driver) &&
        (best == nullptr || library.driver.size() > best->driver.size())) {
      best = &library;
    }
  }
  const bool has_others_inside = device.find('(') != std::string_view::npos;
  if (best != nullptr && !has_others_inside) {
    if (!load(*best)) return fail(ErrorCode::io, "{}", dlerror());
    return {};
  }
  for (const DriverLibrary& library : all) {
    (void)load(library);
  }
  return {};
}

}  // namespace rockhopper::stack
