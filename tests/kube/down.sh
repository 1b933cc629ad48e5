#!/bin/sh
# down.sh: ends the cluster, and removes all that it wrote. What was built or downloaded stays in $KUBE_CACHE.
set -e
. "$(dirname "$0")/settings.sh"
[ -d "$RUN" ] || exit 0
for folder in "$RUN"/*/; do
  "$HERE/machine.sh" stop "$(basename "$folder")"
done
# Groups are of the kernel, and outlive their processes.
for controller in $CONTROLLERS; do
  for group in /sys/fs/cgroup/"$controller"/framehold-*; do
    [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} +
  done
done
rm -rf "$RUN"
