# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Builds the guest's initramfs from installed packages, cached under a stamp of its contents."""

import contextlib
import fcntl
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import stat
import struct
import subprocess
import tempfile

from . import cpio
from .errors import GuestError, Skip

ROOT = pathlib.Path(__file__).resolve().parent / "root"
MODULES_ROOT = pathlib.Path("/lib/modules")

# Program -> Debian package.  The guest is of no use without these.
REQUIRED = {
    "busybox": "busybox-static",
    "dash": "dash",
    "setsid": "util-linux",
    "ip": "iproute2",
    "tc": "iproute2",
    "rdma": "iproute2",
    "ibv_devinfo": "ibverbs-utils",
    "ibv_rc_pingpong": "ibverbs-utils",
    "qemu-system-x86_64": "qemu-system-x86",
}
# Programs that are taken along where they are installed.  The first line: those that run another
# program, because busybox's would prefer its own applets (ip, sh, ...) to the real ones.
OPTIONAL = (
    "timeout env nice nohup xargs "
    "ss ethtool tcpdump ibv_devices ibv_asyncwatch ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong "
    "ibv_xsrq_pingpong rping ucmatose udaddy mckey rdma_server rdma_client udpong cmtime "
    "ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat"
).split()
LOADER = "/lib64/ld-linux-x86-64.so.2"
# Loaded at run time, so that the loader does not list them: rping ends its threads with libgcc_s.
EXTRA_LIBRARIES = ("libgcc_s.so.1",)
MODULES = (
    "virtio_pci virtio_net virtio_console veth dummy bridge tun vrf sch_netem sch_prio cls_u32 "
    "cls_matchall act_gact act_mirred sch_ingress ifb crc32_generic crc32_pclmul crc32c_generic "
    "rdma_rxe ib_uverbs ib_umad rdma_cm rdma_ucm udp_diag af_packet"
).split()
# Applets which Debian's busybox shell or PATH must not prefer to the real programs.
NOT_APPLETS = {"busybox", "ip", "tc", "rdma", "ss", "sh", "ash", "init", "linuxrc"}
KEPT_IMAGES = 4
# Linux's x86 boot protocol, 2.08 and later: where a kernel's image says what is compressed in it.
_SETUP_SECTORS, _PAYLOAD, _MAGIC = 0x1F1, 0x248, 0x202
_BOOT_PROTOCOL = 0x0208
# The ELF note by which QEMU starts an uncompressed kernel: XEN_ELFNOTE_PHYS32_ENTRY.
_PVH_NOTES = tuple(struct.pack("<III4s", 4, size, 18, b"Xen") for size in (4, 8))


class Kernel:
    """An installed kernel: its release, its image and its modules."""

    def __init__(self, release):
        self.release = release
        self.image = pathlib.Path("/boot/vmlinuz-" + release)
        self.modules = MODULES_ROOT / release

    @staticmethod
    def find():
        """The newest kernel with rdma_rxe; raises Skip with the reason where there is none."""
        releases = sorted((path.name for path in MODULES_ROOT.glob("*")), key=_version_key, reverse=True)
        reason = "no kernel with modules is installed: apt-get install linux-image-amd64"
        for release in releases:
            kernel = Kernel(release)
            if not kernel.image.exists():
                continue
            if not list(kernel.modules.glob("kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko*")):
                reason = f"kernel {release} has no rdma_rxe module: apt-get install linux-image-amd64"
                continue
            if not os.access(kernel.image, os.R_OK):
                reason = f"{kernel.image} is not readable by this user: chmod 0644 it"
                continue
            return kernel
        raise Skip(reason)


def uncompressed(kernel_image):
    """The ELF file that is compressed in a kernel's image; None where it is none that can be started
    or is compressed by something else than xz."""
    if kernel_image[_MAGIC:_MAGIC + 4] != b"HdrS":
        return None
    (protocol,) = struct.unpack_from("<H", kernel_image, _MAGIC + 4)
    if protocol < _BOOT_PROTOCOL:
        return None
    offset, length = struct.unpack_from("<II", kernel_image, _PAYLOAD)
    begin = ((kernel_image[_SETUP_SECTORS] or 4) + 1) * 512 + offset
    decompressor = lzma.LZMADecompressor()
    try:
        # Four bytes behind the compressed data repeat its length.
        content = decompressor.decompress(kernel_image[begin:begin + length])
    except lzma.LZMAError:
        return None
    startable = content.startswith(b"\x7fELF") and any(note in content for note in _PVH_NOTES)
    return content if decompressor.eof and startable else None


