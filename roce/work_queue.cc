// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/work_queue.h"

#include <algorithm>

namespace rockhopper::roce {

PostResult post_receive(RecvQueue& queue, const RecvWr& wr) {
  if (queue.full()) {
    return PostResult::queue_full;
  }
  if (wr.sg_list.size() > queue.max_sge()) {
    return PostResult::too_many_sges;
  }
  queue.next() = RecvWqe{.wr_id = wr.wr_id,
                         .length = total_length(wr.sg_list),
                         .num_sge = static_cast<std::uint16_t>(wr.sg_list.size())};
  std::copy(wr.sg_list.begin(), wr.sg_list.end(), queue.sges(queue.tail()).begin());
  queue.push();
  return PostResult::ok;
}

void move_receive(RecvQueue& from, RecvQueue& to) {
  const RecvWqe& wqe = from.front();
  to.next() = wqe;
  const auto list = from.sges(from.head()).first(wqe.num_sge);
  std::copy(list.begin(), list.end(), to.sges(to.tail()).begin());
  to.push();
  from.pop();
}

}  // namespace rockhopper::roce
