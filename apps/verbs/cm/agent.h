// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <rdma/rdma_user_cm.h>

#include "apps/verbs/cm/channel.h"
#include "apps/verbs/cm/identifier.h"
#include "apps/verbs/cm/ports.h"
#include "apps/verbs/cm/program_event.h"
#include "apps/verbs/cm/routes.h"
#include "apps/verbs/node/node.h"
#include "roce/cm/connection_manager.h"
#include "roce/random.h"

namespace rockhopper::verbs::cm {

/// The device has one.
inline constexpr std::uint8_t kPort = 1;
/// librdmacm finds its own objects by the handle, up to this one.
inline constexpr std::uint32_t kHandlesMax = 65'535;

/// The lowest number that the table has no entry for. Requires that it has fewer than kHandlesMax.
template <typename Table>
[[nodiscard]] std::uint32_t free_handle(const Table& table) {
  std::uint32_t handle = 0;
  while (table.contains(handle)) {
    ++handle;
  }
  return handle;
}

/// The device as programs are told of it.
struct DeviceName {
  std::uint64_t guid = 0;  ///< of the node, in network byte order
  int index = 0;           ///< of ibv_get_device_index()
};

/// What stands in the place of the kernel's rdma_ucm and rdma_cm: the opened channels of this
/// process, the identifiers, and a connection manager for them. All of it in a Section; calls
/// return an errno as the kernel's commands do, or 0.
class Agent final : public Service {
 public:
  /// Joins the node, which is not owned, until destroyed. In a Section.
  [[nodiscard]] static Expected<std::unique_ptr<Agent>> create(Node& node,
                                                               const DeviceName& device);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  /// Says nothing to peers: close the channels first.
  ~Agent() override;

  // The channels.
  void add(std::unique_ptr<Channel> channel) { channels_.push_back(std::move(channel)); }
  void list_inodes(std::vector<ino_t>& to) const;
  [[nodiscard]] Channel* find(dev_t device, ino_t inode) const;
  [[nodiscard]] bool has_channels() const { return !channels_.empty(); }
  /// Ends those that the program has closed, with all that they have.
  void close_channels();

  // Commands of rdma_user_cm.h; `fd` is a descriptor of `channel`. What they answer is written by
  // the caller.
  [[nodiscard]] int create_id(Channel& channel, const rdma_ucm_create_id& command,
                              rdma_ucm_create_id_resp& response);
  [[nodiscard]] int destroy_id(Channel& channel, int fd, std::uint32_t handle,
                               rdma_ucm_destroy_id_resp& response);
  [[nodiscard]] int bind(Identifier& identifier, const SocketAddress& address);
  [[nodiscard]] int resolve_address(Identifier& identifier, const SocketAddress& source,
                                    const SocketAddress& destination);
  [[nodiscard]] int resolve_route(Identifier& identifier);
  [[nodiscard]] int query_route(const Identifier& identifier,
                                rdma_ucm_query_route_resp& response) const;
  [[nodiscard]] int query_address(const Identifier& identifier,
                                  rdma_ucm_query_addr_resp& response) const;
  [[nodiscard]] int query_gids(const Identifier& identifier,
                               rdma_ucm_query_addr_resp& response) const;
  [[nodiscard]] int listen(Identifier& identifier, std::uint32_t backlog);
  [[nodiscard]] int connect(Identifier& identifier, const rdma_ucm_conn_param& parameters);
  [[nodiscard]] int accept(Identifier& identifier, std::uint64_t uid,
                           const rdma_ucm_conn_param& parameters);
  [[nodiscard]] int reject(Identifier& identifier, const rdma_ucm_reject& command);
  [[nodiscard]] int disconnect(Identifier& identifier);
  [[nodiscard]] int notify(Identifier& identifier, std::uint32_t event);
  [[nodiscard]] int init_qp_attr(const Identifier& identifier, std::uint32_t state,
                                 ib_uverbs_qp_attr& response) const;
  [[nodiscard]] int join(Identifier& identifier, std::uint64_t uid, const SocketAddress& group,
                         rdma_ucm_create_id_resp& response);
  [[nodiscard]] int leave(Channel& channel, int fd, std::uint32_t handle,
                          rdma_ucm_destroy_id_resp& response);
  /// To `channel`, from the one of which `from_fd` is a descriptor.
  [[nodiscard]] int migrate(Channel& channel, Channel& from, int from_fd, std::uint32_t handle,
                            rdma_ucm_migrate_resp& response);
  /// Requires that there is one.
  [[nodiscard]] rdma_ucm_event_resp take_event(Channel& channel, int fd);

  /// Null: the channel has no such identifier.
  [[nodiscard]] Identifier* identifier(const Channel& channel, std::uint32_t handle) const;
  /// Tells the program that its route has been set, as resolve_route() does.
  void tell_route(Identifier& identifier);

  // Service.
  void poll(std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override;
  void end() override;

 private:
  Agent(Node& node, const DeviceName& device);

  [[nodiscard]] Identifier& make_identifier(Channel& channel);
  void end_identifier(Identifier& identifier);
  void let_go(Identifier& identifier);
  /// Gives it its address and its port.
  [[nodiscard]] int give_address(Identifier& identifier, const SocketAddress& address);

  // What the manager tells.
  void on_event(const roce::cm::Event& event);
  void on_request(const roce::cm::Event& event);
  void on_answer(Identifier& identifier, const roce::cm::Event& event);
  [[nodiscard]] Identifier* listener_of(const roce::cm::Event& event,
                                        roce::cm::IpServiceHeader& header) const;
  void refuse(const roce::cm::Event& event, wire::cm::RejectReason reason);
  [[nodiscard]] Identifier* owner_of(const roce::cm::Event& event) const;

  // What programs are told.
  void tell(Identifier& identifier, ProgramEvent type, int status = 0);
  void push(const QueuedEvent& event);
  [[nodiscard]] ib_uverbs_ah_attr attributes_of(const roce::AddressVector& path) const;

  Node& node_;
  const DeviceName device_;
  roce::SystemRandom random_;
  Routes routes_;
  std::unique_ptr<roce::cm::ConnectionManager> manager_;
  Ports ports_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Identifier>> identifiers_;
  std::unordered_map<std::uint32_t, Group*> groups_;
};

}  // namespace rockhopper::verbs::cm
