// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/mw.h"

#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/convert.h"
#include "apps/verbs/objects/errors.h"
#include "apps/verbs/objects/mr.h"
#include "apps/verbs/objects/qp.h"

namespace rockhopper::verbs {

Mw::Mw(Pd& owner, const roce::MemoryWindow& window, ibv_mw_type window_type)
    : ibv_mw{}, Object(owner.owner(), kKind), key_(window.rkey), user_(&owner) {
  context = Object::owner().verbs();
  pd = &owner;
  rkey = static_cast<std::uint32_t>(window.rkey);
  handle = id();
  type = window_type;
}

void Mw::release() {
  (void)owner().engine().deallocate_window(key_);
  user_.release();
}

bool convert(const ibv_mw_bind_info& from, roce::MwBindInfo& to) {
  // Windows give remote rights only; programs name those of the region too.
  const auto access =
      access_of(from.mw_access_flags & ~static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE));
  auto* mr = object_of<Mr>(from.mr);
  if (!access || (mr == nullptr && from.length != 0)) return false;
  if (mr != nullptr) to.mr = mr->key();
  to.addr = from.addr;
  to.length = from.length;
  to.access = *access;
  return true;
}

ibv_mw* alloc_mw(ibv_pd* verbs, ibv_mw_type type) {
  auto* pd = object_of<Pd>(verbs);
  if (pd == nullptr || (number_of(type) != IBV_MW_TYPE_1 && number_of(type) != IBV_MW_TYPE_2)) {
    return refuse(EINVAL);
  }
  const Section section(pd->node());
  if (!section) return refuse(EIO);
  const auto window = pd->owner().engine().allocate_window(
      pd->engine_pd(),
      type == IBV_MW_TYPE_1 ? roce::MemoryKind::window_type_1 : roce::MemoryKind::window_type_2);
  if (!window) return refuse(window.error());
  return new Mw(*pd, *window, type);
}

int bind_mw(ibv_qp* verbs_qp, ibv_mw* verbs, ibv_mw_bind* bind) {
  auto* qp = object_of<Qp>(verbs_qp);
  auto* mw = object_of<Mw>(verbs);
  if (qp == nullptr || mw == nullptr || bind == nullptr || &qp->owner() != &mw->owner()) {
    return EINVAL;
  }
  const Section section(mw->node());
  if (!section) return EIO;
  roce::SendWr wr;
  wr.wr_id = bind->wr_id;
  wr.send_flags = bind->send_flags & (roce::kSendFence | roce::kSendSignaled);
  if (!convert(bind->bind_info, wr.mw_bind)) return EINVAL;
  roce::MemoryKey rkey{mw->rkey};
  const roce::PostResult result = qp->queue_pair().bind_mw(rkey, wr);
  if (result != roce::PostResult::ok) return errno_of(result);
  mw->rkey = static_cast<std::uint32_t>(rkey);
  mw->node().progress().on_posted();
  return 0;
}

int dealloc_mw(ibv_mw* verbs) {
  auto* mw = object_of<Mw>(verbs);
  if (mw == nullptr) return EINVAL;
  const Section section(mw->node());
  if (!section) return 0;
  mw->abandon();
  delete mw;
  return 0;
}

}  // namespace rockhopper::verbs
