// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/cm/files.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/verbs/abi/device_object.h"
#include "apps/verbs/cm/commands.h"
#include "apps/verbs/node/after_fork.h"
#include "apps/verbs/node/memory_check.h"
#include "apps/verbs/node/nodes.h"
#include "stack/uncancelled.h"

namespace rockhopper::verbs::cm {
namespace {

/// More than any command has.
constexpr std::size_t kCommandMax = 4096;

/// Constant-initialised and never destroyed: threads may outlive main().
struct {
  EngineLock lock;  ///< goes before the node's
  Node* node = nullptr;
  Agent* agent = nullptr;
} cm_process;

/// The inodes of the channels, for who asks in the middle of anything: nothing is called while it
/// is locked. Pipes are all of one device.
struct {
  EngineLock lock;
  std::vector<ino_t>* inodes = nullptr;  ///< made with the first one
} channel_list;

/// In a child of fork(): all of it stays as it is, as the node does.
void forget_agent() {
  cm_process.lock.reset();
  cm_process.node = nullptr;
  cm_process.agent = nullptr;
  channel_list.lock.reset();
  channel_list.inodes = nullptr;
}

void list_channels() {
  auto* inodes = new std::vector<ino_t>;
  if (cm_process.agent != nullptr) cm_process.agent->list_inodes(*inodes);
  {
    const std::lock_guard guard(channel_list.lock);
    std::swap(inodes, channel_list.inodes);
  }
  delete inodes;
}

Expected<void> need_agent(const ibv_device& device) {
  if (cm_process.agent != nullptr) return {};
  ROCKHOPPER_TRY(call_after_fork(&forget_agent));
  ROCKHOPPER_TRY(Node * node, acquire_node());
  Expected<std::unique_ptr<Agent>> agent;
  {
    const Section section(*node);
    agent = Agent::create(
        *node, {.guid = htobe64(object_of(device).guid), .index = object_of(device).index});
  }
  if (!agent) {
    release_node(*node);
    return tl::make_unexpected(agent.error());
  }
  cm_process.node = node;
  cm_process.agent = agent->release();
  return {};
}

/// Ends what the program has closed, and the agent with its last channel.
void sweep() {
  Node* node = cm_process.node;
  if (cm_process.agent == nullptr) return;
  {
    const Section section(*node);
    cm_process.agent->close_channels();
    list_channels();
    if (cm_process.agent->has_channels()) return node->progress().on_posted();
    node->settle();
    delete std::exchange(cm_process.agent, nullptr);
  }
  cm_process.node = nullptr;
  release_node(*node);
}

Channel* channel_of(int fd) {
  struct stat found = {};
  if (cm_process.agent == nullptr || fstat(fd, &found) != 0) return nullptr;
  return cm_process.agent->find(found.st_dev, found.st_ino);
}

/// Returns the command's errno, or -1 if `fd` is none of ours.
int carry_out(int fd, std::span<const std::byte> bytes) {
  const stack::Uncancelled uncancelled;
  const std::lock_guard guard(cm_process.lock);
  Channel* channel = channel_of(fd);
  if (channel == nullptr) return -1;
  const Section section(*cm_process.node);
  // What the command asks of a peer waits for its answer from now on.
  cm_process.agent->poll(cm_process.node->clock().now_ns());
  const int error = execute(*cm_process.agent, *channel, fd, bytes);
  if (error == EAGAIN) {
    cm_process.node->progress().on_armed();
  } else {
    // What the manager has sent leaves now.
    cm_process.node->progress().on_posted();
  }
  return error;
}

/// What the kernel's device does to a thread that waits for an event of a descriptor that another
/// thread has closed: nothing. rping's threads close theirs so, and it ends with an error if the
/// one that waits hears of it. Returns an errno once a signal has come.
int wait_for_signal() { return pause() < 0 ? errno : 0; }

bool is_get_event(std::span<const std::byte> bytes) {
  rdma_ucm_cmd_hdr header{};
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.cmd == RDMA_USER_CM_CMD_GET_EVENT;
}

bool leads_to_channel(int fd) {
  struct stat found = {};
  return fstat(fd, &found) == 0 && is_channel(found.st_ino);
}

/// Waits for an event where the program has left the descriptor blocking. Returns an errno. The
/// thread may be cancelled here.
int wait_for_event(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  // Closed by now, or already the number of another file.
  if (flags < 0 || !leads_to_channel(fd)) return wait_for_signal();
  if ((flags & O_NONBLOCK) != 0) return EAGAIN;
  bool is_inline = false;
  {
    const std::lock_guard guard(cm_process.lock);
    is_inline = cm_process.node != nullptr && cm_process.node->progress().is_inline_only();
    if (is_inline) (void)cm_process.node->progress().turn_of_application();
  }
  pollfd end{.fd = fd, .events = POLLIN, .revents = 0};
  if (poll(&end, 1, is_inline ? 0 : -1) < 0) return errno;
  if (end.revents == 0 || (end.revents & POLLIN) != 0) return 0;
  return wait_for_signal();
}

}  // namespace

int open_channel(const ibv_device* device, int flags) {
  const stack::Uncancelled uncancelled;
  const std::lock_guard guard(cm_process.lock);
  sweep();
  if (const auto agent = need_agent(*device); !agent) {
    std::fprintf(stderr, "rockhopper: cannot open /dev/infiniband/rdma_cm: %s\n",
                 agent.error().message.c_str());
    errno = ENODEV;
    return -1;
  }
  int fd = -1;
  auto channel = Channel::open(flags, fd);
  if (!channel) {
    sweep();
    errno = EMFILE;
    return -1;
  }
  const Section section(*cm_process.node);
  cm_process.agent->add(std::move(*channel));
  list_channels();
  return fd;
}

bool write_channel(int fd, const void* bytes, std::size_t size, ssize_t* result) {
  if (!leads_to_channel(fd)) return false;
  const bool is_command = size <= kCommandMax && check_memory(bytes, size, false) == 0;
  const std::span command(static_cast<const std::byte*>(bytes), is_command ? size : 0);
  int error = carry_out(fd, command);
  // Without an event there is one later, unless another thread is faster.
  while (error == EAGAIN && (error = wait_for_event(fd)) == 0) {
    error = carry_out(fd, command);
  }
  // It was a channel, but by now another thread has closed it.
  if (error < 0) error = is_get_event(command) ? wait_for_signal() : EBADF;
  *result = error == 0 ? static_cast<ssize_t>(size) : -1;
  if (error != 0) errno = error;
  return true;
}

bool is_channel(ino_t inode) {
  const std::lock_guard guard(channel_list.lock);
  const auto* inodes = channel_list.inodes;
  return inodes != nullptr && std::ranges::find(*inodes, inode) != inodes->end();
}

void closed_channel() {
  const stack::Uncancelled uncancelled;
  const std::lock_guard guard(cm_process.lock);
  sweep();
}

}  // namespace rockhopper::verbs::cm
