// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/mr.h"

#include <fcntl.h>

#include "apps/verbs/node/memory_check.h"
#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/dm.h"
#include "apps/verbs/objects/errors.h"

namespace rockhopper::verbs {
namespace {

/// Asks for all of the address space, whatever is mapped when.
bool is_implicit(const Mr::Registration& wanted) {
  return (wanted.access & IBV_ACCESS_ON_DEMAND) != 0 && wanted.addr == nullptr &&
         wanted.length == SIZE_MAX;
}

/// 0, or the errno of memory or rights that cannot be registered.
int check(const Mr::Registration& wanted) {
  const auto access = access_of(wanted.access);
  if (!access || !roce::is_consistent_access(*access)) return EINVAL;
  // What is paged on demand need not be there yet.
  if ((wanted.access & IBV_ACCESS_ON_DEMAND) != 0) return 0;
  return check_memory(wanted.addr, wanted.length, (*access & roce::kAccessLocalWrite) != 0);
}

/// The rights as the engine takes them beside an iova.
std::uint32_t engine_access(const Mr::Registration& wanted) {
  const bool on_demand = (wanted.access & IBV_ACCESS_ON_DEMAND) != 0;
  return (*access_of(wanted.access) & ~std::uint32_t{roce::kAccessZeroBased}) |
         (on_demand ? std::uint32_t{roce::kAccessOnDemand} : 0u);
}

/// In a Section. Sets the key; 0, or an errno.
int enter(Pd& pd, Mr::Registration& wanted) {
  const auto region = pd.owner().engine().register_memory_iova(
      pd.engine_pd(), wanted.addr, wanted.length, engine_access(wanted), wanted.iova);
  if (!region) return errno_of(region.error());
  wanted.key = region->key;
  return 0;
}

std::uint64_t first_address(const void* addr, unsigned access) {
  return (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : reinterpret_cast<std::uintptr_t>(addr);
}

ibv_mr* register_memory(ibv_pd* verbs, Mr::Registration wanted) {
  auto* pd = object_of<Pd>(verbs);
  if (pd == nullptr) return refuse(EINVAL);
  if (!is_implicit(wanted)) {
    // Outside of the section, as it may take long.
    if (const int error = check(wanted); error != 0) return refuse(error);
  } else if (!access_of(wanted.access)) {
    return refuse(EINVAL);
  }
  const Section section(pd->node());
  if (!section) return refuse(EIO);
  if (const int error = enter(*pd, wanted); error != 0) return refuse(error);
  return new Mr(*pd, wanted);
}

/// As ibv_rereg_mr tells what has failed.
int failed(ibv_rereg_mr_err_code code, int error) {
  errno = error;
  return code;
}

}  // namespace

Mr::Mr(Pd& owner, const Registration& registration)
    : ibv_mr{}, Object(owner.owner(), kKind), registration_(registration), user_(&owner) {
  context = Object::owner().verbs();
  handle = id();
  if (registration_.dm != nullptr) registration_.dm->count_users(1);
  show();
}

void Mr::show() {
  pd = user_.pd();
  addr = registration_.dm != nullptr ? nullptr : registration_.addr;
  length = registration_.length;
  lkey = rkey = static_cast<std::uint32_t>(registration_.key);
  ResourceRecord record{.kind = ResourceKind::region, .values = {pd->handle, lkey, rkey}};
  record.set_wide(4, registration_.iova);
  record.set_wide(6, length);
  Object::show(record);
}

void Mr::change(Pd& owner, const Registration& registration) {
  registration_ = registration;
  user_.change(owner);
  show();
}

void Mr::release() {
  (void)owner().engine().deregister_memory(registration_.key);
  if (registration_.dm != nullptr) registration_.dm->count_users(-1);
  user_.release();
}

ibv_mr* reg_mr(ibv_pd* pd, void* addr, std::size_t length, int access) {
  const auto rights = static_cast<unsigned>(access);
  return register_memory(pd, {addr, length, first_address(addr, rights), rights});
}

ibv_mr* reg_mr_iova(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access) {
  return register_memory(pd, {addr, length, iova, static_cast<unsigned>(access)});
}

ibv_mr* reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                     unsigned access) {
  // The header's macro for ibv_reg_mr leads here, too, with the address of the memory.
  const bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  return register_memory(pd, {addr, length, zero_based ? 0 : iova, access});
}

ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t /*offset*/, std::size_t /*length*/,
                      std::uint64_t /*iova*/, int fd, int /*access*/) {
  if (object_of<Pd>(pd) == nullptr) return refuse(EINVAL);
  // Programs find out by a descriptor that is none whether there could be any.
  if (fcntl(fd, F_GETFD) < 0) return refuse(EBADF);
  return refuse(EOPNOTSUPP);
}

