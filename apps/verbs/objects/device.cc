// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/device.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>

#include <arpa/inet.h>
#include <endian.h>

#include "apps/verbs/abi/device_object.h"
#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/dm.h"
#include "apps/verbs/objects/errors.h"
#include "stack/address_table.h"
#include "stack/time_units.h"

namespace rockhopper::verbs {
namespace {

/// Programs take 0 for a device that could not be asked. It has the bit of what is nobody's OUI.
constexpr std::uint32_t kVendorId = 0x025268;
constexpr int kMaxPd = 32'768;
constexpr int kMaxCq = 65'536;
/// Pages of 4 KiB and all larger powers of two.
constexpr std::uint64_t kPageSizes = 0xfffff000;
constexpr std::uint8_t kAckDelay = 15;
constexpr std::uint8_t kWidth4x = 2;
constexpr std::uint8_t kSpeedEdr = 32;  // 25 Gb/s a lane
constexpr std::uint8_t kLinkUp = 5;
constexpr std::uint8_t kLinkDisabled = 3;
// Names of later versions of the header (device_cap_flags_ex).
constexpr std::uint64_t kDeviceFlushGlobal = 1ull << 38;
constexpr std::uint64_t kDeviceAtomicWrite = 1ull << 40;

template <typename T>
int as_int(T value) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  return static_cast<int>(std::min<std::uint64_t>(value, kMost));
}

/// In a Section.
void fill(const Context& context, ibv_device_attr& to) {
  const roce::DeviceAttributes has = context.engine().query_device();
  const std::uint64_t guid = object_of(*context.context.device).guid;
  to = {};
  std::snprintf(to.fw_ver, sizeof to.fw_ver, "%s", ROCKHOPPER_VERSION);
  to.node_guid = to.sys_image_guid = htobe64(guid);
  to.max_mr_size = has.max_mr_size;
  to.page_size_cap = kPageSizes;
  to.vendor_id = kVendorId;
  to.max_qp = as_int(has.max_qp);
  to.max_qp_wr = as_int(has.max_qp_wr);
  to.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                        IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                        IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC |
                        IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                        IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR;
  to.max_sge = as_int(has.max_sge);
  to.max_sge_rd = as_int(has.max_sge_rd);
  to.max_cq = kMaxCq;
  to.max_cqe = kMaxCqe;
  to.max_mr = as_int(has.max_mr);
  to.max_pd = kMaxPd;
  to.max_qp_rd_atom = as_int(has.max_qp_rd_atom);
  to.max_res_rd_atom = as_int(has.max_res_rd_atom);
  to.max_qp_init_rd_atom = as_int(has.max_qp_init_rd_atom);
  // It is so towards the processor too, but UCX 1.13 offers no atomics with IBV_ATOMIC_GLOB; RNICs
  // say it with pci_atomic_caps.
  to.atomic_cap = IBV_ATOMIC_HCA;
  to.max_mw = as_int(has.max_mw);
  to.max_mcast_grp = as_int(has.max_mcast_grp);
  to.max_mcast_qp_attach = as_int(has.max_mcast_qp_attach);
  to.max_total_mcast_qp_attach = as_int(has.max_total_mcast_qp_attach);
  to.max_ah = as_int(has.max_ah);
  to.max_srq = as_int(has.max_srq);
  to.max_srq_wr = as_int(has.max_srq_wr);
  to.max_srq_sge = as_int(has.max_srq_sge);
  to.max_pkeys = has.max_pkeys;
  to.local_ca_ack_delay = kAckDelay;
  to.phys_port_cnt = has.phys_port_cnt;
}

/// The processor faults pages in, whatever the service.
void fill_odp(ibv_device_attr_ex& to) {
  constexpr std::uint32_t kDatagrams = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
  constexpr std::uint32_t kUnreliable = kDatagrams | IBV_ODP_SUPPORT_WRITE;
  constexpr std::uint32_t kReliable =
      kUnreliable | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
  to.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  to.odp_caps.per_transport_caps = {.rc_odp_caps = kReliable,
                                    .uc_odp_caps = kUnreliable,
                                    .ud_odp_caps = kDatagrams | IBV_ODP_SUPPORT_SRQ_RECV};
  to.xrc_odp_caps = kReliable;
}

/// In a Section.
void fill(const Context& context, ibv_port_attr& to) {
  const roce::PortAttributes has = context.engine().query_port();
  const bool up = has.state == roce::PortState::active;
  to = {};
  to.state = static_cast<ibv_port_state>(has.state);
  to.max_mtu = mtu_of(has.max_mtu);
  to.active_mtu = mtu_of(has.active_mtu);
  to.lid = lid_of(context.engine());
  to.gid_tbl_len = as_int(has.gid_tbl_len);
  to.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  to.max_msg_sz = has.max_msg_sz;
  to.bad_pkey_cntr = has.bad_pkey_cntr;
  to.qkey_viol_cntr = has.qkey_viol_cntr;
  to.pkey_tbl_len = has.pkey_tbl_len;
  to.max_vl_num = 1;
  to.active_width = kWidth4x;
  to.active_speed = kSpeedEdr;
  to.phys_state = up ? kLinkUp : kLinkDisabled;
  to.link_layer = IBV_LINK_LAYER_ETHERNET;
  to.flags = IBV_QPF_GRH_REQUIRED;
}

std::uint32_t interface_index(const Context& context, const stack::IpAddress& address) {
  const auto& addresses = context.node().settings().addresses;
  const auto own = std::ranges::find(addresses, address, &stack::DeviceAddress::address);
  return own == addresses.end() ? 0 : own->interface_index;
}

/// In a Section. Nothing: the entry is empty or beyond the table.
std::optional<ibv_gid_entry> entry_at(const Context& context, std::uint32_t index) {
  if (index >= stack::AddressTable::kLimit) return std::nullopt;
  const auto address = context.engine().query_gid(static_cast<std::uint16_t>(index));
  if (!address || address->is_unspecified()) return std::nullopt;
  return ibv_gid_entry{.gid = gid_of(*address),
                       .gid_index = index,
                       .port_num = 1,
                       .gid_type = IBV_GID_TYPE_ROCE_V2,
                       .ndev_ifindex = interface_index(context, *address)};
}

}  // namespace

