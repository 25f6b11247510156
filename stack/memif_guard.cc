// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/memif_guard.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "stack/device_limits.h"
#include "stack/event_fd.h"
#include "stack/interrupt_thread.h"
#include "stack/runtime_directory.h"
#include "stack/time_units.h"

namespace rockhopper::stack {
namespace {

using memif::ClientSession;
using memif::Served;
using memif::ServerSession;
using memif::SessionCounters;

/// Connections whose handshake is not over, in the whole process: beyond that the oldest goes.
constexpr std::ptrdiff_t kUnfinishedMax = 64;
constexpr int kAcceptsPerTurn = 16;
/// Accepting again once there were no descriptors.
constexpr std::uint64_t kPauseNs = 100 * kNsPerMs;
/// The driver answers within a turn of the interrupt thread.
constexpr std::chrono::seconds kDriverLimit{10};

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

std::uint32_t number_of(const std::string& devargs, const char* key, std::uint32_t otherwise) {
  const std::string text = devargs_value(devargs, key);
  std::uint32_t value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The devargs with the driver's own socket. What concerns the other one is the guard's.
std::string with_socket(std::string_view devargs, const std::string& path) {
  std::string result;
  while (!devargs.empty()) {
    const std::string_view item = devargs.substr(0, devargs.find(','));
    devargs.remove_prefix(std::min(devargs.size(), item.size() + 1));
    const std::string_view key = item.substr(0, item.find('='));
    if (key == "socket" || key == "socket-abstract" || key == "owner-uid" || key == "owner-gid") {
      continue;
    }
    if (!result.empty()) result += ',';
    result += item;
  }
  return fmt::format("{},socket={},socket-abstract=no", result, path);
}

Descriptor make_socket() {
  return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool is_this_process(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid();
}

}  // namespace

/// The socket at which peers meet, with memif's defaults.
struct MemifGuard::Address {
  explicit Address(const std::string& devargs)
      : path(devargs_value(devargs, "socket")),
        is_abstract(devargs_value(devargs, "socket-abstract") != "no") {
    if (path.empty()) path = "/run/memif.sock";
    value.sun_family = AF_UNIX;
    const std::size_t at = is_abstract ? 1 : 0;
    is_good = path.size() + at < sizeof(value.sun_path);
    if (!is_good) return;
    path.copy(value.sun_path + at, path.size());
    size = is_abstract ? static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + at + path.size())
                       : static_cast<socklen_t>(sizeof(value));
  }
  [[nodiscard]] const sockaddr* generic() const {
    return reinterpret_cast<const sockaddr*>(&value);
  }
  [[nodiscard]] std::string key() const { return (is_abstract ? "@" : "") + path; }

  std::string path;
  bool is_abstract;
  bool is_good = false;
  sockaddr_un value{};
  socklen_t size = 0;
};

/// Serves all guards of the process. All but its own waiting is under its lock.
class MemifGuard::Thread {
 public:
  struct Socket {
    std::shared_ptr<Served> served;
    std::string driver_path;
    int users = 0;
  };

  static Expected<std::shared_ptr<Thread>> get();
  ~Thread();

  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  /// To be called once something was changed.
  void wake() { wake_->notify(); }
  void add(std::unique_ptr<ClientSession> session) { clients_.push_back(std::move(session)); }
  void drop_unfinished(const Served& served);
  void wait_until_entered(std::unique_lock<std::mutex>& held, const Served& served);

  std::map<std::string, Socket> sockets;  ///< of servers, by address

