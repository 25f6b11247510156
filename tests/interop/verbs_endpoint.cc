// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/verbs_endpoint.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

#include "tests/interop/rc_exchange.h"
#include "tests/support/verbs_names.h"

namespace rockhopper::interop {
namespace {

/// In a completion's wr_id: a receive. (On an error the opcode is not valid.)
constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;
constexpr std::uint64_t kBindId = kReceiveBit - 1;
constexpr std::uint32_t kNoSuchKey = 0xdead00;
#ifdef ROCKHOPPER_TEST_VERBS_HAVE_FLUSH
constexpr unsigned int kAccessFlushGlobal = IBV_ACCESS_FLUSH_GLOBAL;
constexpr std::uint64_t kPlacements = IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH;
#else  // rdma-core 44
constexpr unsigned int kAccessFlushGlobal = 0;
constexpr std::uint64_t kPlacements = IBV_QP_EX_WITH_ATOMIC_WRITE;
#endif

[[noreturn]] void fail(const std::string& what) {
  throw Failure(what + ": " + std::strerror(errno));
}

/// The name of a status in verbs: ibv_wc_status_str() gives prose instead.
ibv_wr_opcode opcode_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::send:
      return IBV_WR_SEND;
    case OperationKind::send_imm:
      return IBV_WR_SEND_WITH_IMM;
    case OperationKind::send_inv:
      return IBV_WR_SEND_WITH_INV;
    case OperationKind::write:
      return IBV_WR_RDMA_WRITE;
    case OperationKind::write_imm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case OperationKind::read:
      return IBV_WR_RDMA_READ;
    case OperationKind::compare_swap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case OperationKind::fetch_add:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case OperationKind::atomic_write:
    case OperationKind::flush:
      break;  // have functions of their own
  }
  throw Failure("no such operation");
}

constexpr unsigned int flag_if(bool condition, unsigned int flag) { return condition ? flag : 0; }

unsigned int access_of(const Rights& rights) {
  return flag_if(rights.write, IBV_ACCESS_REMOTE_WRITE) |
         flag_if(rights.read, IBV_ACCESS_REMOTE_READ) |
         flag_if(rights.atomic, IBV_ACCESS_REMOTE_ATOMIC) |
         flag_if(rights.flush, kAccessFlushGlobal) | IBV_ACCESS_LOCAL_WRITE;
}

std::uint32_t mtu_bytes(ibv_mtu mtu) { return 128u << static_cast<unsigned int>(mtu); }

ibv_mtu mtu_code(std::uint32_t bytes) {
  unsigned int code = IBV_MTU_256;
  while (mtu_bytes(static_cast<ibv_mtu>(code)) < bytes) {
    ++code;
  }
  return static_cast<ibv_mtu>(code);
}

ibv_gid parse_gid(const std::string& text) {
  ibv_gid gid{};
  const std::string v6 = text.find(':') == std::string::npos ? "::ffff:" + text : text;
  if (inet_pton(AF_INET6, v6.c_str(), &gid) != 1) throw Failure("not an address: " + text);
  return gid;
}

}  // namespace

void VerbsEndpoint::Memory::Free::operator()(std::byte* memory) const { std::free(memory); }

void VerbsEndpoint::Window::Free::operator()(ibv_mw* memory_window) const {
  (void)ibv_dealloc_mw(memory_window);
}

VerbsEndpoint::Memory::Memory(ibv_pd* pd, std::size_t length, int access)
    : data_(static_cast<std::byte*>(std::aligned_alloc(4096, (length + 4095) / 4096 * 4096))),
      length_(length) {
  if (!data_) throw Failure("out of memory");
  std::memset(data_.get(), 0, length);
  registration_.reset(ibv_reg_mr(pd, data_.get(), length, access));
  if (!registration_) fail("cannot register memory");
}

