// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/cm/commands.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

#include <rdma/rdma_user_cm.h>
#include <sys/stat.h>

#include "apps/verbs/cm/options.h"
#include "apps/verbs/node/memory_check.h"

namespace rockhopper::verbs::cm {
namespace {

/// What a handler has of a command.
struct Call {
  Agent& agent;
  Channel& channel;
  int fd;
  std::span<const std::byte> in;  ///< at least as many bytes as the command's table entry asks for
  std::size_t out = 0;            ///< room for the answer
};

/// The command; what a program of an older header leaves out is 0.
template <typename Command>
Command read(const Call& call) {
  Command command{};
  std::memcpy(&command, call.in.data(), std::min(call.in.size(), sizeof command));
  return command;
}

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

/// Whether the answer can be written there.
template <typename Response>
int check_room(const Call& call, std::uint64_t address) {
  const std::size_t size = std::min(call.out, sizeof(Response));
  return address == 0 || check_memory(pointer(address), size, true) != 0 ? EFAULT : 0;
}

template <typename Response>
void answer(const Call& call, std::uint64_t address, const Response& response) {
  std::memcpy(pointer(address), &response, std::min(call.out, sizeof response));
}

/// Carries out a command that answers: `act(command, response)` returns an errno.
template <typename Command, typename Response, typename Act>
int with_answer(const Call& call, Act act) {
  const auto command = read<Command>(call);
  if (const int error = check_room<Response>(call, command.response); error != 0) return error;
  Response response{};
  if (const int error = act(command, response); error != 0) return error;
  answer(call, command.response, response);
  return 0;
}

/// Does the same for one that is about an identifier: `act(identifier, command, response)`.
template <typename Command, typename Response, typename Act>
int of_identifier_with_answer(const Call& call, Act act) {
  return with_answer<Command, Response>(call, [&](const Command& command, Response& response) {
    Identifier* identifier = call.agent.identifier(call.channel, command.id);
    return identifier == nullptr ? EINVAL : act(*identifier, command, response);
  });
}

/// Carries out a command about an identifier that does not answer: `act(identifier, command)`.
template <typename Command, typename Act>
int of_identifier(const Call& call, Act act) {
  const auto command = read<Command>(call);
  Identifier* identifier = call.agent.identifier(call.channel, command.id);
  return identifier == nullptr ? EINVAL : act(*identifier, command);
}

template <typename Storage>
std::optional<SocketAddress> address_in(const Storage& storage, std::size_t size) {
  if (size > sizeof storage) return std::nullopt;
  return SocketAddress::parse(std::as_bytes(std::span(&storage, 1)).first(size));
}

template <typename Storage>
bool is_unset(const Storage& storage) {
  sa_family_t family = AF_UNSPEC;
  std::memcpy(&family, &storage, sizeof family);
  return family == AF_UNSPEC;
}

int create_id(const Call& call) {
  return with_answer<rdma_ucm_create_id, rdma_ucm_create_id_resp>(
      call, [&](const auto& command, auto& response) {
        return call.agent.create_id(call.channel, command, response);
      });
}

int destroy_id(const Call& call) {
  return with_answer<rdma_ucm_destroy_id, rdma_ucm_destroy_id_resp>(
      call, [&](const auto& command, auto& response) {
        return call.agent.destroy_id(call.channel, call.fd, command.id, response);
      });
}

template <typename Storage>
int bind_to(const Call& call, Identifier& identifier, const Storage& storage, std::size_t size) {
  const auto address = address_in(storage, size);
  return address ? call.agent.bind(identifier, *address) : EINVAL;
}

int bind_ip(const Call& call) {
  return of_identifier<rdma_ucm_bind_ip>(call, [&](Identifier& identifier, const auto& command) {
    return bind_to(call, identifier, command.addr, sizeof command.addr);
  });
}

int bind(const Call& call) {
  return of_identifier<rdma_ucm_bind>(call, [&](Identifier& identifier, const auto& command) {
    if (command.reserved != 0) return EINVAL;
    return bind_to(call, identifier, command.addr, command.addr_size);
  });
}

template <typename Storage>
int resolve(const Call& call, Identifier& identifier, const Storage& from, std::size_t from_size,
            const Storage& to, std::size_t to_size) {
  SocketAddress source;
  if (from_size > 0 && !is_unset(from)) {
    const auto given = address_in(from, from_size);
    if (!given) return EINVAL;
    source = *given;
  }
  const auto destination = address_in(to, to_size);
  return destination ? call.agent.resolve_address(identifier, source, *destination) : EINVAL;
}

int resolve_ip(const Call& call) {
  return of_identifier<rdma_ucm_resolve_ip>(call, [&](Identifier& identifier, const auto& command) {
    return resolve(call, identifier, command.src_addr, sizeof command.src_addr, command.dst_addr,
                   sizeof command.dst_addr);
  });
}

int resolve_addr(const Call& call) {
  return of_identifier<rdma_ucm_resolve_addr>(
      call, [&](Identifier& identifier, const auto& command) {
        if (command.reserved != 0) return EINVAL;
        return resolve(call, identifier, command.src_addr, command.src_size, command.dst_addr,
                       command.dst_size);
      });
}

int resolve_route(const Call& call) {
  return of_identifier<rdma_ucm_resolve_route>(call, [&](Identifier& identifier, const auto&) {
    return call.agent.resolve_route(identifier);
  });
}

int query_route(const Call& call) {
  return of_identifier_with_answer<rdma_ucm_query, rdma_ucm_query_route_resp>(
      call, [&](Identifier& identifier, const auto&, auto& response) {
        return call.agent.query_route(identifier, response);
      });
}

int query(const Call& call) {
  return of_identifier_with_answer<rdma_ucm_query, rdma_ucm_query_addr_resp>(
      call, [&](Identifier& identifier, const auto& command, auto& response) {
        switch (command.option) {
          case RDMA_USER_CM_QUERY_ADDR:
            return call.agent.query_address(identifier, response);
          case RDMA_USER_CM_QUERY_GID:
            return call.agent.query_gids(identifier, response);
          default:
            // A path as InfiniBand has it is asked for by those who could bind to an AF_IB address.
            return ENOSYS;
        }
      });
}

int connect(const Call& call) {
  return of_identifier<rdma_ucm_connect>(call, [&](Identifier& identifier, const auto& command) {
    return call.agent.connect(identifier, command.conn_param);
  });
}

int listen(const Call& call) {
  return of_identifier<rdma_ucm_listen>(call, [&](Identifier& identifier, const auto& command) {
    return call.agent.listen(identifier, command.backlog);
  });
}

int accept(const Call& call) {
  return of_identifier<rdma_ucm_accept>(call, [&](Identifier& identifier, const auto& command) {
    return call.agent.accept(identifier, command.uid, command.conn_param);
  });
}

int reject(const Call& call) {
  return of_identifier<rdma_ucm_reject>(call, [&](Identifier& identifier, const auto& command) {
    return call.agent.reject(identifier, command);
  });
}

int disconnect(const Call& call) {
  return of_identifier<rdma_ucm_disconnect>(
      call, [&](Identifier& identifier, const auto&) { return call.agent.disconnect(identifier); });
}

int init_qp_attr(const Call& call) {
  return of_identifier_with_answer<rdma_ucm_init_qp_attr, ib_uverbs_qp_attr>(
      call, [&](Identifier& identifier, const auto& command, auto& response) {
        return call.agent.init_qp_attr(identifier, command.qp_state, response);
      });
}

int get_event(const Call& call) {
  const auto command = read<rdma_ucm_get_event>(call);
  if (call.channel.is_empty()) return EAGAIN;
  if (const int error = check_room<rdma_ucm_event_resp>(call, command.response); error != 0) {
    return error;
  }
  answer(call, command.response, call.agent.take_event(call.channel, call.fd));
  return 0;
}

int set_option(const Call& call) {
  return of_identifier<rdma_ucm_set_option>(call, [&](Identifier& identifier, const auto& command) {
    if (command.optlen > kOptionMax) return EINVAL;
    std::array<std::byte, kOptionMax> value{};
    const void* from = pointer(command.optval);
    if (command.optlen > 0 && (from == nullptr || check_memory(from, command.optlen, false) != 0)) {
      return EFAULT;
    }
    if (command.optlen > 0) std::memcpy(value.data(), from, command.optlen);
    return set_option_of(call.agent, identifier, command.level, command.optname,
                         std::span(value).first(command.optlen));
  });
}

int notify(const Call& call) {
  return of_identifier<rdma_ucm_notify>(call, [&](Identifier& identifier, const auto& command) {
    return call.agent.notify(identifier, command.event);
  });
}

int join_ip_mcast(const Call& call) {
  return of_identifier_with_answer<rdma_ucm_join_ip_mcast, rdma_ucm_create_id_resp>(
      call, [&](Identifier& identifier, const auto& command, auto& response) {
        const auto group = address_in(command.addr, sizeof command.addr);
        return group ? call.agent.join(identifier, command.uid, *group, response) : EINVAL;
      });
}

int join_mcast(const Call& call) {
  return of_identifier_with_answer<rdma_ucm_join_mcast, rdma_ucm_create_id_resp>(
      call, [&](Identifier& identifier, const auto& command, auto& response) {
        if (command.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return EINVAL;
        const auto group = address_in(command.addr, command.addr_size);
        return group ? call.agent.join(identifier, command.uid, *group, response) : EINVAL;
      });
}

int leave_mcast(const Call& call) {
  return with_answer<rdma_ucm_destroy_id, rdma_ucm_destroy_id_resp>(
      call, [&](const auto& command, auto& response) {
        return call.agent.leave(call.channel, call.fd, command.id, response);
      });
}

int migrate_id(const Call& call) {
  return with_answer<rdma_ucm_migrate_id, rdma_ucm_migrate_resp>(
      call, [&](const auto& command, auto& response) {
        struct stat found = {};
        const int from_fd = static_cast<int>(command.fd);
        if (::fstat(from_fd, &found) != 0) return ENOENT;
        Channel* from = call.agent.find(found.st_dev, found.st_ino);
        if (from == nullptr) return EINVAL;
        return call.agent.migrate(call.channel, *from, from_fd, command.id, response);
      });
}

struct Entry {
  int (*handler)(const Call&) = nullptr;
  std::size_t in = 0;   ///< bytes that the command has at least
  std::size_t out = 0;  ///< room that it offers for the answer at least
};

/// Members at the end that older headers do not have.
constexpr std::size_t kEventBytes = offsetof(rdma_ucm_event_resp, reserved);
constexpr std::size_t kRouteBytes = offsetof(rdma_ucm_query_route_resp, ibdev_index);
constexpr std::size_t kAddressBytes = offsetof(rdma_ucm_query_addr_resp, ibdev_index);
constexpr std::size_t kConnectBytes = offsetof(rdma_ucm_connect, ece);
constexpr std::size_t kAcceptBytes = offsetof(rdma_ucm_accept, ece);

/// By enumerator.
constexpr std::array<Entry, RDMA_USER_CM_CMD_JOIN_MCAST + 1> kCommands = {{
    {&create_id, sizeof(rdma_ucm_create_id), sizeof(rdma_ucm_create_id_resp)},
    {&destroy_id, sizeof(rdma_ucm_destroy_id), sizeof(rdma_ucm_destroy_id_resp)},
    {&bind_ip, sizeof(rdma_ucm_bind_ip), 0},
    {&resolve_ip, sizeof(rdma_ucm_resolve_ip), 0},
    {&resolve_route, sizeof(rdma_ucm_resolve_route), 0},
    {&query_route, sizeof(rdma_ucm_query), kRouteBytes},
    {&connect, kConnectBytes, 0},
    {&listen, sizeof(rdma_ucm_listen), 0},
    {&accept, kAcceptBytes, 0},
    {&reject, sizeof(rdma_ucm_reject), 0},
    {&disconnect, sizeof(rdma_ucm_disconnect), 0},
    {&init_qp_attr, sizeof(rdma_ucm_init_qp_attr), sizeof(ib_uverbs_qp_attr)},
    {&get_event, sizeof(rdma_ucm_get_event), kEventBytes},
    {nullptr, 0, 0},  // GET_OPTION, which the kernel does not have either
    {&set_option, sizeof(rdma_ucm_set_option), 0},
    {&notify, sizeof(rdma_ucm_notify), 0},
    {&join_ip_mcast, sizeof(rdma_ucm_join_ip_mcast), sizeof(rdma_ucm_create_id_resp)},
    {&leave_mcast, sizeof(rdma_ucm_destroy_id), sizeof(rdma_ucm_destroy_id_resp)},
    {&migrate_id, sizeof(rdma_ucm_migrate_id), sizeof(rdma_ucm_migrate_resp)},
    {&query, sizeof(rdma_ucm_query), kAddressBytes},
    {&bind, sizeof(rdma_ucm_bind), 0},
    {&resolve_addr, sizeof(rdma_ucm_resolve_addr), 0},
    {&join_mcast, sizeof(rdma_ucm_join_mcast), sizeof(rdma_ucm_create_id_resp)},
}};

}  // namespace

int execute(Agent& agent, Channel& channel, int fd, std::span<const std::byte> bytes) {
  rdma_ucm_cmd_hdr header{};
  if (bytes.size() < sizeof header) return EINVAL;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.cmd >= kCommands.size()) return EINVAL;
  if (header.in > bytes.size() - sizeof header) return EINVAL;
  const Entry& entry = kCommands.at(header.cmd);
  if (entry.handler == nullptr) return ENOSYS;
  if (header.in < entry.in) return EINVAL;
  if (header.out < entry.out) return ENOSPC;
  return entry.handler({.agent = agent,
                        .channel = channel,
                        .fd = fd,
                        .in = bytes.subspan(sizeof header, header.in),
                        .out = header.out});
}

}  // namespace rockhopper::verbs::cm
