// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

// The C library's functions that take a path, for programs that look for RDMA devices in /sys and
// /dev themselves. Each calls the one that it stands before, with the path of the rendered tree if
// the path is one of those; errno and all results are that function's. What is opened may be a
// counter, so those that read are here, too.

// Both forms of a function are made here, so the headers must not give one the name of the other.
#undef _FILE_OFFSET_BITS

#include <cstdarg>
#include <cstdio>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "apps/verbs/abi/counter_files.h"
#include "apps/verbs/shim/next.h"
#include "apps/verbs/shim/rdma_cm.h"
#include "apps/verbs/shim/rewrite.h"

using rockhopper::verbs::is_rdma_cm;
using rockhopper::verbs::next;
using rockhopper::verbs::open_rdma_cm;
using rockhopper::verbs::refresh_counter;
using rockhopper::verbs::Rewritten;
using rockhopper::verbs::show_counter;
using rockhopper::verbs::tree;

namespace {

/// What was opened, with the counter's present value if it is one.
int shown(int fd, const char* path) {
  if (path != nullptr) show_counter(fd, path, tree());
  return fd;
}

bool has_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

}  // namespace

// The parameters of these functions have names of their own, and types and lists of parameters
// cannot stand in parentheses.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses)

#define ROCKHOPPER_SHOWN extern "C" __attribute__((visibility("default")))