ibv_mr* reg_dm_mr(ibv_pd* verbs, ibv_dm* verbs_dm, std::uint64_t dm_offset, std::size_t length,
                  unsigned access) {
  auto* pd = object_of<Pd>(verbs);
  auto* dm = object_of<Dm>(verbs_dm);
  if (pd == nullptr || dm == nullptr || &pd->owner() != &dm->owner() ||
      (access & IBV_ACCESS_ZERO_BASED) == 0 || !dm->has(dm_offset, length)) {
    return refuse(EINVAL);
  }
  return register_memory(
      verbs,
      {.addr = dm->bytes() + dm_offset, .length = length, .iova = 0, .access = access, .dm = dm});
}

int rereg_mr(ibv_mr* verbs, int flags, ibv_pd* verbs_pd, void* addr, std::size_t length,
             int access) {
  auto* mr = object_of<Mr>(verbs);
  const auto wants = [flags](int flag) { return (flags & flag) != 0; };
  if (mr == nullptr || flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
      (wants(IBV_REREG_MR_CHANGE_TRANSLATION) && length == 0)) {
    return failed(IBV_REREG_MR_ERR_INPUT, EINVAL);
  }
  auto* pd = wants(IBV_REREG_MR_CHANGE_PD) ? object_of<Pd>(verbs_pd) : object_of<Pd>(mr->pd);
  if (pd == nullptr || &pd->owner() != &mr->owner()) return failed(IBV_REREG_MR_ERR_INPUT, EINVAL);
  Mr::Registration wanted = mr->registration();
  if (wants(IBV_REREG_MR_CHANGE_ACCESS)) wanted.access = static_cast<unsigned>(access);
  if (wants(IBV_REREG_MR_CHANGE_TRANSLATION)) {
    if (wanted.dm != nullptr) return failed(IBV_REREG_MR_ERR_INPUT, EINVAL);
    wanted.addr = addr;
    wanted.length = length;
    wanted.iova = first_address(addr, wanted.access);
  }
  if (const int error = check(wanted); error != 0) return failed(IBV_REREG_MR_ERR_CMD, error);
  const Section section(mr->node());
  if (!section) return failed(IBV_REREG_MR_ERR_CMD, EIO);
  // The key stays: peers that have it go on to use it.
  const auto changed = mr->owner().engine().change_memory(
      mr->key(), pd->engine_pd(), wanted.addr, wanted.length, engine_access(wanted), wanted.iova);
  if (!changed) return failed(IBV_REREG_MR_ERR_CMD, errno_of(changed.error()));
  mr->change(*pd, wanted);
  return 0;
}

int dereg_mr(ibv_mr* verbs) {
  auto* mr = object_of<Mr>(verbs);
  if (mr == nullptr) return EINVAL;
  const Section section(mr->node());
  if (!section) return 0;
  const auto gone = mr->owner().engine().deregister_memory(mr->key());
  if (!gone) return errno_of(gone.error());
  mr->abandon();
  delete mr;
  return 0;
}

}  // namespace rockhopper::verbs
