#!/bin/sh
# up.sh: builds what is missing, and starts the cluster. It returns when the nodes are ready and a name is found.
set -e
. "$(dirname "$0")/settings.sh"
machine=$HERE/machine.sh

[ "$(id -u)" = 0 ] || fail "only root may make namespaces with mounts of their own: sudo make kube"
for command in unshare nsenter ip openssl; do command -v $command > /dev/null || fail "$command is missing"; done
for folder in "$RUN"/*/; do ! lives "$folder" || fail "a cluster is there already; make kube-down ends it"; done
if [ -d "$RUN" ]; then
  say "of an earlier cluster nothing runs; removing what it left"
  "$HERE/down.sh"
fi

since=$(date +%s)
lap() { say "$1: $(($(date +%s) - since)) s"; since=$(date +%s); }
mkdir -p "$RUN/shared/ledger" "$RUN/shared/disk"
# Each on a line of its own: a script that fails before && would not end this one.
"$HERE/build.sh"
lap "binaries"
"$HERE/roots.sh"
lap "Debian packages"
"$HERE/images.sh"
lap "images"

"$HERE/certificates.sh" "$RUN/shared/pki"
chmod 755 "$RUN/shared"
chmod 1777 "$RUN/shared/ledger" "$RUN/shared/disk"
trap '[ $? = 0 ] || say "the cluster did not start; its logs are in $RUN/*/disk/var/log; make kube-down removes them"' EXIT

"$machine" start control
control=$(cat "$RUN/control/pid")
"$machine" near control ip link add nodes type bridge
"$machine" near control ip address add "$GATE/24" dev nodes
"$machine" near control ip link set nodes up
"$machine" near control sysctl -qw net.ipv4.ip_forward=1 net.ipv4.fib_multipath_hash_policy=1
front=
for number in $(seq "$KUBE_NODES"); do
  "$machine" start "node$number"
  pid=$(cat "$RUN/node$number/pid")
  "$machine" near control ip link add "node$number" type veth peer name eth0 netns "$pid"
  "$machine" near control ip link set "node$number" master nodes up
  "$machine" near "node$number" ip address add "$(node_address "$number")/24" dev eth0
  "$machine" near "node$number" ip link set eth0 up
  "$machine" near "node$number" ip route add default via "$GATE"
  "$machine" near control ip route add "$(node_pods "$number")" via "$(node_address "$number")"
  front="$front nexthop via $(node_address "$number")"
done
for number in $(seq "$KUBE_NODES"); do
  for other in $(seq "$KUBE_NODES"); do
    [ "$number" = "$other" ] ||
      "$machine" near "node$number" ip route add "$(node_pods "$other")" via "$(node_address "$other")"
  done
done
# What a balancer in front of a cluster does: connections to the front address are spread over the nodes.
# shellcheck disable=SC2086
"$machine" near control ip route add "$FRONT/32" $front
lap "machines"

"$machine" run control /opt/kube/scripts/control.sh
lap "control plane"
for number in $(seq "$KUBE_NODES"); do "$machine" run "node$number" /opt/kube/scripts/node.sh "$number" & done
wait
kubectl() { "$HERE/kubectl.sh" "$@"; }
for number in $(seq "$KUBE_NODES"); do
  for _ in $(seq 120); do kubectl get node "node$number" > /dev/null 2>&1 && break; sleep 1; done
done
kubectl wait --for=condition=Ready node --all --timeout=180s > /dev/null
lap "nodes"
kubectl apply --server-side -f "$KUBE_BIN/contour-crds.yaml" > /dev/null
kubectl wait --for=condition=Established crd --all --timeout=60s > /dev/null
kubectl apply -f "$HERE/addons" > /dev/null
for part in coredns metrics-server contour; do
  kubectl -n kube-system rollout status deployment/$part --timeout=180s > /dev/null
  lap "$part"
done
kubectl get nodes -o wide