VerbsEndpoint::VerbsEndpoint(const Device& device) : port_(device.port) {
  open_device(device);
  if (ibv_query_device(context_.get(), &device_attributes_) != 0 ||
      ibv_query_port(context_.get(), port_, &port_attributes_) != 0) {
    fail("cannot query the device");
  }
  choose_gid(device);
  pd_.reset(ibv_alloc_pd(context_.get()));
  channel_.reset(ibv_create_comp_channel(context_.get()));
  if (!pd_ || !channel_) fail("cannot set the device up");
  for (const int descriptor : {channel_->fd, context_->async_fd}) {
    if (fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK) != 0) fail("fcntl");
  }
}

VerbsEndpoint::~VerbsEndpoint() {
  if (cq_ && unacknowledged_events_ > 0) ibv_ack_cq_events(cq_.get(), unacknowledged_events_);
  windows_.clear();
  queue_pair_.reset();
}

void VerbsEndpoint::open_device(const Device& device) {
  int count = 0;
  const std::unique_ptr<ibv_device*, Deleter<ibv_free_device_list>> list(
      ibv_get_device_list(&count));
  for (int i = 0; list && i < count; ++i) {
    if (device.name.empty() || device.name == ibv_get_device_name(list.get()[i])) {
      context_.reset(ibv_open_device(list.get()[i]));
      if (!context_) fail(std::string("cannot open ") + ibv_get_device_name(list.get()[i]));
      return;
    }
  }
  throw Failure(device.name.empty() ? "no RDMA device" : "no RDMA device " + device.name);
}

void VerbsEndpoint::choose_gid(const Device& device) {
  const ibv_gid wanted = device.address.empty() ? ibv_gid{} : parse_gid(device.address);
  for (int index = 0; index < port_attributes_.gid_tbl_len; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context_.get(), port_, static_cast<std::uint32_t>(index), &entry, 0) !=
        0) {
      continue;
    }
    const bool v2 = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
    const bool v4 = IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(&entry.gid));
    const bool fits = device.gid_index ? index == *device.gid_index
                      : device.address.empty()
                          ? v2 && v4
                          : v2 && std::memcmp(&entry.gid, &wanted, sizeof wanted) == 0;
    if (fits) {
      gid_index_ = index;
      gid_ = entry.gid;
      return;
    }
  }
  throw Failure("the device has no such GID");
}

Limits VerbsEndpoint::limits() const {
  const int atomics =
      std::min(device_attributes_.max_qp_rd_atom, device_attributes_.max_qp_init_rd_atom);
  const unsigned int type2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  return {mtu_bytes(port_attributes_.active_mtu),
          static_cast<std::uint8_t>(std::clamp(atomics, 1, 255)),
          (device_attributes_.device_cap_flags & type2) != 0};
}

Address VerbsEndpoint::open(const ConnectionConfig& config) {
  windows_.clear();
  queue_pair_.reset();
  if (cq_ && unacknowledged_events_ > 0) ibv_ack_cq_events(cq_.get(), unacknowledged_events_);
  unacknowledged_events_ = 0;
  armed_ = false;
  cq_.reset();
  config_ = config;
  (void)events();

  const unsigned int binding = flag_if(config.keys > 0, IBV_ACCESS_MW_BIND);
  region_ = Memory(pd_.get(), config.region_bytes,
                   static_cast<int>(access_of(config.region_rights) | binding));
  local_ = Memory(pd_.get(), config.local_bytes, IBV_ACCESS_LOCAL_WRITE);
  receive_ = Memory(pd_.get(), config.receive_bytes, IBV_ACCESS_LOCAL_WRITE);
  create_queue_pair();
  if (limits().invalidate) {
    for (std::uint32_t i = 0; i < config.keys; ++i) {
      Window window;
      window.window.reset(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
      if (!window.window) fail("cannot make a memory window");
      window.rkey = window.window->rkey;
      windows_.push_back(std::move(window));
    }
  }
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, &gid_, text, sizeof text);
  return {queue_pair_->qp_num, config.first_psn, text};
}

