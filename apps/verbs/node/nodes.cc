// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/nodes.h"

#include <memory>
#include <mutex>

#include "apps/verbs/node/after_fork.h"

namespace rockhopper::verbs {
namespace {

/// Constant-initialised and never destroyed: the node's thread may outlive main().
struct {
  EngineLock lock;
  Node* node = nullptr;
  unsigned users = 0;
} process;

/// In a child of fork(). What the parent's node has is shared with the parent (descriptors, the
/// segment) or was in the middle of a change by a thread that is not here, so all of it stays as it
/// is for good.
void forget_node() {
  process.lock.reset();
  if (process.node != nullptr) process.node->abandon();
  process.node = nullptr;
  process.users = 0;
}

/// At the end of the process: some programs leave their queue pairs to it. Without waiting for
/// other threads, which may have ended in the middle of anything.
__attribute__((destructor)) void settle_at_exit() {
  if (!process.lock.try_lock()) return;
  Node* node = process.node;
  if (node != nullptr && node->lock().try_lock()) {
    node->finish();
    node->lock().unlock();
  }
  process.lock.unlock();
}

}  // namespace

Expected<Node*> acquire_node() {
  const std::lock_guard guard(process.lock);
  ROCKHOPPER_TRY(call_after_fork(&forget_node));
  if (process.node == nullptr) {
    ROCKHOPPER_TRY(auto settings, Settings::read());
    ROCKHOPPER_TRY(auto node, Node::open(std::move(settings)));
    process.node = node.release();
  }
  ++process.users;
  return process.node;
}

void release_node(Node& node) {
  if (node.abandoned()) return;
  std::unique_ptr<Node> last;
  const std::lock_guard guard(process.lock);
  if (--process.users == 0) {
    last.reset(process.node);
    process.node = nullptr;
  }
}

}  // namespace rockhopper::verbs
