// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/object.h"

#include "apps/verbs/objects/context.h"

namespace rockhopper::verbs {

Object::Object(Context& context, Kind kind)
    : context_(context),
      node_(context.node()),
      kind_(kind),
      id_(context.next_id()),
      magic_(magic_of(kind)) {
  context.add(*this);
}

void Object::show(ResourceRecord record) {
  record.context = context_.number();
  record.id = id_;
  listing_.show(node_.resources(), record);
}

}  // namespace rockhopper::verbs
