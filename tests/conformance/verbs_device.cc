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
constexpr std::uint32_t kGroupQpn = 0xffffff;

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

ibv_qp_type type_of(const std::string& name, bool initiator) {
  if (name == "xrc") return initiator ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV;
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

/// The first of them have the numbers of verbs.
ibv_wr_opcode opcode_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::send_with_inv:
      return IBV_WR_SEND_WITH_INV;
    case Opcode::local_inv:
      return IBV_WR_LOCAL_INV;
    case Opcode::bind_mw:
      return IBV_WR_BIND_MW;
    default:
      return static_cast<ibv_wr_opcode>(opcode);
  }
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
    case IBV_WC_BIND_MW:
      return "bind_mw";
    case IBV_WC_LOCAL_INV:
      return "local_inv";
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

/// From our address of the destination's family.
ibv_ah_attr VerbsDevice::address_vector(const std::string& destination) const {
  const auto is_v6 = [](const std::string& text) { return text.find(':') != std::string::npos; };
  const auto own = std::find_if(
      addresses_.begin(), addresses_.end(),
      [&](const std::string& address) { return is_v6(address) == is_v6(destination); });
  if (own == addresses_.end()) throw Failure("the device has no address of that family");
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = kPort;
  attributes.grh.dgid = parse_gid(destination);
  attributes.grh.sgid_index = gid_index(parse_gid(*own));
  attributes.grh.hop_limit = kHopLimit;
  return attributes;
}

Opened VerbsDevice::open(const QueuePairSpec& qp, const std::vector<RegionSpec>& regions,
                         const std::vector<WindowSpec>& windows) {
  close();
  for (const RegionSpec& region : regions) {
    add_region(region);
  }
  for (const WindowSpec& window : windows) {
    windows_.emplace_back(
        window.name, ibv_alloc_mw(pd_.get(), window.type == 2 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1));
    if (!windows_.back().second) fail("no memory window");
  }
  create_queue_pair(qp);
  Opened opened{.qpn = qp_->qp_num, .regions = {}, .srqs = {}};
  for (const auto& [name, srq] : srqs_) {
    std::uint32_t number = 0;
    if (!xrcds_.empty() && ibv_get_srq_num(srq.get(), &number) != 0) fail("no number of an SRQ");
    opened.srqs.push_back({.name = name, .number = number});
  }
  for (const Region& region : regions_) {
    opened.regions.push_back({.name = region.name,
                              .address = reinterpret_cast<std::uint64_t>(region.bytes.get()),
                              .key = region.rkey});
  }
  return opened;
}

void VerbsDevice::close() {
  qp_.reset();
  other_qp_.reset();
  srqs_.clear();
  xrcds_.clear();
  windows_.clear();
  ah_.reset();
  group_ah_.reset();
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
  create_srqs(spec);
  peer_qpn_ = spec.peer_qpn;
  qp_ = new_queue_pair(spec);
  if (spec.type == "ud") {
    ah_ = address_handle(spec.peer_address);
    join_group(spec);
  }
  bring_up(*qp_, spec);
  if (!windows_.empty()) {
    other_qp_ = new_queue_pair(spec);
    bring_up(*other_qp_, spec);
  }
}

void VerbsDevice::create_srqs(const QueuePairSpec& spec) {
  srq_limit_ = spec.srq_limit;
  srq_receives_ = 0;
  if (spec.type == "xrc" && !spec.initiator) {
    for (int domain = 0; domain < 2; ++domain) {
      ibv_xrcd_init_attr init{.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                              .fd = -1,
                              .oflags = O_CREAT};
      xrcds_.emplace_back(ibv_open_xrcd(context_.get(), &init));
      if (!xrcds_.back()) fail("no XRC domain");
    }
    add_srq("first", pd_.get(), xrcds_[0].get());
    add_srq("second", other_pd_.get(), xrcds_[0].get());
    add_srq("foreign", pd_.get(), xrcds_[1].get());
  } else if (spec.srq) {
    add_srq("srq", pd_.get(), nullptr);
  }
}

