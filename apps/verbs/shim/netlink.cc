// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

// Programs that ask the kernel for RDMA devices by netlink, as `rdma` of iproute2 does, are
// answered from the rendered tree, which has the kernel's messages ready. The program's socket is a
// real one, of the family in which programs talk to each other: the kernel still does all that is
// not sending.
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/verbs/shim/next.h"
#include "apps/verbs/shim/rewrite.h"

namespace {

using rockhopper::verbs::next;

/// A process without rights may send to another process only in this family of netlink.
constexpr int kOfPrograms = NETLINK_USERSOCK;
/// More than the messages of eight devices.
constexpr std::size_t kAnswersMax = 8192;
/// More than a request for a device or a port has.
constexpr std::size_t kRequestMax = 4096;

bool was_asked_for = false;  // by socket(); most programs never do

// What the C library has behind these names.
int (*known_socket)(int, int, int) = nullptr;
ssize_t (*known_send)(int, const void*, std::size_t, int) = nullptr;
ssize_t (*known_sendto)(int, const void*, std::size_t, int, const sockaddr*, socklen_t) = nullptr;
ssize_t (*known_sendmsg)(int, const msghdr*, int) = nullptr;

// Signal handlers may call these functions, and may not look names up.
[[gnu::constructor]] void look_up() {
  next(known_socket, "socket");
  next(known_send, "send");
  next(known_sendto, "sendto");
  next(known_sendmsg, "sendmsg");
}

/// False, and errno: the program's socket does not take it.
bool send_really(int fd, const void* data, std::size_t size, const sockaddr_nl& to) {
  if (next(known_sendto, "sendto")(fd, data, size, 0, reinterpret_cast<const sockaddr*>(&to),
                                   sizeof to) >= 0) {
    return true;
  }
  if (errno == EAGAIN) errno = ENOBUFS;  // its queue is full
  return false;
}

std::size_t length_of(const nlmsghdr& header) { return header.nlmsg_len; }
std::size_t length_of(const nlattr& header) { return header.nla_len; }

/// Calls `function` for each message or attribute in those bytes, with its header and its bytes,
/// while it returns true. False: it did not, or a length is less than a header or more than there
/// is.
template <typename Header, typename Byte, typename Function>
bool for_each(Byte* bytes, std::size_t size, Function function) {
  static_assert(NLMSG_ALIGNTO == NLA_ALIGNTO);
  Header header;
  for (std::size_t at = 0; at + sizeof header <= size; at += NLMSG_ALIGN(length_of(header))) {
    std::memcpy(&header, bytes + at, sizeof header);
    if (length_of(header) < sizeof header || length_of(header) > size - at) return false;
    if (!function(header, bytes + at)) return false;
  }
  return true;
}

/// The tree's messages.
class Answers {
 public:
  Answers() {
    char path[PATH_MAX];
    const int length = std::snprintf(path, sizeof path, "%s/netlink", rockhopper::verbs::tree());
    if (length < 0 || static_cast<std::size_t>(length) >= sizeof path) return;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    const ssize_t size = read(file, bytes_, sizeof bytes_);
    close(file);
    if (size > 0) size_ = static_cast<std::size_t>(size);
  }

