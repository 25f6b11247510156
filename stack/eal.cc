// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/eal.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>
#include <unistd.h>

#include "stack/driver_folder.h"
#include "stack/memory_limit.h"
#include "stack/runtime_directory.h"
#include "stack/segment/reader/runtime_path.h"

namespace rockhopper::stack {
namespace {

/// Keeps DPDK's messages while the EAL starts: a good start passes them on, a failed one becomes
/// one line of those that name an error.
class LogCapture {
 public:
  LogCapture() {
    cookie_io_functions_t functions{};
    functions.write = &LogCapture::write;
    stream_ = fopencookie(this, "w", functions);
    if (stream_ != nullptr) rte_openlog_stream(stream_);
  }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  ~LogCapture() {
    rte_openlog_stream(nullptr);
    if (stream_ != nullptr) std::fclose(stream_);
  }

  [[nodiscard]] const std::string& all() const { return all_; }
  [[nodiscard]] const std::string& errors() const { return errors_; }

 private:
  static ssize_t write(void* cookie, const char* data, std::size_t size) {
    auto& self = *static_cast<LogCapture*>(cookie);
    const std::string_view text(data, size);
    const int level = rte_log_cur_msg_loglevel();
    // The process may be about to end: such messages must not stay here.
    if (level > 0 && level <= static_cast<int>(RTE_LOG_CRIT)) {
      std::fwrite(data, 1, size, stderr);
    } else {
      self.all_.append(text);
    }
    if (level <= static_cast<int>(RTE_LOG_ERR)) self.add_error(text);
    return static_cast<ssize_t>(size);
  }

  void add_error(std::string_view text) {
    constexpr std::string_view kPrefix = "EAL: ";
    if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
    while (!text.empty() && text.back() == '\n') {
      text.remove_suffix(1);
    }
    if (text.empty() || errors_.find(text) != std::string::npos) return;
    if (!errors_.empty()) errors_ += "; ";
    errors_ += text;
  }

  std::FILE* stream_ = nullptr;
  std::string all_;
  std::string errors_;
};

/// Only the main thread uses it, as it does all of Eal.
bool eal_running = false;

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

/// "0@(0,1,4),1@(0,1,4)" for two lcores.
std::string lcore_map(unsigned lcores) {
  std::string set = "(";
  for (const int cpu : allowed_cpus()) {
    if (set.size() > 1) set += ',';
    set += std::to_string(cpu);
  }
  set += ')';
  std::string map;
  for (unsigned lcore = 0; lcore < lcores; ++lcore) {
    if (lcore > 0) map += ',';
    map += fmt::format("{}@{}", lcore, set);
  }
  return map;
}

/// DPDK takes /var/run for root and $XDG_RUNTIME_DIR for others as they are, and falls back to
/// /tmp/dpdk, which belongs to the user that came first. The variable that it asks for before that
/// is a service manager's.
Expected<void> ensure_runtime_directory() {
  char path[PATH_MAX];
  const bool has_place = getuid() == 0
                             ? ::access("/var/run", W_OK) == 0
                             : write_runtime_path(path, sizeof path) == RuntimePlace::given;
  if (has_place || std::getenv("RUNTIME_DIRECTORY") != nullptr) return {};
  ROCKHOPPER_TRY(const auto directory, runtime_directory());
  setenv("RUNTIME_DIRECTORY", directory.c_str(), 1);
  return {};
}

}  // namespace

Arguments split_arguments(int argc, const char* const* argv) {
  Arguments result;
  for (int i = 1; i < argc; ++i) {
    if (result.embedded && std::strcmp(argv[i], "--") == 0) {
      result.embedded = false;
      result.eal.swap(result.application);
    } else {
      result.application.emplace_back(argv[i]);
    }
  }
  return result;
}

std::vector<std::string> embedded_arguments(const EmbeddedConfig& config) {
  return {
      "--no-huge",
      "-m",
      std::to_string(config.memory_mb),
      "--no-pci",
      "--no-shconf",
      fmt::format("--file-prefix=rockhopper-{}", getpid()),
      "--log-level=warning",
      "--log-level=lib.telemetry:error",
      "--log-level=pmd.net.memif:error",  // it warns that secondary processes are off
      "--lcores",
      lcore_map(config.lcores),
  };
}

Expected<std::unique_ptr<Eal>> Eal::start(const Arguments& arguments,
                                          const EmbeddedConfig& embedded) {
  if (arguments.embedded) {
    if (embedded.lcores == 0 || embedded.lcores > RTE_MAX_LCORE) {
      return fail(ErrorCode::invalid_argument, "{} lcores: 1 to {} are possible", embedded.lcores,
                  RTE_MAX_LCORE);
    }
    ROCKHOPPER_TRY(ensure_runtime_directory());
  }
  std::vector<std::string> strings =
      arguments.embedded ? embedded_arguments(embedded) : arguments.eal;
  strings.insert(strings.begin(), "rockhopper");
  // rte_eal_init() reorders its vector, so it gets one of its own.
  std::vector<char*> argv;
  argv.reserve(strings.size() + 1);
  for (std::string& string : strings) {
    argv.push_back(string.data());
  }
  argv.push_back(nullptr);

  std::string messages;
  {
    LogCapture capture;
    // Arguments for the EAL may name a device of any driver.
    std::optional<DriverFolder::Hidden> hidden;
    if (arguments.embedded) hidden.emplace();
    if (rte_eal_init(static_cast<int>(strings.size()), argv.data()) < 0) {
      return fail(rte_errno == EALREADY ? ErrorCode::invalid_state : ErrorCode::io,
                  "DPDK does not start: {}{}",
                  capture.errors().empty() ? rte_strerror(rte_errno) : capture.errors(),
                  memory_limit_text());
    }
    messages = capture.all();
  }
  std::fputs(messages.c_str(), stderr);
  eal_running = true;
  std::unique_ptr<Eal> eal(new Eal(arguments.embedded));
  ROCKHOPPER_TRY(DriverFolder::load_for("mempool_ring"));  // what pools are made of
  return eal;
}

bool Eal::running() { return eal_running; }

Eal::~Eal() {
  eal_running = false;
  const std::filesystem::path directory = runtime_directory();
  // The memif driver leaves its listener with the interrupt thread, in memory that this unmaps.
  if (rte_eal_has_hugepages() != 0) rte_eal_cleanup();
  if (!embedded_ || directory.empty()) return;
  // Telemetry would unlink its socket only at exit, and nothing would ever remove the directory.
  std::error_code ignored;
  std::filesystem::remove(directory / "dpdk_telemetry.v2", ignored);
  std::filesystem::remove(directory, ignored);
}

std::string Eal::runtime_directory() const { return rte_eal_get_runtime_dir(); }

}  // namespace rockhopper::stack
