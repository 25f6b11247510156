// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/work_queue.h"

#include <algorithm>

namespace rockhopper::roce {

void move_receive(RecvQueue& from, RecvQueue& to) {
  const RecvWqe& wqe = from.front();
  to.next() = wqe;
  const auto list = from.sges(from.head()).first(wqe.num_sge);
  std::copy(list.begin(), list.end(), to.sges(to.tail()).begin());
  to.push();
  from.pop();
}

}  // namespace rockhopper::roce