 private:
  Thread() = default;
  void run();
  [[nodiscard]] int wait(std::vector<pollfd>& polled) const;
  void accept(const std::shared_ptr<Served>& served, std::uint64_t now);
  void make_room();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::unique_ptr<ServerSession>> servers_;  ///< the oldest first
  std::list<std::unique_ptr<ClientSession>> clients_;
  std::unique_ptr<EventFd> wake_;
  bool stopping_ = false;
  std::thread thread_;
};

Expected<std::shared_ptr<MemifGuard::Thread>> MemifGuard::Thread::get() {
  static std::mutex starting;
  static std::weak_ptr<Thread> running;
  const std::lock_guard guard(starting);
  if (auto thread = running.lock()) return thread;
  std::shared_ptr<Thread> thread(new Thread);
  ROCKHOPPER_TRY(thread->wake_, EventFd::create());
  // From there, so that it may run on the CPUs that the EAL leaves to what is not an lcore.
  call_in_interrupt_thread([&] {
    try {
      thread->thread_ = std::thread([self = thread.get()] { self->run(); });
    } catch (const std::system_error&) {
      return -EAGAIN;
    }
    return 0;
  });
  if (!thread->thread_.joinable()) {
    return fail(ErrorCode::exhausted, "the thread that guards memif sockets does not start");
  }
  running = thread;
  return thread;
}

MemifGuard::Thread::~Thread() {
  if (!thread_.joinable()) return;
  {
    const auto held = lock();
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void MemifGuard::Thread::drop_unfinished(const Served& served) {
  servers_.remove_if([&](const std::unique_ptr<ServerSession>& session) {
    return &session->served() == &served && session->is_unfinished();
  });
}

void MemifGuard::Thread::wait_until_entered(std::unique_lock<std::mutex>& held,
                                            const Served& served) {
  changed_.wait_for(held, kDriverLimit, [&] {
    return std::none_of(servers_.begin(), servers_.end(), [&](const auto& session) {
      return &session->served() == &served && session->is_entering();
    });
  });
}

void MemifGuard::Thread::run() {
  // Signals are for the program's own threads.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  pthread_setname_np(pthread_self(), "memif-guard");

  std::vector<pollfd> polled;
  auto held = lock();
  while (!stopping_) {
    const int timeout_ms = wait(polled);
    held.unlock();
    (void)poll(polled.data(), polled.size(), timeout_ms);
    held.lock();
    (void)wake_->take();
    const std::uint64_t now = now_ns();
    // Old ones first, so that the end of a peer is known before its successor asks.
    for (const auto& session : servers_) {
      session->step(now);
    }
    for (const auto& session : clients_) {
      session->step(now);
    }
    servers_.remove_if([](const auto& session) { return session->over(); });
    clients_.remove_if([](const auto& session) { return session->over(); });
    for (const auto& [address, socket] : sockets) {
      accept(socket.served, now);
    }
    changed_.notify_all();
  }
}

/// What to poll, and for how many milliseconds.
int MemifGuard::Thread::wait(std::vector<pollfd>& polled) const {
  polled.clear();
  polled.push_back({wake_->fd(), POLLIN, 0});
  const std::uint64_t now = now_ns();
  std::uint64_t next = UINT64_MAX;
  for (const auto& [address, socket] : sockets) {
    const bool paused = socket.served->paused_until_ns > now;
    if (paused) next = std::min(next, socket.served->paused_until_ns);
    if (!paused && socket.served->driver) {
      polled.push_back({socket.served->listener.fd(), POLLIN, 0});
    }
  }
  const auto add = [&](const memif::Session& session) {
    polled.push_back({session.outer(), POLLIN, 0});
    polled.push_back({session.inner(), POLLIN, 0});
    next = std::min(next, session.next_deadline_ns());
  };
  for (const auto& session : servers_) {
    add(*session);
  }
  for (const auto& session : clients_) {
    add(*session);
  }
  if (next == UINT64_MAX) return -1;
  return next <= now ? 0 : static_cast<int>((next - now) / kNsPerMs + 1);
}

void MemifGuard::Thread::accept(const std::shared_ptr<Served>& served, std::uint64_t now) {
  if (!served->driver || served->paused_until_ns > now) return;
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Descriptor peer(accept4(served->listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        served->counters.no_descriptors.add();
        served->paused_until_ns = now + kPauseNs;
      }
      return;
    }
    make_room();
    auto session = ServerSession::create(served, std::move(peer), now);
    if (session != nullptr) servers_.push_back(std::move(session));
  }
}

void MemifGuard::Thread::make_room() {
  const auto is_unfinished = [](const auto& session) { return session->is_unfinished(); };
  if (std::count_if(servers_.begin(), servers_.end(), is_unfinished) < kUnfinishedMax) return;
  const auto oldest = std::find_if(servers_.begin(), servers_.end(), is_unfinished);
  (*oldest)->push_out();
  servers_.erase(oldest);
}

MemifGuard::MemifGuard() = default;

Expected<std::unique_ptr<MemifGuard>> MemifGuard::create(const std::string& devargs,
                                                         std::uint16_t queues) {
  if (!devargs.starts_with("net_memif")) return nullptr;
  std::unique_ptr<MemifGuard> guard(new MemifGuard);
  guard->address_ = std::make_unique<Address>(devargs);
  if (!guard->address_->is_good) {
    return fail(ErrorCode::invalid_argument, "memif socket {}: the path is too long",
                guard->address_->path);
  }
  ROCKHOPPER_TRY(guard->thread_, Thread::get());
  ROCKHOPPER_TRY(auto directory, runtime_directory());
  static std::atomic<unsigned> number{0};
  guard->driver_path_ = fmt::format("{}/memif-{}-{}", directory, getpid(), number++);
  guard->id_ = number_of(devargs, "id", 0);
  guard->queues_ = queues;
  guard->is_server_ = devargs_value(devargs, "role") == "server";
  if (guard->is_server_) {
    ROCKHOPPER_TRY(guard->listen());
    const auto owner = [&](const char* key) { return number_of(devargs, key, UINT32_MAX); };
    if (!guard->address_->is_abstract &&
        chown(guard->address_->path.c_str(), owner("owner-uid"), owner("owner-gid")) != 0) {
      return fail(ErrorCode::io, "memif socket {} cannot have another owner: {}",
                  guard->address_->path, std::strerror(errno));
    }
  } else {
    guard->counters_ = std::make_shared<SessionCounters>();
  }
  if (guard->driver_path_.size() >= sizeof(sockaddr_un::sun_path)) {
    return fail(ErrorCode::invalid_argument, "{} is too long a path: set XDG_RUNTIME_DIR",
                guard->driver_path_);
  }
  unlink(guard->driver_path_.c_str());  // of a process that had this id and was killed just then
  guard->devargs_ = with_socket(devargs, guard->driver_path_);
  return guard;
}

Expected<void> MemifGuard::listen() {
  const auto held = thread_->lock();
  Thread::Socket& socket = thread_->sockets[address_->key()];
  if (socket.users > 0) {  // several devices share it, as they share that of the driver
    ++socket.users;
    served_ = socket.served;
    driver_path_ = socket.driver_path;
    return {};
  }
  auto served = std::make_shared<Served>();
  served->listener = make_socket();
  const int fd = served->listener.fd();
  if (fd < 0 || bind(fd, address_->generic(), address_->size) != 0 ||
      ::listen(fd, SOMAXCONN) != 0) {
    const int error = errno;
    thread_->sockets.erase(address_->key());
    return fail(error == EADDRINUSE ? ErrorCode::busy : ErrorCode::io,
                "cannot listen at the memif socket {}: {}", address_->path, std::strerror(error));
  }
  socket = {served, driver_path_, 1};
  served_ = std::move(served);
  return {};
}

Expected<void> MemifGuard::open() {
  if (!is_server_) return {};
  const auto held = thread_->lock();
  // Without a name there is no way to the driver but this descriptor.
  Descriptor driver(::open(driver_path_.c_str(), O_PATH | O_CLOEXEC));
  if (driver) {
    served_->driver = std::move(driver);
    unlink(driver_path_.c_str());
  } else if (!served_->driver) {
    return fail(ErrorCode::io, "DPDK's memif driver does not listen: {}", std::strerror(errno));
  }
  Served::Device& device = served_->devices[id_];
  device.queues = queues_;
  device.open = true;
  thread_->wake();
  return {};
}

void MemifGuard::close() {
  if (!is_server_) return;
  auto held = thread_->lock();
  served_->devices[id_].open = false;
  thread_->wait_until_entered(held, *served_);
}

MemifGuard::~MemifGuard() {
  if (served_ == nullptr) return;
  const auto held = thread_->lock();
  const auto socket = thread_->sockets.find(address_->key());
  assert(socket != thread_->sockets.end() && socket->second.served == served_);
  if (--socket->second.users > 0) return;
  thread_->drop_unfinished(*served_);
  served_->listener.reset();
  served_->driver.reset();
  if (!address_->is_abstract) unlink(address_->path.c_str());
  unlink(driver_path_.c_str());
  thread_->sockets.erase(socket);
}

bool MemifGuard::dial() {
  if (is_server_) return true;
  Descriptor server = make_socket();
  Descriptor meeting_point = make_socket();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  driver_path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (!server || !meeting_point || connect(server.fd(), address_->generic(), address_->size) != 0 ||
      bind(meeting_point.fd(), generic, sizeof(address)) != 0 ||
      ::listen(meeting_point.fd(), SOMAXCONN) != 0) {
    return false;
  }
  dialled_ = std::move(server);
  meeting_point_ = std::move(meeting_point);
  return true;
}

void MemifGuard::started(bool good) {
  if (is_server_) return;
  Descriptor server = std::move(dialled_);
  const Descriptor meeting_point = std::move(meeting_point_);
  if (meeting_point) unlink(driver_path_.c_str());
  if (!good) return;
  for (;;) {
    Descriptor driver(accept4(meeting_point.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!driver) return;  // the link stays down, so the device starts anew
    if (!is_this_process(driver.fd())) continue;
    joined_ = std::make_shared<std::atomic<bool>>(true);
    const auto held = thread_->lock();
    thread_->add(std::make_unique<ClientSession>(std::move(server), std::move(driver), queues_,
                                                 counters_, joined_));
    thread_->wake();
    return;
  }
}

bool MemifGuard::is_joining() const {
  return joined_ != nullptr && joined_->load(std::memory_order_relaxed);
}

void MemifGuard::visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                                void* context) const {
  const SessionCounters& counters = is_server_ ? served_->counters : *counters_;
  visit(context, "memif_left_early", counters.left_early.value());
  visit(context, "memif_refused", counters.refused.value());
  visit(context, "memif_already_joined", counters.already_joined.value());
  visit(context, "memif_timed_out", counters.timed_out.value());
  visit(context, "memif_pushed_out", counters.pushed_out.value());
  visit(context, "memif_no_descriptors", counters.no_descriptors.value());
}

void MemifGuard::describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                   void* context) {
  visit(context, "memif_left_early", "peers that went away amid the handshake");
  visit(context, "memif_refused",
        "peers that sent what memif does not allow, or offered what cannot be used");
  visit(context, "memif_already_joined", "peers refused, as the link has another one");
  visit(context, "memif_timed_out", "peers that did not end the handshake in time");
  visit(context, "memif_pushed_out", "peers refused as the oldest of too many unfinished ones");
  visit(context, "memif_no_descriptors", "peers refused, as this process had no descriptors left");
}

}  // namespace rockhopper::stack
