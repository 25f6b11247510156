// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rockhopper::interleavings {

/// Explores every order in which the atomic accesses of some threads can follow each other.
///
/// The threads are fibers of this one, and each access to an Explored::Atomic is a point at which
/// another may go on. A run is repeated with other choices until every state that can be reached
/// has been: a state is what is in the shared objects and what each thread has read so far, which
/// decides what it does next. A thread that has nothing to do waits for a change, so nobody spins
/// and the number of states is finite.
///
/// Orders of memory are checked by vector clocks: who reads or writes a Cell must have
/// synchronised, by release and acquire, with who wrote it, and to write it with who read it. The
/// values that atomics give are those of sequential consistency.
struct Report {
  std::string error;  ///< of the first run that failed; empty: none did
  std::uint64_t runs = 0;
  std::uint64_t states = 0;
};

/// One run, with objects of its own. Threads own no memory: a run that leads to a known state ends
/// in the middle of them.
struct Run {
  std::vector<std::function<void()>> threads;  ///< kMaxThreads at most
  std::function<void()> at_end;                ///< once all have returned
};
inline constexpr std::size_t kMaxThreads = 4;

[[nodiscard]] Report explore(const std::function<Run()>& make_run,
                             std::uint64_t max_runs = 20'000'000);

/// The run is a failure unless `condition`. From its threads and at_end.
void check(bool condition, const char* what);
/// How often atomics have changed; to be asked before a look for something to do.
[[nodiscard]] std::uint64_t changes();
/// Others go on until an atomic has changed since `seen`. It is a failure if all wait.
void wait_for_change(std::uint64_t seen);

namespace detail {

using Clock = std::array<std::uint32_t, kMaxThreads>;

/// Of a run, in the order in which they are made.
class Object {
 public:
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  [[nodiscard]] virtual std::uint64_t digest() const = 0;

 protected:
  Object();
  ~Object() = default;
};

class AtomicObject : public Object {
 protected:
  static void let_others_go();
  void note_load(std::uint64_t value, std::memory_order order) const;
  void note_store(bool changed, std::memory_order order);
  void note_exchange(std::uint64_t before, bool changed, std::memory_order order);
  [[nodiscard]] std::uint64_t digest_with(std::uint64_t value) const;
  ~AtomicObject() = default;

 private:
  Clock released_{};
};

class CellObject : public Object {
 protected:
  void note_read() const;
  void note_write();
  [[nodiscard]] std::uint64_t digest() const override;
  ~CellObject() = default;

 private:
  std::uint64_t content_ = 0;  ///< stands for it: who wrote it, and what he knew
  std::size_t writer_ = 0;
  std::uint32_t written_ = 0;
  mutable Clock read_{};
};

}  // namespace detail

/// In place of ami::Sync.
struct Explored {
  template <std::integral T>
  class Atomic final : detail::AtomicObject {
   public:
    Atomic() : Atomic(0) {}
    explicit Atomic(T value) : value_(value) {}

    [[nodiscard]] T load(std::memory_order order) const {
      let_others_go();
      note_load(value_, order);
      return value_;
    }
    void store(T value, std::memory_order order) {
      let_others_go();
      note_store(value != value_, order);
      value_ = value;
    }
    T exchange(T value, std::memory_order order) { return change(value, order); }
    T fetch_or(T bits, std::memory_order order) {
      let_others_go();
      return change_now(value_ | bits, order);
    }

   private:
    T change(T value, std::memory_order order) {
      let_others_go();
      return change_now(value, order);
    }
    T change_now(T value, std::memory_order order) {
      const T before = value_;
      note_exchange(before, value != before, order);
      value_ = value;
      return before;
    }
    [[nodiscard]] std::uint64_t digest() const override { return digest_with(value_); }

    T value_;
  };

  template <typename T>
  class Cell final : detail::CellObject {
   public:
    [[nodiscard]] const T& read() const {
      note_read();
      return value_;
    }
    void write(const T& value) {
      note_write();
      value_ = value;
    }
    template <typename Fill>
    void fill(const Fill& fill) {
      note_write();
      fill(value_);
    }

   private:
    T value_{};
  };
};

}  // namespace rockhopper::interleavings