int query_device(ibv_context* verbs, ibv_device_attr* attributes) {
  const Context* context = Context::from(verbs);
  if (context == nullptr || attributes == nullptr) return EINVAL;
  const Section section(context->node());
  if (!section) return EIO;
  fill(*context, *attributes);
  return 0;
}

int query_device_ex(ibv_context* verbs, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes, std::size_t size) {
  const Context* context = Context::from(verbs);
  if (context == nullptr || attributes == nullptr || size < sizeof attributes->orig_attr ||
      (input != nullptr && input->comp_mask != 0)) {
    return EINVAL;
  }
  ibv_device_attr_ex full{};
  bool with_processor = false;
  {
    const Section section(context->node());
    if (!section) return EIO;
    fill(*context, full.orig_attr);
    with_processor = context->engine().query_device().atomic_with_cpu;
  }
  fill_odp(full);
  if (with_processor) {
    full.pci_atomic_caps = {.fetch_add = IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP,
                            .swap = 0,
                            .compare_swap = IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP};
  }
  full.completion_timestamp_mask = UINT64_MAX;
  full.hca_core_clock = kNsPerSecond / 1000;  // in kHz
  full.device_cap_flags_ex =
      full.orig_attr.device_cap_flags | kDeviceFlushGlobal | kDeviceAtomicWrite;
  full.cq_mod_caps = {.max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX};
  full.max_dm_size = kMaxDmBytes;
  full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
  // Programs of another version of the header have a shorter or longer structure.
  std::memset(attributes, 0, size);
  std::memcpy(attributes, &full, std::min(size, sizeof full));
  return 0;
}

int query_port(ibv_context* verbs, std::uint8_t port, ibv_port_attr* attributes, std::size_t size) {
  const Context* context = Context::from(verbs);
  if (context == nullptr || port != 1 || attributes == nullptr) return EINVAL;
  ibv_port_attr full{};
  {
    const Section section(context->node());
    if (!section) return EIO;
    fill(*context, full);
  }
  std::memset(attributes, 0, size);
  std::memcpy(attributes, &full, std::min(size, sizeof full));
  return 0;
}