void VerbsDevice::add_srq(const std::string& name, ibv_pd* pd, ibv_xrcd* xrcd) {
  ibv_srq_init_attr_ex init{};
  init.attr.max_wr = kQueueDepth;
  init.attr.max_sge = kElementsMax;
  init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  init.srq_type = IBV_SRQT_BASIC;
  init.pd = pd;
  if (xrcd != nullptr) {
    init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    init.srq_type = IBV_SRQT_XRC;
    init.xrcd = xrcd;
    init.cq = recv_cq_.get();
  }
  srqs_.emplace_back(name, ibv_create_srq_ex(context_.get(), &init));
  if (!srqs_.back().second) fail("no shared receive queue");
}

/// An XRC initiator receives nothing, a target has neither queues nor protection domain.
VerbsDevice::Owned<ibv_qp> VerbsDevice::new_queue_pair(const QueuePairSpec& spec) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = type_of(spec.type, spec.initiator);
  if (init.qp_type == IBV_QPT_XRC_RECV) {
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = xrcds_[0].get();
  } else {
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = pd_.get();
    init.send_cq = send_cq_.get();
    init.recv_cq = init.qp_type == IBV_QPT_XRC_SEND ? nullptr : recv_cq_.get();
    init.srq = srqs_.empty() ? nullptr : srqs_[0].second.get();
    init.cap = {.max_send_wr = kQueueDepth,
                .max_recv_wr = kQueueDepth,
                .max_send_sge = kElementsMax,
                .max_recv_sge = kElementsMax,
                .max_inline_data = kInlineMax};
  }
  Owned<ibv_qp> qp(ibv_create_qp_ex(context_.get(), &init));
  if (!qp) fail("no queue pair");
  return qp;
}

VerbsDevice::Owned<ibv_ah> VerbsDevice::address_handle(const std::string& destination) {
  ibv_ah_attr attributes = address_vector(destination);
  Owned<ibv_ah> handle(ibv_create_ah(pd_.get(), &attributes));
  if (!handle) fail("no address handle");
  return handle;
}

void VerbsDevice::join_group(const QueuePairSpec& spec) {
  if (spec.group.empty()) return;
  group_ah_ = address_handle(spec.group);
  const ibv_gid group = parse_gid(spec.group);
  if (const int error = ibv_attach_mcast(qp_.get(), &group, 0); error != 0) {
    fail("cannot join the group", error);
  }
}

void VerbsDevice::bring_up(ibv_qp& qp, const QueuePairSpec& spec) {
  const ibv_qp_state target = state_of(spec.state);
  const bool ud = spec.type == "ud";
  const bool xrc = spec.type == "xrc";
  const bool responds = spec.type == "rc" || (xrc && !spec.initiator);
  const bool requests = spec.type == "rc" || (xrc && spec.initiator);
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
      (ud ? 0 : connect) | (responds ? responder : 0),
      IBV_QP_SQ_PSN | (requests ? requester : 0) | (xrc && responds ? IBV_QP_TIMEOUT : 0)};
  for (unsigned state = IBV_QPS_INIT; state <= IBV_QPS_RTS && state <= target; ++state) {
    attributes.qp_state = static_cast<ibv_qp_state>(state);
    modify(qp, attributes, IBV_QP_STATE | masks[state - IBV_QPS_INIT]);
  }
}

