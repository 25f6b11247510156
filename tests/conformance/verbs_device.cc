// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/conformance/verbs_device.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include <arpa/inet.h>
#include <fcntl.h>

#include "tests/support/verbs_names.h"

namespace rockhopper::conformance {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint32_t kQueueDepth = 64;
constexpr std::uint32_t kElementsMax = 4;
constexpr std::uint32_t kInlineMax = 64;
constexpr std::uint8_t kHopLimit = 64;

constexpr std::array<std::string_view, 7> kStates = {"reset", "init", "rtr", "rts",
                                                     "sqd",   "sqe",  "err"};

[[noreturn]] void fail(const std::string& what, int error = errno) {
  throw Failure(what + ": " + std::strerror(error));
}

ibv_qp_state state_of(const std::string& name) {
  const auto found = std::find(kStates.begin(), kStates.end(), name);
  if (found == kStates.end()) throw Failure("no such state: " + name);
  return static_cast<ibv_qp_state>(found - kStates.begin());
}

ibv_qp_type type_of(const std::string& name) {
  for (const auto& [text, type] :
       {std::pair{"rc", IBV_QPT_RC}, std::pair{"uc", IBV_QPT_UC}, std::pair{"ud", IBV_QPT_UD}}) {
    if (name == text) return type;
  }
  throw Failure("no such service: " + name);
}

ibv_gid parse_gid(const std::string& address) {
  ibv_gid gid{};
  const bool v6 = address.find(':') != std::string::npos;
  if (inet_pton(AF_INET6, (v6 ? address : "::ffff:" + address).c_str(), &gid) != 1) {
    throw Failure("not an address: " + address);
  }
  return gid;
}

ibv_mtu mtu_code(std::uint32_t bytes) {
  unsigned code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && 128u << code < bytes) {
    ++code;
  }
  return static_cast<ibv_mtu>(code);
}

std::string opcode_name(ibv_wc_opcode opcode) {
  switch (opcode) {
    case IBV_WC_SEND:
      return "send";
    case IBV_WC_RDMA_WRITE:
      return "rdma_write";
    case IBV_WC_RDMA_READ:
      return "rdma_read";
    case IBV_WC_COMP_SWAP:
      return "comp_swap";
    case IBV_WC_FETCH_ADD:
      return "fetch_add";
    case IBV_WC_RECV:
      return "recv";
    case IBV_WC_RECV_RDMA_WITH_IMM:
      return "recv_rdma_with_imm";
    default:
      return "unknown";
  }
}

constexpr unsigned flag_if(bool condition, unsigned flag) { return condition ? flag : 0; }

}  // namespace

VerbsDevice::VerbsDevice(const std::string& name, std::vector<std::string> addresses)
    : name_(name), addresses_(std::move(addresses)) {
  open_device(name);
  pd_.reset(ibv_alloc_pd(context_.get()));
  other_pd_.reset(ibv_alloc_pd(context_.get()));
  if (!pd_ || !other_pd_) fail("no protection domain");
  const int events = context_->async_fd;
  if (fcntl(events, F_SETFL, fcntl(events, F_GETFL) | O_NONBLOCK) != 0) fail("fcntl");
}

VerbsDevice::~VerbsDevice() { close(); }

void VerbsDevice::open_device(const std::string& name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; list != nullptr && i < count; ++i) {
    if (name == ibv_get_device_name(list[i])) context_.reset(ibv_open_device(list[i]));
  }
  if (list != nullptr) ibv_free_device_list(list);
  if (!context_) throw Failure("cannot open the RDMA device " + name);
}

std::uint8_t VerbsDevice::gid_index(const ibv_gid& gid) const {
  for (std::uint32_t index = 0; index < 256; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context_.get(), kPort, index, &entry, 0) == 0 &&
        entry.gid_type == IBV_GID_TYPE_ROCE_V2 && std::memcmp(&entry.gid, &gid, sizeof gid) == 0) {
      return static_cast<std::uint8_t>(index);
    }
  }
  throw Failure("the device has no RoCEv2 GID of that address");
}