void VerbsEndpoint::create_queue_pair() {
  const std::uint32_t depth = config_.send_depth + config_.receive_depth;
  cq_.reset(ibv_create_cq(context_.get(), static_cast<int>(depth), nullptr, channel_.get(), 0));
  if (!cq_) fail("cannot make a completion queue");
  ibv_qp_init_attr_ex init{};
  init.send_cq = cq_.get();
  init.recv_cq = cq_.get();
  init.cap.max_send_wr = config_.send_depth;
  init.cap.max_recv_wr = config_.receive_depth;
  init.cap.max_send_sge = kMaxSges;
  init.cap.max_recv_sge = kMaxSges;
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD;
  init.pd = pd_.get();
  if (config_.placements) {
    init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    // The others too, or the queue pair would not take them.
    init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                          IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
                          IBV_QP_EX_WITH_BIND_MW | kPlacements;
  }
  queue_pair_.reset(ibv_create_qp_ex(context_.get(), &init));
  if (!queue_pair_) fail("cannot make a queue pair");
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port_;
  attributes.qp_access_flags = access_of(config_.queue_pair_rights);
  modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

void VerbsEndpoint::connect(const Address& peer, std::uint32_t path_mtu,
                            std::uint8_t max_rd_atomic) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_code(path_mtu);
  attributes.dest_qp_num = peer.qpn;
  attributes.rq_psn = peer.psn;
  attributes.max_dest_rd_atomic = config_.max_dest_rd_atomic;
  attributes.min_rnr_timer = config_.min_rnr_timer;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = port_;
  attributes.ah_attr.grh.dgid = parse_gid(peer.gid);
  attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
  attributes.ah_attr.grh.hop_limit = 64;
  modify(attributes,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         "RTR");
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = config_.first_psn;
  attributes.timeout = config_.timeout;
  attributes.retry_cnt = config_.retry_count;
  attributes.rnr_retry = config_.rnr_retry;
  attributes.max_rd_atomic = max_rd_atomic;
  modify(attributes,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
}

void VerbsEndpoint::modify(ibv_qp_attr& attributes, int mask, const char* what) {
  const int error = ibv_modify_qp(queue_pair_.get(), &attributes, mask);
  if (error != 0) {
    throw Failure(std::string("cannot move the queue pair to ") + what + ": " +
                  std::strerror(error));
  }
}

void VerbsEndpoint::destroy_queue_pair() {
  windows_.clear();
  queue_pair_.reset();
}

RemoteRegion VerbsEndpoint::remote_region() const {
  const auto bytes = region_.bytes();
  return {reinterpret_cast<std::uint64_t>(bytes.data()), region_.registration()->rkey,
          bytes.size()};
}

void VerbsEndpoint::fill_sges(std::span<const Piece> pieces, const Memory& memory, bool bad_lkey,
                              std::vector<ibv_sge>& out) const {
  for (const Piece& piece : pieces) {
    out.push_back({reinterpret_cast<std::uint64_t>(memory.bytes().data()) + piece.offset,
                   piece.length, bad_lkey ? kNoSuchKey : memory.registration()->lkey});
  }
}

void VerbsEndpoint::post(std::span<const Request> requests) {
  // In order: runs of requests for ibv_post_send, and those between them that it does not know.
  while (!requests.empty()) {
    const auto first = std::find_if(requests.begin(), requests.end(),
                                    [](const Request& one) { return is_placement(one.kind); });
    const auto usual = static_cast<std::size_t>(first - requests.begin());
    if (usual > 0) {
      post_usual(requests.first(usual));
    } else {
      post_placement(requests.front());
    }
    requests = requests.subspan(std::max<std::size_t>(usual, 1));
  }
}

void VerbsEndpoint::post_placement(const Request& request) {
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(queue_pair_.get());
  ibv_wr_start(extended);
  extended->wr_id = request.id;
  extended->wr_flags =
      flag_if(request.signalled, IBV_SEND_SIGNALED) | flag_if(request.fenced, IBV_SEND_FENCE);
  if (request.kind == OperationKind::atomic_write) {
    ibv_wr_atomic_write(extended, request.rkey, request.remote_addr,
                        local_.bytes().data() + request.piece[0].offset);
  } else {
#ifdef ROCKHOPPER_TEST_VERBS_HAVE_FLUSH
    ibv_wr_flush(extended, request.rkey, request.remote_addr, request.flush_length,
                 IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
#else
    throw Failure("this libibverbs knows no FLUSH");
#endif
  }
  if (const int error = ibv_wr_complete(extended); error != 0) {
    throw Failure(std::string("cannot post a request: ") + std::strerror(error));
  }
}

void VerbsEndpoint::post_usual(std::span<const Request> requests) {
  send_wrs_.assign(requests.size(), ibv_send_wr{});
  sges_.clear();
  sges_.reserve(requests.size() * kMaxSges);  // pointers into it stay valid
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    ibv_send_wr& wr = send_wrs_[i];
    wr.wr_id = request.id;
    wr.next = i + 1 < requests.size() ? &send_wrs_[i + 1] : nullptr;
    wr.sg_list = sges_.data() + sges_.size();
    wr.num_sge = static_cast<int>(request.pieces);
    fill_sges(std::span(request.piece).first(request.pieces), local_, request.bad_lkey, sges_);
    wr.opcode = opcode_of(request.kind);
    wr.send_flags = flag_if(request.signalled, IBV_SEND_SIGNALED) |
                    flag_if(request.fenced, IBV_SEND_FENCE) |
                    flag_if(request.solicited, IBV_SEND_SOLICITED);
    if (request.kind == OperationKind::send_inv) {
      wr.invalidate_rkey = request.rkey;
    } else {
      wr.imm_data = htonl(request.immediate);
    }
    if (is_atomic(request.kind)) {
      wr.wr.atomic = {request.remote_addr, request.compare, request.swap_or_add, request.rkey};
      if (request.kind == OperationKind::fetch_add) {
        wr.wr.atomic.compare_add = request.swap_or_add;
        wr.wr.atomic.swap = 0;
      }
    } else if (!is_send(request.kind)) {
      wr.wr.rdma = {request.remote_addr, request.rkey};
    }
  }
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(queue_pair_.get(), send_wrs_.data(), &bad); error != 0) {
    throw Failure(std::string("cannot post a request: ") + std::strerror(error));
  }
}