int query_port_exported(ibv_context* verbs, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  return query_port(verbs, port, reinterpret_cast<ibv_port_attr*>(attributes),
                    offsetof(ibv_port_attr, link_layer) + sizeof(ibv_port_attr::link_layer));
}

int query_gid(ibv_context* verbs, std::uint8_t port, int index, ibv_gid* gid) {
  const Context* context = Context::from(verbs);
  if (context == nullptr || port != 1 || gid == nullptr || index < 0 ||
      index >= static_cast<int>(stack::AddressTable::kLimit)) {
    return refuse(EINVAL);
  }
  const Section section(context->node());
  if (!section) return refuse(EIO);
  const auto entry = entry_at(*context, static_cast<std::uint32_t>(index));
  *gid = entry ? entry->gid : ibv_gid{};
  return 0;
}

int query_gid_ex(ibv_context* verbs, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
                 std::uint32_t flags, std::size_t size) {
  const Context* context = Context::from(verbs);
  if (context == nullptr || port != 1 || entry == nullptr || flags != 0 ||
      index >= stack::AddressTable::kLimit) {
    return EINVAL;
  }
  const Section section(context->node());
  if (!section) return EIO;
  const auto found = entry_at(*context, index);
  if (!found) return ENODATA;
  std::memset(entry, 0, size);
  std::memcpy(entry, &*found, std::min(size, sizeof *found));
  return 0;
}

ssize_t query_gid_table(ibv_context* verbs, ibv_gid_entry* entries, std::size_t count,
                        std::uint32_t flags, std::size_t size) {
  const Context* context = Context::from(verbs);
  if (context == nullptr || flags != 0 || (entries == nullptr && count != 0)) return -EINVAL;
  const Section section(context->node());
  if (!section) return -EIO;
  std::size_t filled = 0;
  auto* bytes = reinterpret_cast<std::byte*>(entries);
  for (std::uint32_t index = 0; index < stack::AddressTable::kLimit; ++index) {
    const auto found = entry_at(*context, index);
    if (!found) continue;
    if (filled == count) return -EINVAL;
    std::memset(bytes + filled * size, 0, size);
    std::memcpy(bytes + filled * size, &*found, std::min(size, sizeof *found));
    ++filled;
  }
  return static_cast<ssize_t>(filled);
}

int query_pkey(ibv_context* verbs, std::uint8_t port, int index, __be16* pkey) {
  const Context* context = Context::from(verbs);
  if (context == nullptr || port != 1 || pkey == nullptr || index < 0 || index > UINT16_MAX) {
    return refuse(EINVAL);
  }
  const Section section(context->node());
  if (!section) return refuse(EIO);
  const auto value = context->engine().query_pkey(static_cast<std::uint16_t>(index));
  if (!value) return refuse(value.error());
  *pkey = htons(*value);
  return 0;
}

int get_pkey_index(ibv_context* verbs, std::uint8_t port, __be16 pkey) {
  const Context* context = Context::from(verbs);
  if (context == nullptr || port != 1) return refuse(EINVAL);
  const Section section(context->node());
  if (!section) return refuse(EIO);
  for (std::uint16_t index = 0;; ++index) {
    const auto value = context->engine().query_pkey(index);
    if (!value) return refuse(ENOENT);
    if (htons(*value) == pkey) return index;
  }
}

int query_rt_values(ibv_context* verbs, ibv_values_ex* values) {
  const Context* context = Context::from(verbs);
  if (context == nullptr || values == nullptr) return EINVAL;
  if ((values->comp_mask & ~IBV_VALUES_MASK_RAW_CLOCK) != 0) return EOPNOTSUPP;
  const std::uint64_t now_ns = context->node().clock().now_ns();
  values->raw_clock.tv_sec = static_cast<time_t>(now_ns / kNsPerSecond);
  values->raw_clock.tv_nsec = static_cast<long>(now_ns % kNsPerSecond);
  return 0;
}

}  // namespace rockhopper::verbs