/// From our address of the peer's family.
ibv_ah_attr VerbsDevice::address_vector(const std::string& peer) const {
  const auto is_v6 = [](const std::string& text) { return text.find(':') != std::string::npos; };
  const auto own =
      std::find_if(addresses_.begin(), addresses_.end(),
                   [&](const std::string& address) { return is_v6(address) == is_v6(peer); });
  if (own == addresses_.end()) throw Failure("the device has no address of the peer's family");
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = kPort;
  attributes.grh.dgid = parse_gid(peer);
  attributes.grh.sgid_index = gid_index(parse_gid(*own));
  attributes.grh.hop_limit = kHopLimit;
  return attributes;
}

Opened VerbsDevice::open(const QueuePairSpec& qp, const std::vector<RegionSpec>& regions,
                         const std::vector<WindowSpec>& windows) {
  close();
  if (!windows.empty()) throw Failure("memory windows of verbs devices are not scripted");
  for (const RegionSpec& region : regions) {
    add_region(region);
  }
  create_queue_pair(qp);
  Opened opened{.qpn = qp_->qp_num, .regions = {}, .srqs = {}};
  for (const Region& region : regions_) {
    opened.regions.push_back({.name = region.name,
                              .address = reinterpret_cast<std::uint64_t>(region.bytes.get()),
                              .key = region.rkey});
  }
  return opened;
}

void VerbsDevice::close() {
  qp_.reset();
  srq_.reset();
  ah_.reset();
  send_cq_.reset();
  recv_cq_.reset();
  regions_.clear();
  (void)events();
}

void VerbsDevice::add_region(const RegionSpec& spec) {
  Region region{RegionMemory(spec), {}, 0, 0};
  region.registration.reset(ibv_reg_mr(spec.other_pd ? other_pd_.get() : pd_.get(),
                                       region.bytes.get(), region.length,
                                       static_cast<int>(spec.access & ~kRemoteInvalidate)));
  if (!region.registration) fail("cannot register memory");
  region.lkey = region.registration->lkey;
  region.rkey = region.registration->rkey;
  regions_.push_back(std::move(region));
}

void VerbsDevice::create_queue_pair(const QueuePairSpec& spec) {
  const int depth = 2 * static_cast<int>(kQueueDepth);
  send_cq_.reset(ibv_create_cq(context_.get(), depth, nullptr, nullptr, 0));
  recv_cq_.reset(ibv_create_cq(context_.get(), depth, nullptr, nullptr, 0));
  if (!send_cq_ || !recv_cq_) fail("no completion queue");
  if (spec.srq) {
    ibv_srq_init_attr srq_init{};
    srq_init.attr.max_wr = kQueueDepth;
    srq_init.attr.max_sge = kElementsMax;
    srq_.reset(ibv_create_srq(pd_.get(), &srq_init));
    if (!srq_) fail("no shared receive queue");
  }
  srq_limit_ = spec.srq_limit;
  srq_receives_ = 0;
  ibv_qp_init_attr init{};
  init.srq = srq_.get();
  init.send_cq = send_cq_.get();
  init.recv_cq = recv_cq_.get();
  init.cap = {.max_send_wr = kQueueDepth,
              .max_recv_wr = kQueueDepth,
              .max_send_sge = kElementsMax,
              .max_recv_sge = kElementsMax,
              .max_inline_data = kInlineMax};
  init.qp_type = type_of(spec.type);
  qp_.reset(ibv_create_qp(pd_.get(), &init));
  if (!qp_) fail("no queue pair");
  peer_qpn_ = spec.peer_qpn;
  if (!spec.group.empty()) {
    throw Failure("groups are joined by the kernel's connection manager here");
  }
  if (init.qp_type == IBV_QPT_UD) {
    ibv_ah_attr attributes = address_vector(spec.peer_address);
    ah_.reset(ibv_create_ah(pd_.get(), &attributes));
    if (!ah_) fail("no address handle");
  }
  bring_up(spec);
}

