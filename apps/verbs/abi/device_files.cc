// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/abi/device_files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "apps/verbs/abi/devices.h"

namespace rockhopper::verbs {
namespace {

constexpr std::size_t kGuidSize = 20;

const DeviceObject* device_in(const char* folder) {
  const Devices all = devices();
  for (std::size_t i = 0; i < all.count; ++i) {
    if (std::strcmp(all.objects[i].device.ibdev_path, folder) == 0) return &all.objects[i];
  }
  return nullptr;
}

const DeviceFile* find_file(const char* name) {
  for (const DeviceFile& file : kDeviceFiles) {
    if (std::strcmp(file.name, name) == 0) return &file;
  }
  return nullptr;
}

}  // namespace

void write_guid(std::uint64_t guid, char* to, std::size_t size) {
  const auto quarter = [guid](unsigned shift) {
    return static_cast<unsigned>(guid >> shift & 0xffff);
  };
  std::snprintf(to, size, "%04x:%04x:%04x:%04x", quarter(48), quarter(32), quarter(16), quarter(0));
}

int read_device_file(const char* folder, const char* file, char* to, std::size_t size) {
  const DeviceObject* device = device_in(folder);
  const DeviceFile* found = device != nullptr ? find_file(file) : nullptr;
  if (found == nullptr) {
    errno = ENOENT;
    return -1;
  }
  char guid[kGuidSize];
  write_guid(device->guid, guid, sizeof guid);
  const char* text = found->text != nullptr ? found->text : guid;
  const std::size_t length = std::strlen(text);
  if (length >= size) {
    errno = EMSGSIZE;
    return -1;
  }
  std::memcpy(to, text, length + 1);
  return static_cast<int>(length);
}

}  // namespace rockhopper::verbs