void VerbsDevice::modify(ibv_qp& qp, ibv_qp_attr& attributes, int mask) {
  if (const int error = ibv_modify_qp(&qp, &attributes, mask); error != 0) {
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

/// A window of type 2 gets its next key from the request, one of type 1 from the call.
Posted VerbsDevice::post_bind(const SendSpec& spec, ibv_send_wr wr) {
  const auto found = std::find_if(windows_.begin(), windows_.end(), [&](const auto& window) {
    return window.first == spec.bind.window;
  });
  if (found == windows_.end()) throw Failure("no window " + spec.bind.window);
  const Region& region = find_region(regions_, spec.bind.region);
  ibv_mw* window = found->second.get();
  ibv_qp* qp = spec.other_qp ? other_qp_.get() : qp_.get();
  const ibv_mw_bind_info info{
      .mr = region.registration.get(),
      .addr = reinterpret_cast<std::uint64_t>(region.bytes.get()) + spec.bind.offset,
      .length = spec.bind.length,
      .mw_access_flags = spec.bind.access};
  if (window->type == IBV_MW_TYPE_1) {
    ibv_mw_bind bind{.wr_id = wr.wr_id, .send_flags = wr.send_flags, .bind_info = info};
    const bool ok = ibv_bind_mw(qp, window, &bind) == 0;
    return {.ok = ok, .rkey = window->rkey};
  }
  wr.bind_mw = {.mw = window, .rkey = ibv_inc_rkey(window->rkey), .bind_info = info};
  ibv_send_wr* bad = nullptr;
  const bool ok = ibv_post_send(qp, &wr, &bad) == 0;
  window->rkey = wr.bind_mw.rkey;
  return {.ok = ok, .rkey = window->rkey};
}

Posted VerbsDevice::post_send(const SendSpec& spec) {
  std::vector<ibv_sge> list = sges(spec.elements);
  ibv_send_wr wr{};
  wr.wr_id = spec.wr_id;
  wr.sg_list = list.data();
  wr.num_sge = static_cast<int>(list.size());
  wr.opcode = opcode_of(spec.opcode);
  wr.send_flags = flag_if(spec.fence, IBV_SEND_FENCE) | flag_if(spec.signaled, IBV_SEND_SIGNALED) |
                  flag_if(spec.solicited, IBV_SEND_SOLICITED) |
                  flag_if(spec.is_inline, IBV_SEND_INLINE);
  if (spec.opcode == Opcode::send_with_inv || spec.opcode == Opcode::local_inv) {
    wr.invalidate_rkey = spec.invalidate_rkey;
  } else {
    wr.imm_data = htonl(spec.imm_data);
  }
  if (spec.opcode == Opcode::bind_mw) return post_bind(spec, wr);
  if (ah_) {
    wr.wr.ud = {.ah = spec.to_group ? group_ah_.get() : ah_.get(),
                .remote_qpn = spec.remote_qpn.value_or(spec.to_group ? kGroupQpn : peer_qpn_),
                .remote_qkey = spec.remote_qkey};
  } else if (spec.opcode == Opcode::atomic_cmp_and_swp ||
             spec.opcode == Opcode::atomic_fetch_and_add) {
    wr.wr.atomic = {.remote_addr = spec.remote_addr,
                    .compare_add = spec.compare_add,
                    .swap = spec.swap,
                    .rkey = spec.rkey};
  } else {
    wr.wr.rdma = {.remote_addr = spec.remote_addr, .rkey = spec.rkey};
  }
  if (!ah_) wr.qp_type.xrc.remote_srqn = spec.remote_srqn;
  ibv_send_wr* bad = nullptr;
  return {.ok = ibv_post_send(qp_.get(), &wr, &bad) == 0};
}

bool VerbsDevice::post_recv(std::uint64_t wr_id, const std::vector<Element>& elements,
                            const std::string& srq) {
  std::vector<ibv_sge> list = sges(elements);
  ibv_recv_wr wr{.wr_id = wr_id,
                 .next = nullptr,
                 .sg_list = list.data(),
                 .num_sge = static_cast<int>(list.size())};
  ibv_recv_wr* bad = nullptr;
  if (srqs_.empty()) return ibv_post_recv(qp_.get(), &wr, &bad) == 0;
  const auto named =
      std::find_if(srqs_.begin(), srqs_.end(), [&](const auto& one) { return one.first == srq; });
  ibv_srq* queue = (named == srqs_.end() ? srqs_[0] : *named).second.get();
  const bool posted = ibv_post_srq_recv(queue, &wr, &bad) == 0;
  if (posted && srq_limit_ != 0 && ++srq_receives_ >= srq_limit_) {
    // Armed once there are that many: before, it would be reached at once.
    ibv_srq_attr attributes{};
    attributes.srq_limit = std::exchange(srq_limit_, 0);
    if (const int error = ibv_modify_srq(queue, &attributes, IBV_SRQ_LIMIT); error != 0) {
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
  modify(*qp_, attributes, mask);
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
