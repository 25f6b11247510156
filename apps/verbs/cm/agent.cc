// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Channels and identifiers: how they come and go.
#include "apps/verbs/cm/agent.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "apps/node/segment_management.h"

namespace rockhopper::verbs::cm {
Agent::Agent(Node& node, const DeviceName& device)
    : node_(node), device_(device), routes_(node.settings()), ports_(node.membership(), random_) {}

Expected<std::unique_ptr<Agent>> Agent::create(Node& node, const DeviceName& device) {
  std::unique_ptr<Agent> agent(new Agent(node, device));
  roce::cm::ConnectionManagerConfig config;
  config.engine = &node.engine();
  config.random = &agent->random_;
  config.accepts_xrc = true;
  config.id_prefix = id_prefix(node.membership().slot());
  ROCKHOPPER_TRY(agent->manager_, roce::cm::ConnectionManager::create(config));
  node.set_service(agent.get());
  return agent;
}

Agent::~Agent() {
  if (!node_.abandoned()) node_.set_service(nullptr);
}

void Agent::list_inodes(std::vector<ino_t>& to) const {
  for (const auto& channel : channels_) {
    to.push_back(channel->inode());
  }
}

Channel* Agent::find(dev_t device, ino_t inode) const {
  for (const auto& channel : channels_) {
    if (channel->has(device, inode)) return channel.get();
  }
  return nullptr;
}

void Agent::close_channels() {
  const auto closed = [](const auto& channel) { return channel->is_closed(); };
  if (std::ranges::none_of(channels_, closed)) return;
  std::vector<Identifier*> orphans;
  for (const auto& [handle, identifier] : identifiers_) {
    if (identifier->channel->is_closed()) orphans.push_back(identifier.get());
  }
  for (Identifier* identifier : orphans) {
    end_identifier(*identifier);
  }
  std::erase_if(channels_, closed);
}

Identifier* Agent::identifier(const Channel& channel, std::uint32_t handle) const {
  const auto found = identifiers_.find(handle);
  if (found == identifiers_.end() || found->second->channel != &channel) return nullptr;
  return found->second.get();
}

Identifier& Agent::make_identifier(Channel& channel) {
  const std::uint32_t handle = free_handle(identifiers_);
  auto& slot = identifiers_[handle] = std::make_unique<Identifier>();
  slot->handle = handle;
  slot->channel = &channel;
  return *slot;
}

int Agent::create_id(Channel& channel, const rdma_ucm_create_id& command,
                     rdma_ucm_create_id_resp& response) {
  using roce::cm::PortSpace;
  std::uint8_t type = command.qp_type;
  switch (static_cast<PortSpace>(command.ps)) {
    case PortSpace::tcp:
      type = IBV_QPT_RC;
      break;
    case PortSpace::udp:
    case PortSpace::ipoib:
      type = IBV_QPT_UD;
      break;
    case PortSpace::ib:
      if (type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
          type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV) {
        break;
      }
      return EINVAL;
    default:
      return EINVAL;
  }
  if (identifiers_.size() >= kHandlesMax) return ENOMEM;
  Identifier& made = make_identifier(channel);
  made.uid = command.uid;
  made.space = static_cast<PortSpace>(command.ps);
  made.qp_type = type;
  response.id = made.handle;
  return 0;
}

int Agent::destroy_id(Channel& channel, int fd, std::uint32_t handle,
                      rdma_ucm_destroy_id_resp& response) {
  Identifier* ended = identifier(channel, handle);
  if (ended == nullptr) return EINVAL;
  channel.take_out(
      fd, [&](const QueuedEvent& event) { return event.owner == ended || event.request == ended; },
      [&](const QueuedEvent& event) {
        if (event.request != nullptr && event.request != ended) end_identifier(*event.request);
      });
  response.events_reported = ended->events_reported;
  end_identifier(*ended);
  return 0;
}

/// What is left of its events is the channel's, which ends too.
void Agent::end_identifier(Identifier& identifier) {
  let_go(identifier);
  for (const auto& group : identifier.groups) {
    groups_.erase(group->handle);
  }
  const bool listened = identifier.state == IdentifierState::listening;
  identifier.state = IdentifierState::idle;
  if (listened && !ports_.has_listener(identifier.local_service_id())) {
    ports_.stop_serving(identifier.local_service_id());
    manager_->stop_listening(identifier.local_service_id());
  }
  ports_.release(identifier);
  identifiers_.erase(identifier.handle);
}

void Agent::let_go(Identifier& identifier) {
  if (auto* connection = std::exchange(identifier.connection, nullptr)) {
    manager_->release(*connection);
  }
  if (auto* lookup = std::exchange(identifier.lookup, nullptr)) manager_->release(*lookup);
}

int Agent::migrate(Channel& channel, Channel& from, int from_fd, std::uint32_t handle,
                   rdma_ucm_migrate_resp& response) {
  Identifier* moved = identifier(from, handle);
  if (moved == nullptr) return EINVAL;
  response.events_reported = moved->events_reported;
  if (&channel == &from) return 0;
  std::vector<QueuedEvent> events;
  from.take_out(
      from_fd, [&](const QueuedEvent& event) { return event.owner == moved; },
      [&](const QueuedEvent& event) { events.push_back(event); });
  moved->channel = &channel;
  for (const QueuedEvent& event : events) {
    if (event.request != nullptr) event.request->channel = &channel;
    channel.push(event);
  }
  return 0;
}

rdma_ucm_event_resp Agent::take_event(Channel& channel, int fd) {
  const QueuedEvent event = channel.pop(fd);
  ++event.owner->events_reported;
  if (event.group != nullptr) ++event.group->events_reported;
  if (event.request != nullptr) ++event.owner->backlog;
  return event.response;
}

std::uint64_t Agent::next_deadline_ns() const { return manager_->next_deadline_ns(); }

void Agent::end() {
  for (const auto& [handle, identifier] : identifiers_) {
    let_go(*identifier);
  }
}

}  // namespace rockhopper::verbs::cm
