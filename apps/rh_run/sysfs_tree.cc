// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_run/sysfs_tree.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <rdma/rdma_user_cm.h>
#include <sys/file.h>

#include "apps/rh_run/netlink_answers.h"
#include "apps/verbs/abi/counter_files.h"
#include "apps/verbs/abi/device_files.h"
#include "apps/verbs/abi/devices.h"
#include "apps/verbs/node/lid.h"
#include "apps/verbs/node/settings.h"
#include "stack/descriptor.h"
#include "stack/kernel_addresses.h"
#include "stack/runtime_directory.h"

namespace rockhopper::apps::launcher {
namespace {

namespace fs = std::filesystem;

/// {path below the tree: contents}; a path that ends in '/' is a folder.
using Files = std::map<std::string, std::string>;

std::string guid_text(std::uint64_t guid) {
  char text[20];
  verbs::write_guid(guid, text, sizeof text);
  return text;
}

std::string gid_text(const stack::IpAddress& address) {
  const auto& bytes = address.bytes;
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
  }
  return text;
}

void add_gids(Files& files, const std::string& port, const std::string& device,
              const std::vector<stack::DeviceAddress>& addresses) {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    files[fmt::format("{}gids/{}", port, i)] = gid_text(addresses[i].address);
    files[fmt::format("{}gid_attrs/types/{}", port, i)] = "RoCE v2";
    const std::string name = stack::interface_name(addresses[i]);
    if (name.empty()) continue;
    files[fmt::format("{}gid_attrs/ndevs/{}", port, i)] = name;
    files[fmt::format("{}net/{}/", device, name)];
  }
}

/// As many set bits as there are processors, in groups of 32.
std::string all_processors() {
  auto count = static_cast<unsigned>(sysconf(_SC_NPROCESSORS_CONF));
  std::string text;
  for (; count > 32; count -= 32) {
    text += ",ffffffff";
  }
  return fmt::format("{:08x}{}", UINT32_MAX >> (32 - count), text);
}

void add_device(Files& files, const verbs::DeviceObject& object,
                const std::vector<stack::DeviceAddress>& addresses) {
  const std::string rdma = fmt::format("sys/class/infiniband/{}/", object.device.name);
  for (const verbs::DeviceFile& file : verbs::kDeviceFiles) {
    files[rdma + file.name] = file.text != nullptr ? file.text : guid_text(object.guid);
  }
  const std::string port = rdma + "ports/1/";
  files[port + "state"] = "4: ACTIVE";
  files[port + "phys_state"] = "5: LinkUp";
  files[port + "link_layer"] = "Ethernet";
  files[port + "rate"] = "100 Gb/sec (4X EDR)";
  const auto numbered = std::ranges::find_if(
      addresses, [](const stack::DeviceAddress& own) { return own.address.is_ipv4(); });
  files[port + "lid"] =
      fmt::format("{:#x}", numbered == addresses.end() ? 0 : verbs::lid_of(numbered->address));
  files[port + "sm_lid"] = "0x0";
  files[port + "pkeys/0"] = "0xffff";
  // What programs read there librh-paths.so tells them.
  for (const verbs::CounterFile& file : verbs::kCounterFiles) {
    files[port + file.path] = "0";
  }
  files[port + "hw_counters/lifespan"] = "10";  // of what is kept of a counter, in milliseconds
  const std::string device = rdma + "device/";
  files[device + "numa_node"] = "-1";
  files[device + "local_cpus"] = all_processors();
  files[fmt::format("{}infiniband/{}/", device, object.device.name)];
  add_gids(files, port, device, addresses);

  const std::string verbs_class =
      fmt::format("sys/class/infiniband_verbs/{}/", object.device.dev_name);
  files[verbs_class + "ibdev"] = object.device.name;
  files[verbs_class + "abi_version"] = "1";
  files["sys/class/infiniband_verbs/abi_version"] = "6";
}

/// FNV-1a over paths and contents: the folder's name.
std::uint64_t hash_of(const Files& files) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](const std::string& text) {
    for (const char c : text) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    hash *= 0x100000001b3;
  };
  for (const auto& [path, contents] : files) {
    add(path);
    add(contents);
  }
  return hash;
}

void write_tree(const fs::path& root, const Files& files, const verbs::Devices& devices) {
  for (const auto& [name, contents] : files) {
    const fs::path path = root / name;
    fs::create_directories(path.parent_path());
    if (name.back() == '/') continue;
    std::ofstream file(path);
    file.exceptions(std::ios::failbit | std::ios::badbit);
    file << contents << '\n';
    file.close();
  }
  // Programs ask whether it is a device that they may read and write; they never open it.
  const fs::path nodes = root / "dev/infiniband";
  fs::create_directories(nodes);
  for (std::size_t i = 0; i < devices.count; ++i) {
    fs::create_symlink("/dev/null", nodes / devices.objects[i].device.dev_name);
  }
  // This one is opened too, which librh-paths.so does otherwise.
  fs::create_symlink("/dev/null", nodes / "rdma_cm");
}

/// While it lives, the signals that end a program wait.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_;
};

/// Makes the tree, which appears at once and whole. One process of the runtime directory writes at
/// a time, so that there is one unfinished tree at most: that of somebody who was killed.
Expected<void> make_tree(const fs::path& tree, const Files& files, const verbs::Devices& devices) {
  const fs::path runtime = tree.parent_path();
  const stack::Descriptor lock(::open(runtime.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock || ::flock(lock.fd(), LOCK_EX) != 0) {
    return fail(ErrorCode::io, "cannot lock {}: {}", runtime.string(),
                std::generic_category().message(errno));
  }
  if (fs::exists(tree)) return {};
  const SignalsWait signals_wait;
  const fs::path unfinished = runtime / "unfinished-tree";
  try {
    fs::remove_all(unfinished);
    write_tree(unfinished, files, devices);
    fs::rename(unfinished, tree);
  } catch (const std::exception& problem) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    return fail(ErrorCode::io, "cannot write {}: {}", unfinished.string(), problem.what());
  }
  return {};
}

}  // namespace

Expected<std::string> render_tree() {
  const verbs::Devices devices = verbs::devices();
  if (devices.count == 0) return fail(ErrorCode::invalid_argument, "there is no device to show");
  ROCKHOPPER_TRY(const auto settings, verbs::Settings::read());
  ROCKHOPPER_TRY(const std::string runtime, stack::runtime_directory());
  Files files;
  for (std::size_t i = 0; i < devices.count; ++i) {
    add_device(files, devices.objects[i], settings.addresses);
  }
  files["sys/class/misc/rdma_cm/abi_version"] = std::to_string(RDMA_USER_CM_ABI_VERSION);
  files["sys/class/misc/rdma_cm/dev"] =
      fmt::format("{}:{}", verbs::kRdmaCmMajor, verbs::kRdmaCmMinor);
  files["netlink"] = netlink_answers(devices, settings.addresses);
  const fs::path tree = fmt::format("{}/tree-{:016x}", runtime, hash_of(files));
  std::error_code error;
  if (!fs::exists(tree, error)) ROCKHOPPER_TRY(make_tree(tree, files, devices));
  return tree.string();
}

}  // namespace rockhopper::apps::launcher
