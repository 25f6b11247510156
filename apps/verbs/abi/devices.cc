// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/abi/devices.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/verbs/abi/environment.h"
#include "apps/verbs/abi/report.h"

namespace rockhopper::verbs {
namespace {

/// Not a null pointer, and not the operations of any driver.
constexpr char kNobodysOperations[64] = {};

DeviceObject made[kDevicesMax];
std::size_t made_count = 0;
pthread_once_t made_once = PTHREAD_ONCE_INIT;

/// FNV-1a.
std::uint64_t add_to_hash(std::uint64_t hash, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) {
    hash = (hash ^ bytes[i]) * 0x100000001b3;
  }
  return hash;
}

std::uint64_t hash_of_machine() {
  std::uint64_t hash = 0xcbf29ce484222325;
  char boot_id[64];
  if (const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC); fd >= 0) {
    const ssize_t size = read(fd, boot_id, sizeof boot_id);
    if (size > 0) hash = add_to_hash(hash, boot_id, static_cast<std::size_t>(size));
    close(fd);
  }
  struct stat network = {};
  if (stat("/proc/self/ns/net", &network) == 0) {
    hash = add_to_hash(hash, &network.st_ino, sizeof network.st_ino);
  }
  return hash;
}

void make_device(const char* name, std::size_t size, std::size_t index) {
  DeviceObject& object = made[index];
  ibv_device& device = object.device;
  object.foreign_ops = kNobodysOperations;
  object.index = static_cast<int>(index);
  object.guid = node_guid(object.index);
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  std::memcpy(device.name, name, size);
  std::snprintf(device.dev_name, sizeof device.dev_name, "uverbs%zu", index);
  std::snprintf(device.dev_path, sizeof device.dev_path, "/sys/class/infiniband_verbs/uverbs%zu",
                index);
  std::snprintf(device.ibdev_path, sizeof device.ibdev_path, "/sys/class/infiniband/%.*s",
                static_cast<int>(size), name);
}

bool is_made(const char* name, std::size_t size) {
  for (std::size_t i = 0; i < made_count; ++i) {
    const char* other = made[i].device.name;
    if (std::strlen(other) == size && std::memcmp(other, name, size) == 0) return true;
  }
  return false;
}

void make_devices() {
  const char* verbs = std::getenv(kVerbsVariable);
  if (verbs != nullptr && std::strcmp(verbs, "off") == 0) {
    report("ROCKHOPPER_VERBS=off, so there is no device here; rh-run COMMAND shows the system's");
    return;
  }
  if (verbs != nullptr && *verbs != '\0') {
    report("ROCKHOPPER_VERBS is \"off\" or not set, so there is no device here: ", verbs);
    return;
  }
  const char* names = std::getenv(kDevicesVariable);
  if (names == nullptr || *names == '\0') names = kDefaultDevices;
  while (true) {
    const std::size_t size = std::strcspn(names, ",");
    if (!is_device_name(names, size) || is_made(names, size) || made_count == kDevicesMax) {
      report("ROCKHOPPER_DEVICES is not up to eight different names, as rh0,rh1: ", names);
      return;
    }
    make_device(names, size, made_count);
    ++made_count;
    if (names[size] == '\0') return;
    names += size + 1;
  }
}

}  // namespace

Devices devices() {
  pthread_once(&made_once, make_devices);
  return {.count = made_count, .objects = made};
}

bool is_device_name(const char* name, std::size_t size) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (size == 0 || size >= kDeviceNameMax || !is_letter(name[0])) return false;
  for (std::size_t i = 1; i < size; ++i) {
    const bool is_digit = name[i] >= '0' && name[i] <= '9';
    if (!is_letter(name[i]) && !is_digit && name[i] != '_' && name[i] != '-') return false;
  }
  return true;
}

std::uint64_t node_guid(int index) {
  const std::uint64_t hash = hash_of_machine();
  const std::uint64_t mixed = add_to_hash(hash, &index, sizeof index);
  // The first byte of an EUI-64 says that software chose it, and that it is of one node.
  return (mixed & ~(std::uint64_t{0xff} << 56)) | std::uint64_t{0x02} << 56;
}

}  // namespace rockhopper::verbs
