// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

// What programs ask of a device before it is opened, and of the process. None of it starts
// anything.

#include <cerrno>
#include <cstdlib>

#include <endian.h>
#include <infiniband/verbs.h>

#include "apps/verbs/abi/devices.h"

// A macro of <infiniband/verbs.h> in front of the function.
#undef ibv_get_device_list

using rockhopper::verbs::devices;
using rockhopper::verbs::object_of;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  if (count != nullptr) *count = 0;
  const auto all = devices();
  void* memory = std::calloc(all.count + 1, sizeof(ibv_device*));
  if (memory == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* list = static_cast<ibv_device**>(memory);
  for (std::size_t i = 0; i < all.count; ++i) {
    list[i] = &all.objects[i].device;
  }
  if (count != nullptr) *count = static_cast<int>(all.count);
  return list;
}

void ibv_free_device_list(ibv_device** list) { std::free(list); }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }
int ibv_get_device_index(ibv_device* device) { return object_of(*device).index; }
__be64 ibv_get_device_guid(ibv_device* device) { return htobe64(object_of(*device).guid); }

// Copies go through the addresses of the process that makes them, so a page that is copied at a
// write after fork() does no harm, and nobody has to keep pages out of the child.
int ibv_fork_init() { return 0; }
ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
int ibv_dontfork_range(void*, std::size_t) { return 0; }
int ibv_dofork_range(void*, std::size_t) { return 0; }

/// Drivers of before 2007 called it from their constructors.
void ibv_register_driver(const char*, void*) {}

}  // extern "C"
