// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/kernel_addresses.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "stack/descriptor.h"

namespace rockhopper::stack {
namespace {

/// Returns the name of the interface of the IPv4 default route; empty if there is none.
std::string default_interface() {
  std::ifstream routes("/proc/net/route");
  std::string line;
  std::getline(routes, line);  // the columns' names
  std::string name;
  std::string destination;
  while (routes >> name >> destination && std::getline(routes, line)) {
    if (destination == "00000000") return name;
  }
  return {};
}

std::uint8_t ones(const void* bytes, std::size_t length) {
  const auto* mask = static_cast<const std::uint8_t*>(bytes);
  int count = 0;
  for (std::size_t i = 0; i < length; ++i) {
    count += std::popcount(mask[i]);
  }
  return static_cast<std::uint8_t>(count);
}

/// Calls `visit` with each address and the interface that has it.
void for_each_address(const std::function<void(const DeviceAddress&, const ifaddrs&)>& visit) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr) continue;
    DeviceAddress found;
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      const auto* mask = reinterpret_cast<const sockaddr_in*>(entry->ifa_netmask);
      found.address = IpAddress::from_ipv4(ntohl(address->sin_addr.s_addr));
      found.prefix_length = ones(&mask->sin_addr, sizeof mask->sin_addr);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      const auto* mask = reinterpret_cast<const sockaddr_in6*>(entry->ifa_netmask);
      found.address = IpAddress::from_bytes(&address->sin6_addr);
      found.prefix_length = ones(&mask->sin6_addr, sizeof mask->sin6_addr);
    } else {
      continue;
    }
    found.interface_index = if_nametoindex(entry->ifa_name);
    visit(found, *entry);
  }
  freeifaddrs(list);
}

}  // namespace

std::vector<DeviceAddress> kernel_addresses() {
  struct Ranked {
    DeviceAddress address;
    unsigned rank;
  };
  std::vector<Ranked> ranked;
  const std::string preferred = default_interface();
  for_each_address([&](const DeviceAddress& found, const ifaddrs& entry) {
    if ((entry.ifa_flags & IFF_LOOPBACK) != 0 || (entry.ifa_flags & IFF_UP) == 0) return;
    unsigned rank = found.address.is_ipv4() ? 0 : 2;
    if (found.address.is_link_local()) rank = 4;
    if (preferred != entry.ifa_name) ++rank;
    ranked.push_back({found, rank});
  });
  std::ranges::stable_sort(ranked, {}, &Ranked::rank);
  std::vector<DeviceAddress> addresses;
  addresses.reserve(ranked.size());
  for (const Ranked& each : ranked) {
    addresses.push_back(each.address);
  }
  return addresses;
}

std::uint32_t interface_of(const IpAddress& address) {
  std::uint32_t index = 0;
  for_each_address([&](const DeviceAddress& found, const ifaddrs& /*entry*/) {
    if (index == 0 && found.address == address) index = found.interface_index;
  });
  return index;
}

std::uint16_t limit_mtu(std::uint16_t mtu, const IpAddress& address) {
  int found_mtu = 0;
  for_each_address([&](const DeviceAddress& found, const ifaddrs& entry) {
    if (found_mtu != 0 || found.address != address) return;
    const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strncpy(request.ifr_name, entry.ifa_name, sizeof request.ifr_name - 1);
    if (::ioctl(socket.fd(), SIOCGIFMTU, &request) == 0) found_mtu = request.ifr_mtu;
  });
  return found_mtu == 0 ? mtu : static_cast<std::uint16_t>(std::min<int>(mtu, found_mtu));
}

std::string interface_name(const DeviceAddress& address) {
  char name[IF_NAMESIZE];
  return address.interface_index != 0 && if_indextoname(address.interface_index, name) != nullptr
             ? name
             : "";
}

}  // namespace rockhopper::stack
