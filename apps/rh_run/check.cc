// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_run/check.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace rockhopper::apps::launcher {
namespace {

/// Both outputs of `ldd -r PROGRAM`, line by line. ldd is of the C library's package, and asks the
/// very loader that will run the program.
Expected<std::vector<std::string>> ask_loader(const std::string& program) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail(ErrorCode::io, "pipe: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::string name = "ldd";
  std::string option = "-r";
  std::string argument = program;
  char* const arguments[] = {name.data(), option.data(), argument.data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawnp(&child, "ldd", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t size = 0; (size = read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(size));
  }
  close(ends[0]);
  if (error != 0) return fail(ErrorCode::io, "ldd cannot be run: {}", std::strerror(error));
  int status = 0;
  waitpid(child, &status, 0);

  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// Fails with ErrorCode::not_found if there is no such file, and with another code if there is one
/// that cannot be run.
Expected<void> check_executable(const std::string& file) {
  struct stat found = {};
  if (stat(file.c_str(), &found) != 0) {
    const bool none = errno == ENOENT || errno == ENOTDIR;
    return fail(none ? ErrorCode::not_found : ErrorCode::io, "{}: {}", file, std::strerror(errno));
  }
  if (S_ISDIR(found.st_mode)) return fail(ErrorCode::io, "{}: {}", file, std::strerror(EISDIR));
  if (access(file.c_str(), X_OK) == 0) return {};
  return fail(ErrorCode::io, "{}: {}", file, std::strerror(errno));
}

/// Whether the kernel gives the program rights that its caller has not: the loader then ignores
/// what the environment says of libraries.
bool has_rights_of_its_own(const std::string& program) {
  struct stat found = {};
  if (stat(program.c_str(), &found) != 0) return false;
  const bool other_user = (found.st_mode & S_ISUID) != 0 && found.st_uid != getuid();
  const bool other_group = (found.st_mode & S_ISGID) != 0 && found.st_gid != getgid();
  const bool capabilities =
      getuid() != 0 && getxattr(program.c_str(), "security.capability", nullptr, 0) > 0;
  return other_user || other_group || capabilities;
}

bool has(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

}  // namespace

Expected<std::string> find_program(const std::string& command) {
  if (command.find('/') != std::string::npos) {
    ROCKHOPPER_TRY(check_executable(command));
    return command;
  }
  const char* path = std::getenv("PATH");
  const std::string folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  Error refusal{ErrorCode::not_found, command + ": command not found"};
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string folder = end > begin ? folders.substr(begin, end - begin) : ".";
    std::string file = fmt::format("{}/{}", folder, command);
    if (std::error_code error; std::filesystem::is_regular_file(file, error)) {
      auto good = check_executable(file);
      if (good) return file;
      refusal = std::move(good).error();
    }
    begin = end + 1;
  }
  return tl::make_unexpected(std::move(refusal));
}

std::string interpreter_of(const std::string& program) {
  std::ifstream file(program);
  std::string line;
  if (file.get() != '#' || file.get() != '!' || !std::getline(file, line)) return {};
  std::istringstream words(line);
  std::string name;
  words >> name;
  return name;
}

Expected<void> check_program(const std::string& program) {
  if (const std::string interpreter = interpreter_of(program); !interpreter.empty()) {
    fmt::print("{} is a script of {}\n", program, interpreter);
    ROCKHOPPER_TRY(check_executable(interpreter));
    return check_program(interpreter);
  }
  if (has_rights_of_its_own(program)) {
    return fail(ErrorCode::invalid_argument,
                "{} runs with other rights than yours (setuid, setgid or capabilities): the loader "
                "gives it no other libibverbs",
                program);
  }
  ROCKHOPPER_TRY(const auto lines, ask_loader(program));
  std::size_t missing = 0;
  bool loads = false;
  for (const std::string& line : lines) {
    if (has(line, "not a dynamic executable") || has(line, "statically linked")) {
      return fail(ErrorCode::invalid_argument,
                  "{} is statically linked or no program: it cannot be given another libibverbs",
                  program);
    }
    if (has(line, "not found") || has(line, "undefined symbol") || has(line, "symbol lookup")) {
      fmt::print("missing: {}\n", line.substr(line.find_first_not_of(" \t")));
      ++missing;
    } else if (has(line, "libibverbs.so.1 =>")) {
      fmt::print("{}\n", line.substr(line.find_first_not_of(" \t")));
      loads = true;
    }
  }
  if (missing > 0) return fail(ErrorCode::io, "{}: {} missing", program, missing);
  fmt::print("{}: {}\n", program,
             loads ? "all symbols are there"
                   : "does not name libibverbs; if it loads that later, it finds this one");
  return {};
}

}  // namespace rockhopper::apps::launcher
