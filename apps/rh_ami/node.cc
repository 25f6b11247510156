// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/node.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "apps/common/counters.h"

namespace rockhopper::apps::messages {
namespace {

constexpr std::uint8_t kRdAtomic = 16;
/// For receivers that have no buffer for a moment: 10 us.
constexpr std::uint8_t kMinRnrTimer = 1;
constexpr std::uint8_t kRetries = 7;
constexpr std::uint16_t kEndpoints = 2;

/// Another process's memory, to be read only: a way to see what is there that is not the link's.
Expected<PageMemory> map_peer(const std::string& path, std::size_t bytes) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  // Pages that a file does not have are not to be looked at.
  if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<std::size_t>(status.st_size) != bytes) {
    return fail(ErrorCode::not_found, "{} is no memory of {} bytes", path, bytes);
  }
  return PageMemory::map(std::move(file), bytes, /*writable=*/false);
}

}  // namespace

Node::Node(const Options& options, std::unique_ptr<Endpoint> endpoint)
    : ServiceNode(std::move(endpoint), options.endpoint),
      options_(options),
      application_(options.threads > 1, this->endpoint().config().idle) {}

Node::~Node() {
  if (adapter_ == nullptr) return;
  set_work(nullptr);
  unpublish();
  if (qp_ != nullptr) engine().destroy_qp(qp_);
  context_.reset();
  adapter_.reset();
  if (region_.base != nullptr) (void)engine().deregister_memory(region_.key);
}

Expected<std::unique_ptr<Node>> Node::create(const Options& options, const EndpointConfig& config,
                                             const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  std::unique_ptr<Node> node(new Node(options, std::move(endpoint)));
  if (options.transport == Transport::dc) ROCKHOPPER_TRY(node->open_dc());
  return node;
}

Expected<Side> Node::prepare(const Agreement& agreement, ami::EndpointId self,
                             std::optional<bool> ipv4) {
  agreement_ = agreement;
  layout_ = agreement.layout();
  side_.gid = endpoint().addresses().front().address;
  if (ipv4) {
    ROCKHOPPER_TRY(side_.gid, endpoint().address_of_family(*ipv4));
  }
  ROCKHOPPER_TRY(make_lane(self));
  ROCKHOPPER_TRY(make_memory());
  if (dc() == nullptr) ROCKHOPPER_TRY(make_queue_pair());
  return side_;
}

Expected<void> Node::make_lane(ami::EndpointId self) {
  ami::AdapterConfig config;
  config.transfers = std::max(config.transfers, 2 * agreement_.window);
  config.path_mtu = static_cast<roce::PathMtu>(agreement_.path_mtu);
  config.dcis = 1;
  config.timeout = agreement_.ack_timeout;
  config.retry_cnt = kRetries;
  ROCKHOPPER_TRY(adapter_, ami::Adapter::create(engine(), dc(), config));
  ROCKHOPPER_TRY(publish("ami", "ami", *adapter_));
  ami::LaneConfig lane;
  lane.self = self;
  lane.max_endpoints = kEndpoints;
  lane.fifo.completion = options_.completion;
  lane.fifo.slots = options_.slots;
  lane.eager_bytes = agreement_.eager_bytes;
  lane.max_message_bytes = std::max(agreement_.size_max, 1u);
  ROCKHOPPER_TRY(lane_, adapter_->add_lane(lane));
  context_ = std::make_unique<ami::Context>(*lane_);
  return publish("ami_context", "ami_context", *context_);
}

Expected<void> Node::make_memory() {
  ROCKHOPPER_TRY(memory_, PageMemory::share("rh-ami", layout_.bytes()));
  ROCKHOPPER_TRY(region_, engine().register_memory(adapter_->pd(), memory_.data(), memory_.size(),
                                                   roce::kAccessAll));
  side_.address = region_.iova;
  side_.rkey = static_cast<std::uint32_t>(region_.key);
  if (agreement_.check) {
    side_.shared_path = memory_.path();
    side_.token = endpoint().random().next();
    std::memcpy(memory_.data() + Layout::kToken, &side_.token, sizeof side_.token);
  }
  if (dc() != nullptr) {
    const dc::Dct& target = adapter_->target(*lane_);
    side_.qpn = target.number().value;
    side_.access_key = target.access_key();
  }
  return {};
}

Expected<void> Node::make_queue_pair() {
  ROCKHOPPER_TRY(qp_, engine().create_qp(adapter_->qp_init(*lane_)));
  side_.qpn = qp_->number().value;
  side_.psn = engine().random_psn().value;
  return {};
}

Expected<void> Node::connect_queue_pair(const Side& remote) {
  roce::QpAttributes attributes =
      rc_attributes(side_, remote, agreement_.path_mtu, agreement_.ack_timeout);
  attributes.qp_access_flags = roce::kAccessAll;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = kRdAtomic;
  attributes.min_rnr_timer = kMinRnrTimer;
  ROCKHOPPER_TRY(qp_->bring_up(attributes, roce::QpState::rts));
  return adapter_->add_peer(*lane_, peer_, *qp_);
}

Expected<void> Node::connect(const Side& remote, ami::EndpointId peer) {
  ROCKHOPPER_TRY(endpoint().check_peer(remote.gid));
  peer_ = peer;
  remote_address_ = remote.address;
  remote_key_ = static_cast<roce::MemoryKey>(remote.rkey);
  if (agreement_.check) open_peer_memory(remote);
  ROCKHOPPER_TRY(dc() != nullptr
                     ? adapter_->add_peer(*lane_, peer, target_address(side_.gid, remote))
                     : connect_queue_pair(remote));
  open_ = true;
  return adapter_->open(*lane_);
}

void Node::open_peer_memory(const Side& remote) {
  auto memory = map_peer(remote.shared_path, layout_.bytes());
  if (!memory) return;  // on another machine, or somebody else's
  if (std::memcmp(memory->data() + Layout::kToken, &remote.token, sizeof remote.token) == 0) {
    peer_memory_ = std::move(*memory);
  }
}

bool Node::progress(std::uint64_t now_ns) {
  if (!open_) return false;
  bool worked = adapter_->progress(now_ns);
  if (application_.turn()) {
    // What it has injected goes out with the next packets.
    (void)adapter_->progress(now_ns);
    worked = true;
  }
  return worked;
}

ami::Local Node::local(std::size_t offset, std::uint32_t length) const {
  return {.addr = region_.iova + offset, .length = length, .lkey = region_.key};
}

ami::Remote Node::remote(std::size_t offset) const {
  return {.endpoint = peer_, .addr = remote_address_ + offset, .rkey = remote_key_};
}

nlohmann::json Node::counters() const { return counters_to_json(*adapter_); }

}  // namespace rockhopper::apps::messages
