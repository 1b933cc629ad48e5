#!/bin/sh
# machine.sh start NAME [host-network] | run NAME COMMAND... | near NAME COMMAND... | stop NAME
#
# A private machine: mount, network, pid, uts and ipc namespaces of its own over a root of Debian packages. Its root is an
# overlay, whose changes go to $RUN/NAME. Nothing of it is seen outside; when its first process ends, all of it ends.
#
# `run` runs a command in all of its namespaces, `near` in its network alone, with the files of the machine outside.
set -e
. "$(dirname "$0")/settings.sh"

action=$1 name=$2
shift 2
folder=$RUN/$name

# The first process of the machine; $1 is its root. It mounts all there is, and then reaps orphans until it is killed.
if [ "$action" = begin ]; then
  root=$folder/root
  mount --make-rprivate /
  mkdir -p "$folder/upper" "$folder/work" "$root"
  mount -t overlay overlay -o "lowerdir=$ROOTS/node,upperdir=$folder/upper,workdir=$folder/work" "$root"
  mkdir -p "$root/outside" "$root/run" "$root/opt/kube/bin" "$root/opt/kube/scripts" "$root/opt/kube/shared" \
    "$root/opt/kube/images" "$root/opt/kube/roots" "$root/opt/kube/repository"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/run"
  # An overlay can't lie on an overlay: what containerd and kubelet write is on the disk outside.
  for path in var/lib/containerd var/lib/kubelet var/lib/etcd var/log; do
    mkdir -p "$folder/disk/$path" "$root/$path"
    mount --bind "$folder/disk/$path" "$root/$path"
  done
  mkdir -p "$RUN/shared" "$IMAGES" "$KUBE_CACHE/containers" "$root/var/lib/containers"
  mount --bind "$KUBE_CACHE/containers" "$root/var/lib/containers"
  mount --bind "$KUBE_BIN" "$root/opt/kube/bin"
  mount --bind "$HERE" "$root/opt/kube/scripts"
  mount --bind "$RUN/shared" "$root/opt/kube/shared"
  mount --bind "$IMAGES" "$root/opt/kube/images"
  mount --bind "$ROOTS" "$root/opt/kube/roots"
  mount --bind "$REPOSITORY" "$root/opt/kube/repository"
  mount -o remount,bind,ro "$root/opt/kube/repository"
  # kubelet sets these, which all machines of a kernel share. Here it sets files.
  for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
    kernel/keys/root_maxbytes; do
    kept=$root/run/sysctl/$setting
    mkdir -p "$(dirname "$kept")"
    cat "$root/proc/sys/$setting" > "$kept"
    mount --bind "$kept" "$root/proc/sys/$setting"
  done
  [ "$1" != host-network ] || cat /etc/resolv.conf > "$root/etc/resolv.conf"
  hostname "$name"
  ip link set lo up
  cd "$root"
  pivot_root . outside
  umount -l /outside
  mount --make-rshared /
  exec /usr/bin/tini -s -- sleep infinity
fi

[ "$action" = start ] || [ "$action" = stop ] || lives "$folder" ||
  fail "there is no machine $name; make kube starts all"
first=$(cat "$folder/pid" 2> /dev/null || true)

case $action in
start)
  mkdir -p "$folder"
  network=--net
  [ "$1" = host-network ] && network=
  setsid unshare --mount $network --pid --uts --ipc --fork --kill-child "$HERE/machine.sh" begin "$name" "$1" \
    > "$folder/log" 2>&1 < /dev/null &
  parent=$!
  for _ in $(seq 100); do
    child=$(pgrep -P "$parent" || true)
    [ -n "$child" ] && [ "$(cat "/proc/$child/comm" 2>/dev/null)" = tini ] && break
    kill -0 "$parent" 2>/dev/null || fail "the machine $name did not start: $(cat "$folder/log")"
    sleep 0.1
  done
  echo "$child" > "$folder/pid"
  started "$child" > "$folder/started"
  ;;
run) exec nsenter -t "$first" -m -n -p -u -i -r -w -- env -i PATH=/opt/kube/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@" ;;
near) exec nsenter -t "$first" -n -- "$@" ;;
stop)
  # Where the machine is gone, another process may have the number of its first one.
  lives "$folder" || exit 0
  kill -9 "$first"
  while lives "$folder"; do sleep 0.1; done
  rm "$folder/pid" "$folder/started"
  ;;
*) fail "usage: machine.sh start|run|near|stop NAME ..." ;;
esac
