// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/objects/xrcd.h"

#include <map>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "apps/verbs/objects/context.h"
#include "apps/verbs/objects/errors.h"

namespace rockhopper::verbs {

/// A domain, which ends with the last handle. Made and ended in a Section.
class SharedXrcDomain {
 public:
  explicit SharedXrcDomain(roce::Engine& engine) : engine_(engine), xrcd_(engine.open_xrcd()) {}
  SharedXrcDomain(const SharedXrcDomain&) = delete;
  SharedXrcDomain& operator=(const SharedXrcDomain&) = delete;
  ~SharedXrcDomain() { (void)engine_.close_xrcd(xrcd_); }

  [[nodiscard]] roce::XrcDomain xrcd() const { return xrcd_; }
  std::vector<Qp*> targets;

 private:
  roce::Engine& engine_;
  const roce::XrcDomain xrcd_;
};

namespace {

/// A file names a domain of one node.
using FileKey = std::tuple<const Node*, dev_t, ino_t>;

/// The domains that files name. Changed in Sections of the process's one node. Never destroyed, as
/// the last contexts may be closed late.
std::map<FileKey, std::weak_ptr<SharedXrcDomain>>& named_domains() {
  static auto* domains = new std::map<FileKey, std::weak_ptr<SharedXrcDomain>>;
  return *domains;
}

/// In a Section. Sets `error` if it returns null.
std::shared_ptr<SharedXrcDomain> open_named(Context& context, int fd, int flags, int& error) {
  struct stat file = {};
  if (fstat(fd, &file) != 0) {
    error = errno;
    return nullptr;
  }
  auto& domains = named_domains();
  const FileKey key(&context.node(), file.st_dev, file.st_ino);
  std::erase_if(domains, [](const auto& entry) { return entry.second.expired(); });
  const auto found = domains.find(key);
  if (found != domains.end()) {
    error = EEXIST;
    return (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) ? nullptr : found->second.lock();
  }
  if ((flags & O_CREAT) == 0) {
    error = ENOENT;
    return nullptr;
  }
  auto domain = std::make_shared<SharedXrcDomain>(context.engine());
  domains[key] = domain;
  return domain;
}

}  // namespace

Xrcd::Xrcd(Context& owner, std::shared_ptr<SharedXrcDomain> domain)
    : ibv_xrcd{}, Object(owner, kKind), domain_(std::move(domain)) {
  context = owner.verbs();
}

roce::XrcDomain Xrcd::engine_xrcd() const { return domain_->xrcd(); }

std::vector<Qp*>& Xrcd::targets() { return domain_->targets; }

void Xrcd::release() { domain_.reset(); }

ibv_xrcd* open_xrcd(ibv_context* verbs, ibv_xrcd_init_attr* init) {
  constexpr std::uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  Context* context = Context::from(verbs);
  if (context == nullptr || init == nullptr || init->comp_mask != kNeeded) return refuse(EINVAL);
  const Section section(context->node());
  if (!section) return refuse(EIO);
  std::shared_ptr<SharedXrcDomain> domain;
  int error = 0;
  if (init->fd >= 0) {
    domain = open_named(*context, init->fd, init->oflags, error);
  } else if ((init->oflags & O_CREAT) != 0) {
    domain = std::make_shared<SharedXrcDomain>(context->engine());
  } else {
    error = EINVAL;
  }
  if (domain == nullptr) return refuse(error);
  return new Xrcd(*context, std::move(domain));
}

int close_xrcd(ibv_xrcd* verbs) { return end_unused<Xrcd>(verbs); }

}  // namespace rockhopper::verbs
