// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/ah.h"

#include <algorithm>
#include <cstddef>

#include <rte_ether.h>

#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/errors.h"
#include "stack/address_table.h"

namespace rockhopper::verbs {
namespace {

/// The GID that a datagram to `destination` is answered from. One to a group says nothing of which
/// of our addresses it was for, so that any of its family will do.
std::optional<std::uint8_t> index_to_answer_from(const roce::Engine& engine,
                                                 const stack::IpAddress& destination) {
  if (!destination.is_multicast()) return gid_index(engine, destination);
  for (std::uint16_t index = 0; index < stack::AddressTable::kLimit; ++index) {
    const auto own = engine.query_gid(index);
    if (own && !own->is_unspecified() && own->is_ipv4() == destination.is_ipv4()) {
      return static_cast<std::uint8_t>(index);
    }
  }
  return std::nullopt;
}

}  // namespace

Ah::Ah(Pd& owner, roce::AddressHandle& address)
    : ibv_ah{}, Object(owner.owner(), kKind), address_(address), user_(&owner) {
  context = Object::owner().verbs();
  pd = &owner;
  handle = id();
}

void Ah::release() {
  owner().engine().destroy_ah(&address_);
  user_.release();
}

ibv_ah* create_ah(ibv_pd* verbs, ibv_ah_attr* attributes) {
  auto* pd = object_of<Pd>(verbs);
  if (pd == nullptr || attributes == nullptr) return refuse(EINVAL);
  const Section section(pd->node());
  if (!section) return refuse(EIO);
  roce::Engine& engine = pd->owner().engine();
  const auto vector = vector_of(engine, *attributes);
  if (!vector) return refuse(vector.error());
  const auto address = engine.create_ah(pd->engine_pd(), *vector);
  if (!address) return refuse(address.error());
  return new Ah(*pd, **address);
}

int init_ah_from_wc(ibv_context* verbs, std::uint8_t port, ibv_wc* completion, ibv_grh* grh,
                    ibv_ah_attr* attributes) {
  Context* context = Context::from(verbs);
  if (context == nullptr || port != 1 || completion == nullptr || grh == nullptr ||
      attributes == nullptr || (completion->wc_flags & IBV_WC_GRH) == 0) {
    return EINVAL;
  }
  static_assert(sizeof(ibv_grh) == roce::kGrhBytes);
  const std::span<const std::byte, roce::kGrhBytes> bytes(reinterpret_cast<const std::byte*>(grh),
                                                          roce::kGrhBytes);
  const roce::AddressVector vector = roce::reply_vector(bytes);
  const Section section(context->node());
  if (!section) return EIO;
  const auto index = index_to_answer_from(context->engine(), vector.source);
  if (!index) return EINVAL;
  *attributes = attributes_of(context->engine(), vector);
  attributes->grh.sgid_index = *index;
  attributes->port_num = port;
  return 0;
}

ibv_ah* create_ah_from_wc(ibv_pd* verbs, ibv_wc* completion, ibv_grh* grh, std::uint8_t port) {
  auto* pd = object_of<Pd>(verbs);
  if (pd == nullptr) return refuse(EINVAL);
  ibv_ah_attr attributes{};
  const int error = init_ah_from_wc(pd->context, port, completion, grh, &attributes);
  if (error != 0) return refuse(error);
  return create_ah(verbs, &attributes);
}

int destroy_ah(ibv_ah* verbs) {
  auto* ah = object_of<Ah>(verbs);
  if (ah == nullptr) return EINVAL;
  const Section section(ah->node());
  if (!section) return 0;
  ah->abandon();
  delete ah;
  return 0;
}

int resolve_eth_l2_from_gid(ibv_context* verbs, ibv_ah_attr* attributes,
                            std::uint8_t mac[ETHERNET_LL_SIZE], std::uint16_t* vid) {
  Context* context = Context::from(verbs);
  if (context == nullptr || attributes == nullptr) return EINVAL;
  const rte_ether_addr& own = context->node().mac();
  if (mac != nullptr) std::copy_n(own.addr_bytes, ETHERNET_LL_SIZE, mac);
  if (vid != nullptr) *vid = 0xffff;  // no VLAN
  return 0;
}

}  // namespace rockhopper::verbs
