// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <pthread.h>

namespace rockhopper::verbs {

/// Counts events of one object that the program has been given and not yet acknowledged, by the
/// mutex, condition and counter that verbs have in the object. Any thread.
class Acknowledged {
 public:
  /// The three are the object's, which makes and ends the first two by this one.
  Acknowledged(pthread_mutex_t& mutex, pthread_cond_t& changed, std::uint32_t& completed)
      : mutex_(mutex), changed_(changed), completed_(completed) {}
  Acknowledged(const Acknowledged&) = delete;
  Acknowledged& operator=(const Acknowledged&) = delete;

  /// The program is given one. In a Section.
  void give() { ++given_; }
  /// The program acknowledges `count`.
  void acknowledge(std::uint32_t count) {
    pthread_mutex_lock(&mutex_);
    completed_ += count;
    pthread_cond_broadcast(&changed_);
    pthread_mutex_unlock(&mutex_);
  }
  /// Waits until all that were given are acknowledged. Not in a Section; nobody may be given
  /// another one meanwhile.
  void wait() {
    pthread_mutex_lock(&mutex_);
    while (completed_ != given_) {
      pthread_cond_wait(&changed_, &mutex_);
    }
    pthread_mutex_unlock(&mutex_);
  }

 private:
  pthread_mutex_t& mutex_;
  pthread_cond_t& changed_;
  std::uint32_t& completed_;
  std::uint32_t given_ = 0;
};

}  // namespace rockhopper::verbs
