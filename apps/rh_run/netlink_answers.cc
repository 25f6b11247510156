// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_run/netlink_answers.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

namespace rockhopper::apps::launcher {
namespace {

// A port on Ethernet, and a device, as netlink has them; the first is IBTA's PortPhysicalState.
constexpr std::uint8_t kLinkUp = 5;
constexpr std::uint8_t kActive = IBV_PORT_ACTIVE;
constexpr std::uint8_t kChannelAdapter = IBV_NODE_CA;
constexpr std::uint32_t kPort = 1;

class Message {
 public:
  explicit Message(unsigned command) : bytes_(NLMSG_HDRLEN, '\0') {
    header_.nlmsg_type = static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
  }

  template <typename Number>
  Message& number(std::uint16_t attribute, Number value) {
    return add(attribute, &value, sizeof value);
  }
  /// With the zero behind it.
  Message& text(std::uint16_t attribute, const char* value) {
    return add(attribute, value, std::strlen(value) + 1);
  }

  /// The whole message, its length filled in.
  [[nodiscard]] std::string bytes() {
    header_.nlmsg_len = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &header_, sizeof header_);
    return bytes_;
  }

 private:
  Message& add(std::uint16_t attribute, const void* value, std::size_t size) {
    const nlattr head{.nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + size),
                      .nla_type = attribute};
    bytes_.append(reinterpret_cast<const char*>(&head), sizeof head);
    bytes_.append(static_cast<const char*>(value), size);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
    return *this;
  }

  nlmsghdr header_{};
  std::string bytes_;
};

std::string of_device(std::uint32_t index, const verbs::DeviceObject& object) {
  return Message(RDMA_NLDEV_CMD_GET)
      .number(RDMA_NLDEV_ATTR_DEV_INDEX, index)
      .text(RDMA_NLDEV_ATTR_DEV_NAME, object.device.name)
      .number(RDMA_NLDEV_ATTR_PORT_INDEX, kPort)  // the number of the last port
      .text(RDMA_NLDEV_ATTR_FW_VERSION, ROCKHOPPER_VERSION)
      .number(RDMA_NLDEV_ATTR_NODE_GUID, object.guid)
      .number(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, object.guid)
      .number(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, kChannelAdapter)
      .text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce")
      .bytes();
}

std::string of_port(std::uint32_t index, const verbs::DeviceObject& object,
                    const std::vector<stack::DeviceAddress>& addresses) {
  Message message(RDMA_NLDEV_CMD_PORT_GET);
  message.number(RDMA_NLDEV_ATTR_DEV_INDEX, index)
      .text(RDMA_NLDEV_ATTR_DEV_NAME, object.device.name)
      .number(RDMA_NLDEV_ATTR_PORT_INDEX, kPort)
      .number(RDMA_NLDEV_ATTR_PORT_STATE, kActive)
      .number(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, kLinkUp);
  for (const stack::DeviceAddress& address : addresses) {
    const std::string name = stack::interface_name(address);
    if (name.empty()) continue;
    message.number(RDMA_NLDEV_ATTR_NDEV_INDEX, address.interface_index)
        .text(RDMA_NLDEV_ATTR_NDEV_NAME, name.c_str());
    break;
  }
  return message.bytes();
}

}  // namespace

std::string netlink_answers(const verbs::Devices& devices,
                            const std::vector<stack::DeviceAddress>& addresses) {
  std::string messages;
  for (std::uint32_t i = 0; i < devices.count; ++i) {
    messages += of_device(i, devices.objects[i]);
    messages += of_port(i, devices.objects[i], addresses);
  }
  return messages;
}

}  // namespace rockhopper::apps::launcher