  [[nodiscard]] char* bytes() { return bytes_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  char bytes_[kAnswersMax];
  std::size_t size_ = 0;
};

/// Whether the answer has all attributes of the request, which say what it is about. A request
/// without attributes is about all devices.
bool is_about(const char* request, std::size_t request_size, const char* answer,
              std::size_t answer_size) {
  return for_each<nlattr>(request + NLMSG_HDRLEN, request_size - NLMSG_HDRLEN,
                          [&](const nlattr& wanted, const char* attribute) {
                            bool found = false;
                            for_each<nlattr>(answer + NLMSG_HDRLEN, answer_size - NLMSG_HDRLEN,
                                             [&](const nlattr& has, const char* there) {
                                               found =
                                                   has.nla_len == wanted.nla_len &&
                                                   std::memcmp(there, attribute, has.nla_len) == 0;
                                               return !found;
                                             });
                            return found;
                          });
}

/// The kernel's last word: of a list its end, else how the request went (0 or a negated errno).
bool send_end(int from, const sockaddr_nl& to, const nlmsghdr& request, bool of_list, int error) {
  struct {
    nlmsghdr header;
    nlmsgerr result;
  } end{};
  end.result.error = error;
  if (!of_list) end.result.msg = request;
  end.header.nlmsg_type = static_cast<std::uint16_t>(of_list ? NLMSG_DONE : NLMSG_ERROR);
  end.header.nlmsg_flags = static_cast<std::uint16_t>(of_list ? NLM_F_MULTI : 0);
  end.header.nlmsg_len =
      static_cast<std::uint32_t>(NLMSG_LENGTH(of_list ? sizeof error : sizeof end.result));
  end.header.nlmsg_seq = request.nlmsg_seq;
  end.header.nlmsg_pid = to.nl_pid;
  return send_really(from, &end, end.header.nlmsg_len, to);
}

/// False, and errno: the program's socket does not take the answer.
bool answer_one(int from, const sockaddr_nl& to, const char* bytes, const nlmsghdr& request) {
  if ((request.nlmsg_flags & NLM_F_REQUEST) == 0) return true;
  const bool wants_list = (request.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
  bool knows = false;
  bool has_some = false;
  bool sent = true;
  Answers answers;
  for_each<nlmsghdr>(answers.bytes(), answers.size(), [&](nlmsghdr header, char* answer) {
    if (header.nlmsg_type != request.nlmsg_type) return true;
    knows = true;
    // A request for one device, and not for a list, has to name it.
    if (!wants_list && request.nlmsg_len == NLMSG_HDRLEN) return false;
    if (!is_about(bytes, request.nlmsg_len, answer, header.nlmsg_len)) return true;
    has_some = true;
    header.nlmsg_flags = static_cast<std::uint16_t>(wants_list ? NLM_F_MULTI : 0);
    header.nlmsg_seq = request.nlmsg_seq;
    header.nlmsg_pid = to.nl_pid;
    std::memcpy(answer, &header, sizeof header);
    sent = send_really(from, answer, header.nlmsg_len, to);
    return sent;
  });
  if (!sent) return false;
  if (!knows) return send_end(from, to, request, false, -EOPNOTSUPP);
  if (!has_some) return send_end(from, to, request, false, -EINVAL);
  if (!wants_list && (request.nlmsg_flags & NLM_F_ACK) == 0) return true;
  return send_end(from, to, request, wants_list, 0);
}

bool is_ours(int fd) {
  int domain = 0;
  int protocol = 0;
  socklen_t size = sizeof domain;
  if (!__atomic_load_n(&was_asked_for, __ATOMIC_RELAXED) ||
      getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_NETLINK) {
    return false;
  }
  size = sizeof protocol;
  return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == kOfPrograms;
}

/// The number by which the kernel knows the socket. False, and errno: there is none.
bool find_port(int fd, sockaddr_nl& own) {
  own = {};
  own.nl_family = AF_NETLINK;
  socklen_t length = sizeof own;
  const auto ask = [&] { return getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0; };
  if (!ask() || own.nl_pid != 0) return own.nl_pid != 0;
  // The kernel gives it one at the first message, or for a bind; another thread may have done that.
  if (bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0 && errno != EINVAL) return false;
  return ask();
}

/// Puts the answers into the queue of the program's own socket, and returns as sendto() does.
ssize_t answer(int fd, const void* data, std::size_t size) {
  sockaddr_nl own;
  if (!find_port(fd, own)) return -1;
  own.nl_groups = 0;
  // The socket does not block: a program that asks much and reads nothing gets an error, and does
  // not stand still.
  const int from = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, kOfPrograms);
  if (from < 0) return -1;
  bool sent = true;
  for_each<nlmsghdr>(static_cast<const char*>(data), size,
                     [&](const nlmsghdr& request, const char* bytes) {
                       sent = answer_one(from, own, bytes, request);
                       return sent;
                     });
  const int error = errno;
  close(from);
  errno = error;
  return sent ? static_cast<ssize_t>(size) : -1;
}

/// The same for a message in pieces.
ssize_t answer(int fd, const msghdr& message) {
  char request[kRequestMax];
  std::size_t size = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    const iovec& piece = message.msg_iov[i];
    if (piece.iov_len > sizeof request - size) {
      errno = EMSGSIZE;
      return -1;
    }
    std::memcpy(request + size, piece.iov_base, piece.iov_len);
    size += piece.iov_len;
  }
  return answer(fd, request, size);
}

}  // namespace

#define ROCKHOPPER_SHOWN extern "C" __attribute__((visibility("default")))

ROCKHOPPER_SHOWN int socket(int domain, int type, int protocol) {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA && rockhopper::verbs::tree()[0] != '\0') {
    __atomic_store_n(&was_asked_for, true, __ATOMIC_RELAXED);
    protocol = kOfPrograms;
  }
  return next(known_socket, "socket")(domain, type, protocol);
}

ROCKHOPPER_SHOWN ssize_t send(int fd, const void* buf, std::size_t n, int flags) {
  return is_ours(fd) ? answer(fd, buf, n) : next(known_send, "send")(fd, buf, n, flags);
}

ROCKHOPPER_SHOWN ssize_t sendto(int fd, const void* buf, std::size_t n, int flags,
                                const sockaddr* addr, socklen_t addr_len) {
  return is_ours(fd) ? answer(fd, buf, n)
                     : next(known_sendto, "sendto")(fd, buf, n, flags, addr, addr_len);
}

ROCKHOPPER_SHOWN ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return is_ours(fd) && message != nullptr ? answer(fd, *message)
                                           : next(known_sendmsg, "sendmsg")(fd, message, flags);
}
