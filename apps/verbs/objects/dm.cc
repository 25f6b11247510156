// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/dm.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/errors.h"

namespace rockhopper::verbs {
namespace {

/// Devices copy words, and so do programs that are to run on any.
constexpr std::uint64_t kWord = 4;
constexpr std::uint32_t kMaxLogAlign = 12;
constexpr std::size_t kLeastAlign = 64;

bool is_copied(const Dm* dm, std::uint64_t offset, std::size_t length) {
  return dm != nullptr && !dm->node().abandoned() && offset % kWord == 0 && length % kWord == 0 &&
         dm->has(offset, length);
}

int copy_to(ibv_dm* verbs, std::uint64_t offset, const void* from, std::size_t length) {
  const auto* dm = object_of<Dm>(verbs);
  if (!is_copied(dm, offset, length)) return EINVAL;
  std::memcpy(dm->bytes() + offset, from, length);
  return 0;
}

int copy_from(void* to, ibv_dm* verbs, std::uint64_t offset, std::size_t length) {
  const auto* dm = object_of<Dm>(verbs);
  if (!is_copied(dm, offset, length)) return EINVAL;
  std::memcpy(to, dm->bytes() + offset, length);
  return 0;
}

}  // namespace

Dm::Dm(Context& owner, std::unique_ptr<std::byte, void (*)(void*)> bytes, std::size_t length)
    : ibv_dm{}, Object(owner, kKind), bytes_(std::move(bytes)), length_(length) {
  context = owner.verbs();
  memcpy_to_dm = &copy_to;
  memcpy_from_dm = &copy_from;
  handle = id();
}

ibv_dm* alloc_dm(ibv_context* verbs, ibv_alloc_dm_attr* attributes) {
  Context* context = Context::from(verbs);
  if (context == nullptr || attributes == nullptr || attributes->comp_mask != 0 ||
      attributes->length == 0 || attributes->log_align_req > kMaxLogAlign) {
    return refuse(EINVAL);
  }
  if (attributes->length > kMaxDmBytes) return refuse(ENOMEM);
  const std::size_t align = std::max(kLeastAlign, std::size_t{1} << attributes->log_align_req);
  const std::size_t size = (attributes->length + align - 1) / align * align;
  std::unique_ptr<std::byte, void (*)(void*)> bytes(
      static_cast<std::byte*>(std::aligned_alloc(align, size)), &std::free);
  if (bytes == nullptr) return refuse(ENOMEM);
  std::memset(bytes.get(), 0, size);
  const Section section(context->node());
  if (!section) return refuse(EIO);
  return new Dm(*context, std::move(bytes), attributes->length);
}

int free_dm(ibv_dm* verbs) { return end_unused<Dm>(verbs); }

}  // namespace rockhopper::verbs