void VerbsDevice::bring_up(const QueuePairSpec& spec) {
  const ibv_qp_state target = state_of(spec.state);
  const bool rc = spec.type == "rc";
  const bool ud = spec.type == "ud";
  ibv_qp_attr attributes{};
  attributes.port_num = kPort;
  attributes.qp_access_flags = spec.access;
  attributes.qkey = spec.qkey;
  attributes.path_mtu = mtu_code(spec.path_mtu);
  attributes.dest_qp_num = spec.peer_qpn;
  attributes.rq_psn = spec.rq_psn;
  attributes.sq_psn = spec.sq_psn;
  attributes.max_rd_atomic = spec.max_rd_atomic;
  attributes.max_dest_rd_atomic = spec.max_dest_rd_atomic;
  attributes.min_rnr_timer = spec.min_rnr_timer;
  attributes.timeout = spec.timeout;
  attributes.retry_cnt = spec.retry_cnt;
  attributes.rnr_retry = spec.rnr_retry;
  if (!ud) attributes.ah_attr = address_vector(spec.peer_address);
  const int connect = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  const int responder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  const int requester =
      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  const std::array<int, 3> masks = {
      IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS),
      (ud ? 0 : connect) | (rc ? responder : 0), IBV_QP_SQ_PSN | (rc ? requester : 0)};
  for (unsigned state = IBV_QPS_INIT; state <= IBV_QPS_RTS && state <= target; ++state) {
    attributes.qp_state = static_cast<ibv_qp_state>(state);
    modify(attributes, IBV_QP_STATE | masks[state - IBV_QPS_INIT]);
  }
}

void VerbsDevice::modify(ibv_qp_attr& attributes, int mask) {
  if (const int error = ibv_modify_qp(qp_.get(), &attributes, mask); error != 0) {
    fail("cannot move the queue pair to " + std::string(kStates[attributes.qp_state]), error);
  }
}

std::vector<ibv_sge> VerbsDevice::sges(const std::vector<Element>& elements) {
  std::vector<ibv_sge> list;
  for (const Element& element : elements) {
    const Region& region = find_region(regions_, element.region);
    list.push_back({.addr = reinterpret_cast<std::uint64_t>(region.bytes.get()) + element.offset,
                    .length = element.length,
                    .lkey = element.bad_lkey ? region.lkey ^ 1u << 31 : region.lkey});
  }
  return list;
}

Posted VerbsDevice::post_send(const SendSpec& spec) {
  std::vector<ibv_sge> list = sges(spec.elements);
  ibv_send_wr wr{};
  wr.wr_id = spec.wr_id;
  wr.sg_list = list.data();
  wr.num_sge = static_cast<int>(list.size());
  wr.opcode = spec.opcode == Opcode::send_with_inv ? IBV_WR_SEND_WITH_INV
                                                   : static_cast<ibv_wr_opcode>(spec.opcode);
  wr.send_flags = flag_if(spec.fence, IBV_SEND_FENCE) | flag_if(spec.signaled, IBV_SEND_SIGNALED) |
                  flag_if(spec.solicited, IBV_SEND_SOLICITED) |
                  flag_if(spec.is_inline, IBV_SEND_INLINE);
  if (spec.opcode == Opcode::send_with_inv) {
    wr.invalidate_rkey = spec.invalidate_rkey;
  } else {
    wr.imm_data = htonl(spec.imm_data);
  }
  if (ah_) {
    wr.wr.ud = {.ah = ah_.get(), .remote_qpn = peer_qpn_, .remote_qkey = spec.remote_qkey};
  } else if (spec.opcode == Opcode::atomic_cmp_and_swp ||
             spec.opcode == Opcode::atomic_fetch_and_add) {
    wr.wr.atomic = {.remote_addr = spec.remote_addr,
                    .compare_add = spec.compare_add,
                    .swap = spec.swap,
                    .rkey = spec.rkey};
  } else {
    wr.wr.rdma = {.remote_addr = spec.remote_addr, .rkey = spec.rkey};
  }
  ibv_send_wr* bad = nullptr;
  return {.ok = ibv_post_send(qp_.get(), &wr, &bad) == 0};
}

