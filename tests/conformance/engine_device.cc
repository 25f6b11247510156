// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/conformance/engine_device.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include <rte_ether.h>

#include "roce/address_handle.h"
#include "tests/support/engine_names.h"
#include "tests/support/verbs_names.h"

namespace rockhopper::conformance {
namespace {

constexpr std::uint32_t kQueueDepth = 64;
constexpr std::uint32_t kElementsMax = 4;

template <typename T>
T need(Expected<T> result) {
  if (!result) throw Failure(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

roce::QpType type_of(const std::string& name, bool initiator) {
  if (name == "rc") return roce::QpType::rc;
  if (name == "uc") return roce::QpType::uc;
  if (name == "ud") return roce::QpType::ud;
  if (name == "xrc") return initiator ? roce::QpType::xrc_send : roce::QpType::xrc_recv;
  throw Failure("no such service: " + name);
}

constexpr std::array<std::pair<const char*, roce::QpState>, 7> kStates = {
    {{"reset", roce::QpState::reset},
     {"init", roce::QpState::init},
     {"rtr", roce::QpState::rtr},
     {"rts", roce::QpState::rts},
     {"sqd", roce::QpState::sqd},
     {"sqe", roce::QpState::sqe},
     {"err", roce::QpState::err}}};

roce::QpState state_of(const std::string& name) {
  for (const auto& [text, state] : kStates) {
    if (name == text) return state;
  }
  throw Failure("no such state: " + name);
}

std::string opcode_name(roce::WcOpcode opcode) {
  static constexpr std::array<const char*, 14> kNames = {
      "send",  "rdma_write",         "rdma_read",        "comp_swap",       "fetch_add",
      "recv",  "recv_rdma_with_imm", "local_inv",        "bind_mw",         "reg_mr",
      "flush", "atomic_write",       "masked_comp_swap", "masked_fetch_add"};
  return kNames.at(static_cast<std::size_t>(opcode));
}

roce::WrOpcode opcode_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::rdma_write:
      return roce::WrOpcode::rdma_write;
    case Opcode::rdma_write_with_imm:
      return roce::WrOpcode::rdma_write_with_imm;
    case Opcode::send:
      return roce::WrOpcode::send;
    case Opcode::send_with_imm:
      return roce::WrOpcode::send_with_imm;
    case Opcode::rdma_read:
      return roce::WrOpcode::rdma_read;
    case Opcode::atomic_cmp_and_swp:
      return roce::WrOpcode::atomic_cmp_and_swp;
    case Opcode::atomic_fetch_and_add:
      return roce::WrOpcode::atomic_fetch_and_add;
    case Opcode::send_with_inv:
      return roce::WrOpcode::send_with_inv;
    case Opcode::local_inv:
      return roce::WrOpcode::local_inv;
    case Opcode::bind_mw:
      return roce::WrOpcode::bind_mw;
  }
  throw Failure("no such opcode");
}

}  // namespace

EngineDevice::EngineDevice(Config config)
    : config_(std::move(config)),
      pd_(config_.engine->allocate_pd()),
      other_pd_(config_.engine->allocate_pd()) {}

EngineDevice::~EngineDevice() { close(); }

std::vector<std::string> EngineDevice::addresses() const {
  std::vector<std::string> texts;
  for (const stack::IpAddress& address : config_.addresses) {
    texts.push_back(address.to_string());
  }
  return texts;
}

std::string EngineDevice::mac() const {
  std::array<char, RTE_ETHER_ADDR_FMT_SIZE> text;
  rte_ether_format_addr(text.data(), text.size(), &config_.mac);
  return text.data();
}

Opened EngineDevice::open(const QueuePairSpec& qp, const std::vector<RegionSpec>& regions,
                          const std::vector<WindowSpec>& windows) {
  close();
  for (const RegionSpec& region : regions) {
    add_region(region);
  }
  for (const WindowSpec& window : windows) {
    windows_.emplace_back(window.name,
                          need(config_.engine->allocate_window(
                              pd_, window.type == 2 ? roce::MemoryKind::window_type_2
                                                    : roce::MemoryKind::window_type_1)));
  }
  create_queue_pair(qp);
  Opened opened{.qpn = qp_->number().value, .regions = {}, .srqs = {}};
  for (const auto& [name, srq] : srqs_) {
    opened.srqs.push_back({.name = name, .number = srq->number()});
  }
  for (const Region& region : regions_) {
    opened.regions.push_back({.name = region.name,
                              .address = region.registration.iova,
                              .key = static_cast<std::uint32_t>(region.registration.key)});
  }
  return opened;
}

void EngineDevice::close() {
  for (roce::QueuePair** qp : {&qp_, &other_qp_}) {
    if (*qp != nullptr) config_.engine->destroy_qp(std::exchange(*qp, nullptr));
  }
  for (const auto& [name, srq] : srqs_) {
    need(config_.engine->destroy_srq(srq));
  }
  srqs_.clear();
  for (const roce::XrcDomain xrcd : xrcds_) {
    need(config_.engine->close_xrcd(xrcd));
  }
  xrcds_.clear();
  for (const auto& [name, window] : windows_) {
    need(config_.engine->deallocate_window(window.rkey));
  }
  windows_.clear();
  if (ah_ != nullptr) config_.engine->destroy_ah(std::exchange(ah_, nullptr));
  if (group_ah_ != nullptr) config_.engine->destroy_ah(std::exchange(group_ah_, nullptr));
  for (const Region& region : regions_) {
    if (region.registered) need(config_.engine->deregister_memory(region.registration.key));
  }
  regions_.clear();
  (void)events();
}

void EngineDevice::add_region(const RegionSpec& spec) {
  Region region{RegionMemory(spec), {}, true};
  region.registration = need(config_.engine->register_memory(
      spec.other_pd ? other_pd_ : pd_, region.bytes.get(), region.length, spec.access));
  regions_.push_back(std::move(region));
}

roce::AddressVector EngineDevice::address_vector(const QueuePairSpec& spec) {
  const auto peer = stack::IpAddress::parse(spec.peer_address);
  if (!peer) throw Failure(spec.peer_address + " is no address");
  if (peer_address_ != spec.peer_address) {
    rte_ether_addr mac{};
    if (rte_ether_unformat_addr(spec.peer_mac.c_str(), &mac) != 0) {
      throw Failure(spec.peer_mac + " is no MAC address");
    }
    need(config_.host->add_static_neighbour(*peer, mac));
    peer_address_ = spec.peer_address;
  }
  const auto own = std::find_if(
      config_.addresses.begin(), config_.addresses.end(),
      [&](const stack::IpAddress& address) { return address.is_ipv4() == peer->is_ipv4(); });
  if (own == config_.addresses.end()) {
    throw Failure("the device has no address of the peer's family");
  }
  return {.source = *own, .destination = *peer};
}

roce::SharedReceiveQueue* EngineDevice::create_srq(roce::ProtectionDomain pd,
                                                   roce::XrcDomain xrcd) {
  const bool xrc = xrcd != roce::XrcDomain{};
  return need(
      config_.engine->create_srq({.pd = pd,
                                  .attributes = {.max_wr = kQueueDepth, .max_sge = kElementsMax},
                                  .xrcd = xrcd,
                                  .cq = xrc ? recv_cq_.get() : nullptr}));
}

void EngineDevice::create_srqs(const QueuePairSpec& spec) {
  srq_limit_ = spec.srq_limit;
  if (spec.type == "xrc" && !spec.initiator) {
    xrcds_ = {config_.engine->open_xrcd(), config_.engine->open_xrcd()};
    srqs_.emplace_back("first", create_srq(pd_, xrcds_[0]));
    srqs_.emplace_back("second", create_srq(other_pd_, xrcds_[0]));
    srqs_.emplace_back("foreign", create_srq(pd_, xrcds_[1]));
  } else if (spec.srq) {
    srqs_.emplace_back("srq", create_srq(pd_, {}));
  }
}

/// An XRC initiator receives nothing, a target has neither queues nor protection domain.
roce::QpInit EngineDevice::queue_pair_init(const QueuePairSpec& spec) {
  roce::QpInit init;
  init.qp_type = type_of(spec.type, spec.initiator);
  if (init.qp_type == roce::QpType::xrc_recv) {
    init.xrcd = xrcds_[0];
    return init;
  }
  init.pd = pd_;
  init.send_cq = send_cq_.get();
  init.recv_cq = init.qp_type == roce::QpType::xrc_send ? nullptr : recv_cq_.get();
  init.srq = srqs_.empty() ? nullptr : srqs_[0].second;
  init.max_send_wr = init.max_recv_wr = kQueueDepth;
  init.max_send_sge = init.max_recv_sge = kElementsMax;
  return init;
}

void EngineDevice::create_queue_pair(const QueuePairSpec& spec) {
  send_cq_ = need(roce::CompletionQueue::create(2 * kQueueDepth));
  recv_cq_ = need(roce::CompletionQueue::create(2 * kQueueDepth));
  create_srqs(spec);
  const roce::QpInit init = queue_pair_init(spec);
  qp_ = need(config_.engine->create_qp(init));
  peer_qpn_ = wire::Qpn{spec.peer_qpn};
  const roce::AddressVector av = address_vector(spec);
  if (spec.type == "ud") {
    ah_ = need(config_.engine->create_ah(pd_, av));
    join_group(spec, av);
  }
  bring_up(*qp_, spec, av);
  if (!windows_.empty()) {
    other_qp_ = need(config_.engine->create_qp(init));
    bring_up(*other_qp_, spec, av);
  }
}

void EngineDevice::join_group(const QueuePairSpec& spec, roce::AddressVector av) {
  if (spec.group.empty()) return;
  const auto group = stack::IpAddress::parse(spec.group);
  if (!group) throw Failure(spec.group + " is no address");
  av.destination = *group;
  group_ah_ = need(config_.engine->create_ah(pd_, av));
  need(config_.engine->attach_multicast(*qp_, *group));
}

void EngineDevice::bring_up(roce::QueuePair& qp, const QueuePairSpec& spec,
                            const roce::AddressVector& av) {
  roce::QpAttributes attributes;
  attributes.path_mtu = static_cast<roce::PathMtu>(spec.path_mtu);
  attributes.qkey = spec.qkey;
  attributes.rq_psn = wire::Psn{spec.rq_psn};
  attributes.sq_psn = wire::Psn{spec.sq_psn};
  attributes.dest_qp_num = wire::Qpn{spec.peer_qpn};
  attributes.qp_access_flags = spec.access;
  attributes.ah_attr = av;
  attributes.max_rd_atomic = spec.max_rd_atomic;
  attributes.max_dest_rd_atomic = spec.max_dest_rd_atomic;
  attributes.min_rnr_timer = spec.min_rnr_timer;
  attributes.timeout = spec.timeout;
  attributes.retry_cnt = spec.retry_cnt;
  attributes.rnr_retry = spec.rnr_retry;
  need(qp.bring_up(attributes, state_of(spec.state)));
}

std::vector<roce::Sge> EngineDevice::sges(const std::vector<Element>& elements) {
  std::vector<roce::Sge> list;
  for (const Element& element : elements) {
    const Region& region = find_region(regions_, element.region);
    const auto key = static_cast<std::uint32_t>(region.registration.key);
    list.push_back({.addr = region.registration.iova + element.offset,
                    .length = element.length,
                    .lkey = roce::MemoryKey{element.bad_lkey ? key ^ 1u << 31 : key}});
  }
  return list;
}

/// A window of type 2 gets its next key from the request, one of type 1 from the call.
Posted EngineDevice::post_bind(const SendSpec& spec, roce::SendWr wr) {
  const auto found = std::find_if(windows_.begin(), windows_.end(), [&](const auto& window) {
    return window.first == spec.bind.window;
  });
  if (found == windows_.end()) throw Failure("no window " + spec.bind.window);
  const Region& region = find_region(regions_, spec.bind.region);
  roce::MemoryWindow& window = found->second;
  roce::QueuePair& qp = spec.other_qp ? *other_qp_ : *qp_;
  wr.mw_bind = {.mr = region.registration.key,
                .addr = region.registration.iova + spec.bind.offset,
                .length = spec.bind.length,
                .access = spec.bind.access};
  roce::PostResult result = roce::PostResult::ok;
  if (window.kind == roce::MemoryKind::window_type_1) {
    result = qp.bind_mw(window.rkey, wr);
  } else {
    wr.rkey = roce::next_generation(window.rkey);
    result = qp.post_send(wr);
    window.rkey = wr.rkey;
  }
  return {.ok = result == roce::PostResult::ok, .rkey = static_cast<std::uint32_t>(window.rkey)};
}

Posted EngineDevice::post_send(const SendSpec& spec) {
  const std::vector<roce::Sge> list = sges(spec.elements);
  const roce::SendWr wr{.wr_id = spec.wr_id,
                        .sg_list = list,
                        .opcode = opcode_of(spec.opcode),
                        .send_flags = (spec.fence ? roce::kSendFence : 0u) |
                                      (spec.signaled ? roce::kSendSignaled : 0u) |
                                      (spec.solicited ? roce::kSendSolicited : 0u) |
                                      (spec.is_inline ? roce::kSendInline : 0u),
                        .imm_data = spec.imm_data,
                        .invalidate_rkey = roce::MemoryKey{spec.invalidate_rkey},
                        .remote_addr = spec.remote_addr,
                        .rkey = roce::MemoryKey{spec.rkey},
                        .compare_add = spec.compare_add,
                        .swap = spec.swap,
                        .ah = spec.to_group ? group_ah_ : ah_,
                        .remote_qpn = spec.remote_qpn ? wire::Qpn{*spec.remote_qpn}
                                      : spec.to_group ? wire::kMulticastQpn
                                                      : peer_qpn_,
                        .remote_srqn = spec.remote_srqn,
                        .remote_qkey = spec.remote_qkey};
  return spec.opcode == Opcode::bind_mw ? post_bind(spec, wr)
                                        : Posted{.ok = qp_->post_send(wr) == roce::PostResult::ok};
}

bool EngineDevice::post_recv(std::uint64_t wr_id, const std::vector<Element>& elements,
                             const std::string& srq) {
  const std::vector<roce::Sge> list = sges(elements);
  const roce::RecvWr wr{.wr_id = wr_id, .sg_list = list};
  if (srqs_.empty()) return qp_->post_recv(wr) == roce::PostResult::ok;
  const auto named =
      std::find_if(srqs_.begin(), srqs_.end(), [&](const auto& one) { return one.first == srq; });
  roce::SharedReceiveQueue& queue = *(named == srqs_.end() ? srqs_[0] : *named).second;
  const bool posted = queue.post_recv(wr) == roce::PostResult::ok;
  if (posted && srq_limit_ != 0 && queue.depth() >= srq_limit_) {
    // Armed once there are that many: before, it would be reached at once.
    need(queue.modify({.srq_limit = std::exchange(srq_limit_, 0)}, roce::kSrqLimit));
  }
  return posted;
}

void EngineDevice::take(roce::CompletionQueue& cq, bool receive, std::vector<Completed>& out) {
  std::array<roce::Completion, 16> some;
  while (const std::size_t count = cq.poll(some)) {
    for (const roce::Completion& one : std::span(some).first(count)) {
      Completed completed{.receive = receive,
                          .wr_id = one.wr_id,
                          .status = test::wc_status_name(static_cast<unsigned>(one.status)),
                          .opcode = {},
                          .byte_len = one.byte_len,
                          .imm_data = {},
                          .invalidated_rkey = {},
                          .src_qp = {}};
      if (one.status == roce::WcStatus::success) {
        completed.opcode = opcode_name(one.opcode);
        if ((one.wc_flags & roce::kWcWithImm) != 0) completed.imm_data = one.imm_data;
        if ((one.wc_flags & roce::kWcWithInv) != 0) {
          completed.invalidated_rkey = static_cast<std::uint32_t>(one.invalidated_rkey);
        }
        if ((one.wc_flags & roce::kWcGrh) != 0) completed.src_qp = one.src_qp.value;
      }
      out.push_back(std::move(completed));
    }
  }
}

std::vector<Completed> EngineDevice::poll() {
  std::vector<Completed> completions;
  take(*send_cq_, false, completions);
  take(*recv_cq_, true, completions);
  return completions;
}

std::vector<std::string> EngineDevice::events() {
  std::vector<std::string> names;
  while (const auto event = config_.engine->poll_async_event()) {
    names.push_back(test::event_type_name(event->type));
  }
  return names;
}

void EngineDevice::modify_state(const std::string& state) {
  roce::QpAttributes attributes;
  attributes.qp_state = state_of(state);
  std::uint32_t mask = roce::kQpState;
  if (attributes.qp_state == roce::QpState::sqd) mask |= roce::kQpEnSqdAsyncNotify;
  need(qp_->modify(attributes, mask));
}

std::string EngineDevice::state() {
  const roce::QpState state = qp_->state();
  return std::find_if(kStates.begin(), kStates.end(),
                      [state](const auto& row) { return row.second == state; })
      ->first;
}

void EngineDevice::deregister(const std::string& region) {
  Region& found = find_region(regions_, region);
  need(config_.engine->deregister_memory(found.registration.key));
  found.registered = false;
}

std::vector<std::uint8_t> EngineDevice::memory(const std::string& region) {
  return find_region(regions_, region).content();
}

std::vector<std::pair<std::string, std::uint64_t>> EngineDevice::counters() {
  std::vector<std::pair<std::string, std::uint64_t>> values;
  config_.engine->visit_counters(
      [](void* context, const char* name, std::uint64_t value) {
        if (value != 0) static_cast<decltype(values)*>(context)->emplace_back(name, value);
      },
      &values);
  return values;
}

}  // namespace rockhopper::conformance
