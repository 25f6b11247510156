// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/memif_message.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <sys/socket.h>

namespace rockhopper::stack::memif {
namespace {

/// The kernel hands over no more than this in one message.
constexpr std::size_t kDescriptorsMax = 253;

/// DPDK copies texts to their zero, which a peer may have left out.
void end_texts(Message& message) {
  switch (message.type) {
    case MessageType::hello:
      message.body.hello.name.back() = '\0';
      break;
    case MessageType::init:
      message.body.init.secret.back() = '\0';
      message.body.init.name.back() = '\0';
      break;
    case MessageType::connect:
    case MessageType::connected:
      message.body.connect.interface_name.back() = '\0';
      break;
    case MessageType::disconnect:
      message.body.disconnect.reason.back() = '\0';
      break;
    default:
      break;
  }
}

/// How many descriptors came; the first is `attached`, the others are closed.
std::size_t take_descriptors(msghdr& header, Descriptor& attached) {
  std::size_t count = 0;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t here = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < here; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
      Descriptor received(fd);
      if (count++ == 0) attached = std::move(received);
    }
  }
  return count;
}

}  // namespace

Message make_message(MessageType type) {
  Message message{};
  message.type = type;
  return message;
}

Message make_disconnect(std::string_view reason) {
  Message message = make_message(MessageType::disconnect);
  auto& text = message.body.disconnect.reason;
  std::copy_n(reason.data(), std::min(reason.size(), text.size() - 1), text.data());
  return message;
}

Received receive(int socket) {
  Received received;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> control;
  iovec part{&received.message, sizeof(Message)};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t size = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size <= 0) {
    const bool later = size < 0 && (errno == EAGAIN || errno == EINTR);
    received.what = later ? Received::What::nothing : Received::What::ended;
    return received;
  }
  const std::size_t descriptors = take_descriptors(header, received.attached);
  const bool good = size == sizeof(Message) && descriptors <= 1 &&
                    (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  received.what = good ? Received::What::message : Received::What::malformed;
  end_texts(received.message);
  return received;
}

bool send(int socket, const Message& message, int attached) {
  Message copy = message;
  iovec part{&copy, sizeof(Message)};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (attached >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    std::memcpy(CMSG_DATA(rights), &attached, sizeof(int));
  }
  return sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(Message);
}

}  // namespace rockhopper::stack::memif
