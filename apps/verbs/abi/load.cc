// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/abi/load.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <pthread.h>

#include "apps/verbs/abi/report.h"

namespace rockhopper::verbs {
namespace {

constexpr VerbsTable kNoVerbs = {};

// The compiler's own atomic operation: programs in C load this library, and std::atomic would be
// the only part of the C++ library in it.
const VerbsTable* table = &kNoVerbs;
pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/// Writes the path of the engine library, or returns false if it is too long.
template <std::size_t kSize>
bool find_engine(char (&path)[kSize]) {
  Dl_info self = {};
  if (dladdr(&loading, &self) == 0 || self.dli_fname == nullptr) return false;
  const char* slash = std::strrchr(self.dli_fname, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - self.dli_fname) + 1;
  const int size = std::snprintf(path, kSize, "%.*s%s", folder, self.dli_fname, kEngineLibrary);
  return size > 0 && static_cast<std::size_t>(size) < kSize;
}

const VerbsTable* load_table() {
  char path[PATH_MAX];
  if (!find_engine(path)) {
    report("the path of this library is too long to find the engine library beside it");
    return nullptr;
  }
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    report("no device can be opened without the engine library: ", dlerror());
    return nullptr;
  }
  void* symbol = dlsym(library, kGetVerbsTable);
  const auto get_table = reinterpret_cast<GetVerbsTable*>(symbol);
  const VerbsTable* loaded = get_table != nullptr ? get_table(kTableVersion) : nullptr;
  if (loaded == nullptr || loaded->version != kTableVersion) {
    report("the engine library is of another version than this library: ", path);
    dlclose(library);
    return nullptr;
  }
  return loaded;
}

}  // namespace

const VerbsTable& loaded_table() { return *__atomic_load_n(&table, __ATOMIC_ACQUIRE); }

bool load_engine() {
  if (&loaded_table() != &kNoVerbs) return true;
  pthread_mutex_lock(&loading);
  if (&loaded_table() == &kNoVerbs) {
    if (const VerbsTable* loaded = load_table(); loaded != nullptr) {
      __atomic_store_n(&table, loaded, __ATOMIC_RELEASE);
    }
  }
  pthread_mutex_unlock(&loading);
  if (&loaded_table() != &kNoVerbs) return true;
  errno = ENOSYS;
  return false;
}

}  // namespace rockhopper::verbs