// The functions are declared by other names here, as headers declare some of them with attributes
// or as macros that differ between versions of the C library.
#define ROCKHOPPER_PATH(Result, name, parameters, arguments) \
  ROCKHOPPER_SHOWN Result name parameters {                  \
    static Result(*known) parameters = nullptr;              \
    const Rewritten rewritten(path);                         \
    return next(known, #name) arguments;                     \
  }

#define ROCKHOPPER_OPEN(name, parameters, arguments)  \
  ROCKHOPPER_SHOWN int name parameters {              \
    static int(*known) parameters = nullptr;          \
    mode_t mode = 0;                                  \
    if (has_mode(flags)) {                            \
      va_list rest;                                   \
      va_start(rest, flags);                          \
      mode = va_arg(rest, mode_t);                    \
      va_end(rest);                                   \
    }                                                 \
    if (is_rdma_cm(path)) return open_rdma_cm(flags); \
    const Rewritten rewritten(path);                  \
    return shown(next(known, #name) arguments, path); \
  }

// The parameters that only this file names are those of the C library's headers or of its binary
// interface: __xstat and the like are what programs of before glibc 2.33 call for stat.
ROCKHOPPER_OPEN(open, (const char* path, int flags, ...), (rewritten.path(), flags, mode))
ROCKHOPPER_OPEN(open64, (const char* path, int flags, ...), (rewritten.path(), flags, mode))
ROCKHOPPER_OPEN(openat, (int folder, const char* path, int flags, ...),
                (folder, rewritten.path(), flags, mode))
ROCKHOPPER_OPEN(openat64, (int folder, const char* path, int flags, ...),
                (folder, rewritten.path(), flags, mode))
// What a program that was compiled with _FORTIFY_SOURCE calls without a mode.
#define ROCKHOPPER_OPEN_2(name, parameters, arguments) \
  ROCKHOPPER_SHOWN int name parameters {               \
    static int(*known) parameters = nullptr;           \
    if (is_rdma_cm(path)) return open_rdma_cm(flags);  \
    const Rewritten rewritten(path);                   \
    return shown(next(known, #name) arguments, path);  \
  }
ROCKHOPPER_OPEN_2(__open_2, (const char* path, int flags), (rewritten.path(), flags))
ROCKHOPPER_OPEN_2(__open64_2, (const char* path, int flags), (rewritten.path(), flags))
ROCKHOPPER_OPEN_2(__openat_2, (int folder, const char* path, int flags),
                  (folder, rewritten.path(), flags))
ROCKHOPPER_OPEN_2(__openat64_2, (int folder, const char* path, int flags),
                  (folder, rewritten.path(), flags))

#define ROCKHOPPER_FOPEN(name)                                      \
  ROCKHOPPER_SHOWN FILE* name(const char* path, const char* mode) { \
    static FILE* (*known)(const char*, const char*) = nullptr;      \
    const Rewritten rewritten(path);                                \
    FILE* file = next(known, #name)(rewritten.path(), mode);        \
    if (file != nullptr) (void)shown(fileno(file), path);           \
    return file;                                                    \
  }
ROCKHOPPER_FOPEN(fopen)
ROCKHOPPER_FOPEN(fopen64)
// A file of /sys that is read again from its beginning has other contents then.
#define ROCKHOPPER_READ(name, parameters, arguments, offset) \
  ROCKHOPPER_SHOWN ssize_t name parameters {                 \
    static ssize_t(*known) parameters = nullptr;             \
    refresh_counter(fd, offset);                             \
    return next(known, #name) arguments;                     \
  }
ROCKHOPPER_READ(read, (int fd, void* to, std::size_t size), (fd, to, size), -1)
ROCKHOPPER_READ(__read_chk, (int fd, void* to, std::size_t size, std::size_t room),
                (fd, to, size, room), -1)
ROCKHOPPER_READ(pread, (int fd, void* to, std::size_t size, off_t at), (fd, to, size, at), at)
ROCKHOPPER_READ(pread64, (int fd, void* to, std::size_t size, off64_t at), (fd, to, size, at), at)
ROCKHOPPER_READ(__pread_chk, (int fd, void* to, std::size_t size, off_t at, std::size_t room),
                (fd, to, size, at, room), at)
ROCKHOPPER_READ(__pread64_chk, (int fd, void* to, std::size_t size, off64_t at, std::size_t room),
                (fd, to, size, at, room), at)

ROCKHOPPER_PATH(DIR*, opendir, (const char* path), (rewritten.path()))
ROCKHOPPER_PATH(int, scandir,
                (const char* path, dirent*** list, int (*filter)(const dirent*),
                 int (*compare)(const dirent**, const dirent**)),
                (rewritten.path(), list, filter, compare))
ROCKHOPPER_PATH(int, scandir64,
                (const char* path, dirent64*** list, int (*filter)(const dirent64*),
                 int (*compare)(const dirent64**, const dirent64**)),
                (rewritten.path(), list, filter, compare))

ROCKHOPPER_PATH(int, stat, (const char* path, struct stat* to), (rewritten.path(), to))
ROCKHOPPER_PATH(int, stat64, (const char* path, struct stat64* to), (rewritten.path(), to))
ROCKHOPPER_PATH(int, lstat, (const char* path, struct stat* to), (rewritten.path(), to))
ROCKHOPPER_PATH(int, lstat64, (const char* path, struct stat64* to), (rewritten.path(), to))
ROCKHOPPER_PATH(int, fstatat, (int folder, const char* path, struct stat* to, int flags),
                (folder, rewritten.path(), to, flags))
ROCKHOPPER_PATH(int, fstatat64, (int folder, const char* path, struct stat64* to, int flags),
                (folder, rewritten.path(), to, flags))
ROCKHOPPER_PATH(int, statx,
                (int folder, const char* path, int flags, unsigned mask, struct statx* to),
                (folder, rewritten.path(), flags, mask, to))
ROCKHOPPER_PATH(int, __xstat, (int version, const char* path, struct stat* to),
                (version, rewritten.path(), to))
ROCKHOPPER_PATH(int, __xstat64, (int version, const char* path, struct stat64* to),
                (version, rewritten.path(), to))
ROCKHOPPER_PATH(int, __lxstat, (int version, const char* path, struct stat* to),
                (version, rewritten.path(), to))
ROCKHOPPER_PATH(int, __lxstat64, (int version, const char* path, struct stat64* to),
                (version, rewritten.path(), to))
ROCKHOPPER_PATH(int, __fxstatat,
                (int version, int folder, const char* path, struct stat* to, int flags),
                (version, folder, rewritten.path(), to, flags))
ROCKHOPPER_PATH(int, __fxstatat64,
                (int version, int folder, const char* path, struct stat64* to, int flags),
                (version, folder, rewritten.path(), to, flags))

ROCKHOPPER_PATH(int, access, (const char* path, int mode), (rewritten.path(), mode))
ROCKHOPPER_PATH(int, faccessat, (int folder, const char* path, int mode, int flags),
                (folder, rewritten.path(), mode, flags))
ROCKHOPPER_PATH(ssize_t, readlink, (const char* path, char* to, std::size_t size),
                (rewritten.path(), to, size))
ROCKHOPPER_PATH(ssize_t, readlinkat, (int folder, const char* path, char* to, std::size_t size),
                (folder, rewritten.path(), to, size))
ROCKHOPPER_PATH(ssize_t, __readlink_chk,
                (const char* path, char* to, std::size_t size, std::size_t room),
                (rewritten.path(), to, size, room))
ROCKHOPPER_PATH(ssize_t, __readlinkat_chk,
                (int folder, const char* path, char* to, std::size_t size, std::size_t room),
                (folder, rewritten.path(), to, size, room))
// `ls -l` asks for access control lists.
ROCKHOPPER_PATH(ssize_t, getxattr, (const char* path, const char* name, void* to, std::size_t size),
                (rewritten.path(), name, to, size))
ROCKHOPPER_PATH(ssize_t, lgetxattr,
                (const char* path, const char* name, void* to, std::size_t size),
                (rewritten.path(), name, to, size))
ROCKHOPPER_PATH(ssize_t, listxattr, (const char* path, char* to, std::size_t size),
                (rewritten.path(), to, size))
ROCKHOPPER_PATH(ssize_t, llistxattr, (const char* path, char* to, std::size_t size),
                (rewritten.path(), to, size))
ROCKHOPPER_PATH(int, statfs, (const char* path, struct statfs* to), (rewritten.path(), to))
ROCKHOPPER_PATH(int, statfs64, (const char* path, struct statfs64* to), (rewritten.path(), to))
ROCKHOPPER_PATH(int, statvfs, (const char* path, struct statvfs* to), (rewritten.path(), to))
ROCKHOPPER_PATH(int, statvfs64, (const char* path, struct statvfs64* to), (rewritten.path(), to))
ROCKHOPPER_PATH(char*, realpath, (const char* path, char* to), (rewritten.path(), to))
ROCKHOPPER_PATH(char*, __realpath_chk, (const char* path, char* to, std::size_t room),
                (rewritten.path(), to, room))
ROCKHOPPER_PATH(char*, canonicalize_file_name, (const char* path), (rewritten.path()))
ROCKHOPPER_PATH(int, chdir, (const char* path), (rewritten.path()))

// NOLINTEND(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses)