def startable_kernel(kernel, cache):
    """The path of the kernel for QEMU: uncompressed where that is possible, as decompressing takes
    an emulated processor longer than much of the rest of a start."""
    status = kernel.image.stat()
    path = pathlib.Path(cache, f"vmlinux-{kernel.release}-{status.st_size}-{status.st_mtime_ns}")
    with _locked(cache):
        if not path.exists():
            content = uncompressed(kernel.image.read_bytes())
            if content is None:
                return kernel.image
            _write_whole(path, lambda out: out.write(content))
        os.utime(path)
        forget_old(cache, "vmlinux-*")
    return path


@contextlib.contextmanager
def _locked(cache):
    """One process at a time makes what is missing in the cache."""
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write_whole(path, write):
    """A file that is there with all its content or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as out:
        try:
            write(out)
            out.flush()
            os.rename(out.name, path)
        except BaseException:
            os.unlink(out.name)
            raise


def forget_old(cache, pattern):
    """All but the files that were used last."""
    for old in sorted(pathlib.Path(cache).glob(pattern), key=os.path.getmtime)[:-KEPT_IMAGES]:
        if old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.unlink(missing_ok=True)


def _version_key(release):
    return [int(part) if part.isdigit() else -1 for part in re.split(r"[^0-9]+", release)]


def find_program(name):
    """The path of a program, looked for in the administrator's directories too; None if missing."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")


def require_programs():
    """Raises Skip, naming the packages, where a required program is missing."""
    missing = sorted({package for name, package in REQUIRED.items() if not find_program(name)})
    if missing:
        raise Skip("not installed: apt-get install " + " ".join(missing))


def libraries(program):
    """The shared libraries (absolute paths) that `program` needs, its loader included."""
    # Those of the system, wherever the caller finds others.
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
    # What ldd does, which also starts a shell and tries other loaders: ten times the processor time.
    result = subprocess.run([LOADER, "--list", program], capture_output=True, text=True, check=False,
                            env=environment)
    missing = re.findall(r"^\s*(\S+) => not found", result.stdout, re.M)
    if missing:
        raise GuestError(f"{program} needs {', '.join(missing)}, which is not installed")
    return re.findall(r"(?:=> |^\s*)(/\S+) \(0x", result.stdout, re.M)


def guest_path(path):
    """Where a host's file lives in the guest, whose /bin, /sbin, /lib, /lib64 link into /usr."""
    return re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", str(path))


def _rxe_provider():
    """The provider library of libibverbs for rxe (its name carries a private ABI number)."""
    found = sorted(pathlib.Path("/usr/lib").glob("*/libibverbs/librxe-rdmav*.so"))
    if not found or not os.path.exists("/etc/libibverbs.d/rxe.driver"):
        raise Skip("no rxe provider of libibverbs: apt-get install ibverbs-providers")
    return str(found[-1])


