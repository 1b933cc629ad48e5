#!/bin/sh
# roots.sh: three trees of Debian packages: `node` for the machines, `python` for the base of the images, and `haproxy`.
# Once.
set -e
. "$(dirname "$0")/settings.sh"

mkdir -p "$ROOTS" "$KUBE_CACHE/debs"
if command -v debootstrap > /dev/null; then
  bootstrap=debootstrap
else
  # It is a script: unpacked it does its work, and nothing is installed.
  command -v apt-get > /dev/null || fail "debootstrap is missing, and apt-get to fetch it; install debootstrap"
  if [ ! -d "$KUBE_CACHE/debootstrap" ]; then
    (cd "$KUBE_CACHE/debs" && apt-get download -q debootstrap 2> /dev/null) || fail "apt-get can't fetch debootstrap"
    dpkg -x "$KUBE_CACHE"/debs/debootstrap_*.deb "$KUBE_CACHE/debootstrap"
  fi
  bootstrap=$KUBE_CACHE/debootstrap/usr/sbin/debootstrap
  export DEBOOTSTRAP_DIR="$KUBE_CACHE/debootstrap/usr/share/debootstrap"
fi

tree() { # name packages
  [ ! -d "$ROOTS/$1" ] || return 0
  say "fetching Debian packages for $1"
  rm -rf "$ROOTS/$1.part"
  # In a mount namespace of its own: what it mounts is gone with it.
  unshare --mount --propagation private "$bootstrap" --variant=minbase --include="$2" "$SUITE" "$ROOTS/$1.part" "$MIRROR" \
    > "$KUBE_CACHE/debootstrap-$1.log" 2>&1 || fail "debootstrap failed; see $KUBE_CACHE/debootstrap-$1.log"
  rm -rf "$ROOTS/$1.part"/var/cache/apt/archives/*.deb
  mv "$ROOTS/$1.part" "$ROOTS/$1"
}

tree python python3,python3-venv,python3-pip,ca-certificates,redis-server
tree haproxy haproxy
tree node containerd,runc,containernetworking-plugins,etcd-server,iptables,ipset,conntrack,nftables,iproute2,procps,\
tini,buildah,ca-certificates,mount,socat,ethtool,netbase
