// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/advise_mr.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/verbs/node/memory_check.h"
#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/errors.h"
#include "apps/verbs/objects/mr.h"

namespace rockhopper::verbs {
namespace {

struct Piece {
  std::uintptr_t address = 0;
  std::uint64_t length = 0;
  unsigned access = 0;
};

/// In a Section. The memory that an element names; nothing: no region of the domain has it.
std::optional<Piece> find(Pd& pd, const ibv_sge& element) {
  std::optional<Piece> piece;
  pd.owner().for_each_object([&](Object& object) {
    if (!object.is(Kind::region)) return;
    const auto& mr = static_cast<const Mr&>(object);
    const Mr::Registration& has = mr.registration();
    const std::uint64_t offset = element.addr - has.iova;
    if (mr.lkey != element.lkey || mr.pd != &pd || element.addr < has.iova || offset > has.length ||
        element.length > has.length - offset) {
      return;
    }
    // The address is kept as a number, because a region of the whole address space begins at the
    // null pointer, to which nothing may be added.
    piece = Piece{reinterpret_cast<std::uintptr_t>(has.addr) + offset, element.length, has.access};
  });
  return piece;
}

}  // namespace

int advise_mr(ibv_pd* verbs, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) {
  auto* pd = object_of<Pd>(verbs);
  if (pd == nullptr || list == nullptr || count == 0 ||
      (flags & ~static_cast<std::uint32_t>(IBV_ADVISE_MR_FLAG_FLUSH)) != 0) {
    return EINVAL;
  }
  if (number_of(advice) > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return EOPNOTSUPP;
  const bool writes = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  std::vector<Piece> pieces;
  {
    const Section section(pd->node());
    if (!section) return EIO;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto piece = find(*pd, list[i]);
      if (!piece) return EFAULT;
      if (writes && (piece->access & IBV_ACCESS_LOCAL_WRITE) == 0) return EPERM;
      pieces.push_back(*piece);
    }
  }
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  for (const Piece& piece : pieces) {
    const int error =
        check_memory(reinterpret_cast<const void*>(piece.address), piece.length, writes);
    if (error != 0 && (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0) return error;
  }
  return 0;
}

}  // namespace rockhopper::verbs