def _module_closure(kernel):
    """Path (relative to the kernel's modules) of each wanted module and of all it depends on."""
    dependencies, paths = {}, {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        path, _, needs = line.partition(":")
        paths[_module_name(path)] = path
        dependencies[path] = needs.split()
    wanted = {paths[name] for name in MODULES if name in paths}
    return {path: dependencies[path] for top in wanted for path in [top, *dependencies[top]]}


def _module_name(path):
    return os.path.basename(path).partition(".ko")[0].replace("-", "_")


def _read_module(path):
    """A module's content, decompressed: busybox may lack the decompressor of the distribution."""
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".zst":
        zstd = find_program("zstd")
        if not zstd:
            raise Skip("kernel modules are compressed: apt-get install zstd")
        return subprocess.run([zstd, "-qdc", path], capture_output=True, check=True).stdout
    return path.read_bytes()


class Image:
    """The plan of an initramfs: which host file goes where.  `build()` makes or finds it."""

    def __init__(self, kernel, extra=()):
        self.kernel = kernel
        self._files = {}  # guest path -> host path
        require_programs()
        programs = [find_program(name) for name in (*REQUIRED, *OPTIONAL) if not name.startswith("qemu")]
        for program in filter(None, programs):
            self._add_program(program, "/usr/bin/" + os.path.basename(program))
        for program in extra:
            self._add_program(os.path.abspath(program), "/usr/local/bin/" + os.path.basename(program))
        self._add_program(_rxe_provider())
        self._files["/etc/libibverbs.d/rxe.driver"] = "/etc/libibverbs.d/rxe.driver"
        for name in EXTRA_LIBRARIES:
            for path in pathlib.Path("/usr/lib").glob(f"*/{name}"):
                self._files[str(path)] = str(path)
        for path in pathlib.Path("/usr/lib/tc").glob("*.dist"):
            self._files[str(path)] = str(path)

    def _add_program(self, path, destination=None):
        if not os.access(path, os.R_OK):
            raise GuestError(f"cannot read {path}")
        self._files[destination or guest_path(path)] = path
        for library in libraries(path):
            self._files[guest_path(library)] = library

    def stamp(self):
        """Changes whenever anything that goes into the image does."""
        digest = hashlib.sha256(self.kernel.release.encode())
        sources = sorted(self._files.items())
        sources += [(path, self.kernel.modules / path) for path in sorted(_module_closure(self.kernel))]
        sources += [(path.name, path) for path in sorted(ROOT.iterdir())]
        sources += [(path.name, path) for path in (pathlib.Path(__file__), pathlib.Path(cpio.__file__))]
        for destination, source in sources:
            status = os.stat(source)
            digest.update(f"{destination} {status.st_size} {status.st_mtime_ns}\n".encode())
        return digest.hexdigest()[:16]

    def build(self, cache, log=lambda text: None):
        """The path of the image: from the cache, or built into it (atomically, once at a time)."""
        path = pathlib.Path(cache, f"initramfs-{self.stamp()}.img")
        with _locked(cache):
            if path.exists():
                os.utime(path)
            else:
                log(f"building {path}")
                _write_whole(path, self._write)
            forget_old(cache, "initramfs-*.img")
        return path

    def _write(self, out):
        archive = cpio.Writer(out)
        for name in ("dev", "etc", "mnt", "proc", "root", "run", "sys", "tmp", "var"):
            archive.directory(name)
        for name in ("bin", "sbin", "lib", "lib64"):
            archive.directory("usr/" + name)
            archive.symlink(name, "usr/" + name)
        for destination, source in sorted(self._files.items()):
            mode = 0o755 if os.stat(source).st_mode & stat.S_IXUSR else 0o644
            archive.file(destination, pathlib.Path(source).read_bytes(), mode)
        self._write_applets(archive)
        self._write_modules(archive)
        archive.file("init", (ROOT / "init").read_bytes(), 0o755)
        archive.file("usr/lib/rxe-guest/agent", (ROOT / "agent").read_bytes(), 0o755)
        archive.file("etc/profile", (ROOT / "profile").read_bytes())
        archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        archive.file("etc/group", b"root:x:0:\n")
        archive.file("etc/hosts", b"127.0.0.1 localhost\n::1 localhost\n")
        archive.file("etc/nsswitch.conf", b"hosts: files\n")
        archive.close()

    @staticmethod
    def _write_applets(archive):
        # The shell is dash: busybox's own prefers its applets (ip, tc) to what PATH finds.
        archive.symlink("usr/bin/sh", "dash")
        applets = subprocess.run([find_program("busybox"), "--list"], capture_output=True, text=True, check=True)
        for name in applets.stdout.split():
            if name not in NOT_APPLETS and "usr/bin/" + name not in archive:
                archive.symlink("usr/bin/" + name, "busybox")
        for name in ("modprobe", "poweroff"):  # the kernel calls /sbin/modprobe
            archive.symlink("usr/sbin/" + name, "../bin/busybox")

    def _write_modules(self, archive):
        base = f"usr/lib/modules/{self.kernel.release}/"
        closure = _module_closure(self.kernel)
        plain = {path: path.partition(".ko")[0] + ".ko" for path in closure}
        for path, name in sorted(plain.items()):
            archive.file(base + name, _read_module(self.kernel.modules / path))
        lines = [f"{plain[path]}: {' '.join(plain[need] for need in needs)}\n"
                 for path, needs in sorted(closure.items())]
        archive.file(base + "modules.dep", "".join(lines).encode())
        names = {_module_name(path) for path in closure}
        for table in ("modules.alias", "modules.symbols"):
            kept = [line for line in (self.kernel.modules / table).read_text().splitlines(True)
                    if line.split()[-1] in names]
            archive.file(base + table, "".join(kept).encode())
        archive.file(base + "modules.builtin", (self.kernel.modules / "modules.builtin").read_bytes())
