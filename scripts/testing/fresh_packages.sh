# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
#
# shellcheck shell=bash disable=SC2154
# A part of scripts/fresh-debian-test, for --packages: takes the packages that were built in $root to
# a root file system that has nothing of the project, and tries them there.

built=$root/src/rockhopper/build/packages
compgen -G "$built/*.deb" >/dev/null || die "no packages in ${built#"$root"}: '$*' has built none"
root=$folder/user
if [ ! -e "$root/complete" ]; then
  rm -rf --one-file-system "$root"
  echo "fresh-debian-test: debootstrap $suite into $root"
  make_root >"$folder/debootstrap-user.log" 2>&1 || {
    tail -n 20 "$folder/debootstrap-user.log" >&2
    die "debootstrap failed"
  }
  touch "$root/complete"
fi
for file in /etc/resolv.conf /etc/hosts; do
  [ ! -e "$file" ] || cp --dereference "$file" "$root$file"
done
# The checks and what they work with are all that comes along.
rm -rf --one-file-system "$root/packages"
mkdir "$root/packages"
cp "$built"/*.deb "$repository"/tests/packages/check.py \
  "$repository"/examples/write.cc "$repository"/examples/support.h \
  "$repository"/tests/data/workflows/letters.json "$root/packages"
echo "fresh-debian-test: the packages on a machine without the sources"
run_in "$root" /packages '
export DEBIAN_FRONTEND=noninteractive
{ apt-get -q update && apt-get -q -y install --no-install-recommends python3 passwd; } >apt.log 2>&1 || {
  tail -n 20 apt.log >&2
  exit 1
}
exec ./check.py .' || die "the packages do not pass on a machine without the sources"
