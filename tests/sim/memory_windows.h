// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "roce/engine.h"
#include "tests/sim/node_memory.h"
#include "tests/sim/rng.h"

namespace rockhopper::sim {

/// One end's memory windows, over the area that its peer's requests go to: which are bound and to
/// what, and who uses them. The owner binds and ends them; the peer uses them while both know that
/// they are bound, and may end those of type 2 itself.
class MemoryWindows {
 public:
  enum class State : std::uint8_t { unbound, binding, bound, ending };
  struct Window {
    roce::MemoryWindow handle;  ///< its key is that of the last bind that was asked for
    State state = State::unbound;
    std::uint32_t target = 0;   ///< offset in the area
    std::uint32_t length = 0;   ///< 0: is to be unbound
    std::uint64_t address = 0;  ///< that requests use for its first byte
    std::uint32_t access = 0;
    std::uint32_t users = 0;  ///< the peer's requests that are not known to be complete
    bool revoked = false;     ///< taken away while it was used: its bytes are new ones
    [[nodiscard]] bool is_type_2() const { return handle.kind == roce::MemoryKind::window_type_2; }
  };
  /// Where a request goes.
  struct Place {
    Window* window;
    std::uint32_t target;   ///< offset in the area
    std::uint64_t address;  ///< as the request names it
  };

  MemoryWindows(roce::Engine& engine, roce::ProtectionDomain pd, Rng& rng);

  /// Which memory the windows are for, once.
  void cover(NodeMemory& memory, const Area& area);

  // For the peer.

  /// A place of `length` bytes in a bound window with this right.
  [[nodiscard]] std::optional<Place> place(std::uint32_t length, std::uint32_t right,
                                           std::uint32_t alignment);
  /// One that a SEND with Invalidate may end.
  [[nodiscard]] Window* find_to_invalidate();
  /// A window in this state.
  template <typename Condition>
  [[nodiscard]] Window* find(State state, Condition fits) {
    const std::size_t first = rng_.between(0, windows_.size() - 1);
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      Window& window = windows_[(first + i) % windows_.size()];
      if (window.state == state && fits(window)) return &window;
    }
    return nullptr;
  }

  // For the owner.

  /// One whose state may change now: nobody uses it.
  [[nodiscard]] Window* find_to_change();
  /// What the owner's queue pair is to be asked for, to bind the window or to end it.
  void request_change(Window& window, roce::SendWr& wr);
  void request_end(Window& window, roce::SendWr& wr);
  /// A request of the owner's queue pair.
  [[nodiscard]] static roce::PostResult post(roce::QueuePair& qp, Window& window,
                                             const roce::SendWr& wr);
  /// What was asked for is done.
  static void on_done(Window& window);
  /// Takes the window away, whoever uses it, as an application may.
  void deallocate(Window& window);
  /// It has ended while the peer used it: from now on the memory is for something else.
  void reuse_memory(Window& window);

  [[nodiscard]] roce::MemoryKey parent() const { return parent_.key; }

  /// Frees everything; what was wrong about that. `settled`: all states are known.
  [[nodiscard]] std::string tear_down(bool settled);

 private:
  void request_bind(Window& window, roce::SendWr& wr);

  roce::Engine& engine_;
  Rng& rng_;
  std::deque<Window> windows_;
  NodeMemory* memory_ = nullptr;
  Area area_;
  roce::MemoryRegion parent_;  ///< of the same memory, closed to the peer
};

}  // namespace rockhopper::sim