void VerbsEndpoint::post(std::span<const Receive> receives) {
  if (receives.empty()) return;
  recv_wrs_.assign(receives.size(), ibv_recv_wr{});
  sges_.clear();
  sges_.reserve(receives.size() * kMaxSges);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    ibv_recv_wr& wr = recv_wrs_[i];
    wr.wr_id = receives[i].id | kReceiveBit;
    wr.next = i + 1 < receives.size() ? &recv_wrs_[i + 1] : nullptr;
    wr.sg_list = sges_.data() + sges_.size();
    wr.num_sge = static_cast<int>(receives[i].pieces);
    fill_sges(std::span(receives[i].piece).first(receives[i].pieces), receive_,
              receives[i].bad_lkey, sges_);
  }
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(queue_pair_.get(), recv_wrs_.data(), &bad); error != 0) {
    throw Failure(std::string("cannot post a receive: ") + std::strerror(error));
  }
}

std::size_t VerbsEndpoint::poll(std::span<Completed> out) {
  std::array<ibv_wc, 64> completions;
  const int wanted = static_cast<int>(std::min(out.size(), completions.size()));
  const int count = ibv_poll_cq(cq_.get(), wanted, completions.data());
  if (count < 0) throw Failure("cannot poll the completion queue");
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions[static_cast<std::size_t>(i)];
    Completed& completed = out[static_cast<std::size_t>(i)];
    completed = Completed{};
    completed.id = wc.wr_id & ~kReceiveBit;
    completed.receive = (wc.wr_id & kReceiveBit) != 0;
    completed.success = wc.status == IBV_WC_SUCCESS;
    if (!completed.success) {
      completed.status = test::wc_status_name(wc.status);
      continue;
    }
    completed.length = wc.byte_len;
    completed.rdma_write = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) {
      completed.has_immediate = true;
      completed.immediate = ntohl(wc.imm_data);
    }
    // rxe hands on the kernel's value of this flag, which is another one in verbs (and there only
    // for datagrams).
    if ((wc.wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK)) != 0) {
      completed.has_invalidated = true;
      completed.invalidated = wc.invalidated_rkey;
    }
  }
  return static_cast<std::size_t>(count);
}