bool VerbsDevice::post_recv(std::uint64_t wr_id, const std::vector<Element>& elements,
                            const std::string& /*srq*/) {
  std::vector<ibv_sge> list = sges(elements);
  ibv_recv_wr wr{.wr_id = wr_id,
                 .next = nullptr,
                 .sg_list = list.data(),
                 .num_sge = static_cast<int>(list.size())};
  ibv_recv_wr* bad = nullptr;
  if (!srq_) return ibv_post_recv(qp_.get(), &wr, &bad) == 0;
  const bool posted = ibv_post_srq_recv(srq_.get(), &wr, &bad) == 0;
  if (posted && srq_limit_ != 0 && ++srq_receives_ >= srq_limit_) {
    // Armed once there are that many: before, it would be reached at once.
    ibv_srq_attr attributes{};
    attributes.srq_limit = std::exchange(srq_limit_, 0);
    if (const int error = ibv_modify_srq(srq_.get(), &attributes, IBV_SRQ_LIMIT); error != 0) {
      fail("cannot set the limit", error);
    }
  }
  return posted;
}

void VerbsDevice::take(ibv_cq* cq, bool receive, std::vector<Completed>& out) {
  ibv_wc wc{};
  while (ibv_poll_cq(cq, 1, &wc) > 0) {
    Completed completed{.receive = receive,
                        .wr_id = wc.wr_id,
                        .status = test::wc_status_name(wc.status),
                        .opcode = {},
                        .byte_len = wc.byte_len,
                        .imm_data = {},
                        .invalidated_rkey = {},
                        .src_qp = {}};
    if (wc.status == IBV_WC_SUCCESS) {
      completed.opcode = opcode_name(wc.opcode);
      if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) completed.imm_data = ntohl(wc.imm_data);
      if ((wc.wc_flags & IBV_WC_WITH_INV) != 0) completed.invalidated_rkey = wc.invalidated_rkey;
      if (receive && ah_) completed.src_qp = wc.src_qp;
    }
    out.push_back(std::move(completed));
  }
}

std::vector<Completed> VerbsDevice::poll() {
  std::vector<Completed> completions;
  take(send_cq_.get(), false, completions);
  take(recv_cq_.get(), true, completions);
  return completions;
}

std::vector<std::string> VerbsDevice::events() {
  std::vector<std::string> names;
  ibv_async_event event{};
  while (ibv_get_async_event(context_.get(), &event) == 0) {
    names.push_back(test::event_type_name(event.event_type));
    ibv_ack_async_event(&event);
  }
  return names;
}

void VerbsDevice::modify_state(const std::string& state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state_of(state);
  int mask = IBV_QP_STATE;
  if (attributes.qp_state == IBV_QPS_SQD) {
    attributes.en_sqd_async_notify = 1;
    mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
  }
  modify(attributes, mask);
}

std::string VerbsDevice::state() {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  if (const int error = ibv_query_qp(qp_.get(), &attributes, IBV_QP_STATE, &init); error != 0) {
    fail("cannot query the queue pair", error);
  }
  const auto index = static_cast<std::size_t>(attributes.qp_state);
  return std::string(index < kStates.size() ? kStates[index] : "unknown");
}

void VerbsDevice::deregister(const std::string& region) {
  find_region(regions_, region).registration.reset();
}

std::vector<std::uint8_t> VerbsDevice::memory(const std::string& region) {
  return find_region(regions_, region).content();
}

std::vector<std::pair<std::string, std::uint64_t>> VerbsDevice::counters() {
  std::vector<std::pair<std::string, std::uint64_t>> values;
  const auto add = [&](const std::filesystem::path& file) {
    std::uint64_t value = 0;
    if (std::ifstream(file) >> value && value != 0) values.emplace_back(file.filename(), value);
  };
  const std::filesystem::path device = "/sys/class/infiniband/" + name_;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(device / "ports/1/hw_counters", none)) {
    if (entry.path().filename() != "lifespan") add(entry.path());
  }
  // The network device below counts frames before it is known whether they are good.
  std::string netdev;
  if (std::ifstream(device / "ports/1/gid_attrs/ndevs/0") >> netdev) {
    add(std::filesystem::path("/sys/class/net") / netdev / "statistics/rx_packets");
  }
  return values;
}

}  // namespace rockhopper::conformance