void VerbsEndpoint::wait(int descriptor, int timeout_ms) {
  if (!cq_) {
    pollfd waited{descriptor, POLLIN, 0};
    (void)::poll(&waited, 1, timeout_ms);
    return;
  }
  if (!armed_) {
    if (ibv_req_notify_cq(cq_.get(), 0) != 0) fail("cannot ask for completion events");
    armed_ = true;
    return;  // what came before the request raises no event: the caller polls once more
  }
  std::array<pollfd, 2> waited{{{channel_->fd, POLLIN, 0}, {descriptor, POLLIN, 0}}};
  if (::poll(waited.data(), waited.size(), timeout_ms) < 0 && errno != EINTR) fail("poll");
  ibv_cq* cq = nullptr;
  void* unused = nullptr;
  while (ibv_get_cq_event(channel_.get(), &cq, &unused) == 0) {
    armed_ = false;
    if (++unacknowledged_events_ == 1000) {
      ibv_ack_cq_events(cq_.get(), unacknowledged_events_);
      unacknowledged_events_ = 0;
    }
  }
}

std::vector<std::uint32_t> VerbsEndpoint::renew_keys(std::uint32_t count) {
  std::vector<Window*> unbound;
  for (Window& window : std::span(windows_).first(std::min<std::size_t>(count, windows_.size()))) {
    if (!window.bound) unbound.push_back(&window);
  }
  bind(unbound);
  std::vector<std::uint32_t> keys;
  for (std::size_t i = 0; i < std::min<std::size_t>(count, windows_.size()); ++i) {
    keys.push_back(windows_[i].rkey);
  }
  return keys;
}

void VerbsEndpoint::bind(std::span<Window*> windows) {
  const auto bytes = region_.bytes();
  for (Window* window : windows) {
    // The low byte of a type 2 window's key is the consumer's, a new one for each binding.
    window->rkey = ibv_inc_rkey(window->rkey);
    ibv_send_wr wr{};
    wr.wr_id = kBindId;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = window->window.get();
    wr.bind_mw.rkey = window->rkey;
    wr.bind_mw.bind_info = {region_.registration(), reinterpret_cast<std::uint64_t>(bytes.data()),
                            bytes.size(), IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(queue_pair_.get(), &wr, &bad); error != 0) {
      throw Failure(std::string("cannot bind a memory window: ") + std::strerror(error));
    }
    window->window->rkey = window->rkey;  // the next binding names the key that it replaces
    window->bound = true;
  }
  std::array<Completed, 16> completed;
  for (std::size_t done = 0; done < windows.size();) {
    const std::size_t count = poll(completed);
    for (const Completed& one : std::span(completed).first(count)) {
      if (one.id != kBindId || !one.success) {
        throw Failure("binding a memory window completed with " + one.status);
      }
    }
    done += count;
    if (count == 0) wait(channel_->fd, 1000);
  }
}

void VerbsEndpoint::on_invalidated(std::uint32_t rkey) {
  for (Window& window : windows_) {
    if (window.rkey == rkey) window.bound = false;
  }
}

std::string VerbsEndpoint::state() {
  constexpr std::string_view kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  if (ibv_query_qp(queue_pair_.get(), &attributes, IBV_QP_STATE, &init) != 0) {
    fail("cannot query the queue pair");
  }
  const auto index = static_cast<std::size_t>(attributes.qp_state);
  return std::string(index < std::size(kNames) ? kNames[index] : "UNKNOWN");
}

std::vector<std::string> VerbsEndpoint::events() {
  std::vector<std::string> names;
  ibv_async_event event{};
  while (ibv_get_async_event(context_.get(), &event) == 0) {
    names.push_back(test::event_type_name(event.event_type));
    ibv_ack_async_event(&event);
  }
  return names;
}

}  // namespace rockhopper::interop
