# What the scripts here agree on; each sources it. Set a variable of the first group to choose otherwise.

KUBE_CACHE=${KUBE_CACHE:-$HOME/.cache/framehold-kube}   # all that is built or downloaded
KUBE_BIN=${KUBE_BIN:-$KUBE_CACHE/bin}                   # a folder with the files of $BINARIES
KUBE_NODES=${KUBE_NODES:-2}
KUBERNETES=${KUBERNETES:-v1.34.4}                       # the newest minor whose kubelet takes cgroup v1 by default
METRICS_SERVER=${METRICS_SERVER:-v0.9.0}
CONTOUR=${CONTOUR:-v1.33.8}
ENVOY=${ENVOY:-1.40.0}
COREDNS=${COREDNS:-v1.12.4}
KUBE_ROUTER=${KUBE_ROUTER:-v2.1.0}
SUITE=${SUITE:-bookworm}                                # Debian's; its Python is the one of the project's images
MIRROR=${MIRROR:-http://deb.debian.org/debian}

HERE=$(cd "$(dirname "$0")" && pwd)
REPOSITORY=$(cd "$HERE/../.." && pwd)
RUN=$KUBE_CACHE/run                                     # what a cluster writes; gone after kube-down
ROOTS=$KUBE_CACHE/roots
IMAGES=$KUBE_CACHE/images
BINARIES="kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl coredns kube-router pause metrics-server contour envoy contour-crds.yaml"

GATE=172.30.0.1                 # the control plane, and where clients of the cluster are
SERVICES=10.96.0.0/16
DNS=10.96.0.10
FRONT=172.31.0.1                # the address of Services of type LoadBalancer
CONTROLLERS="cpu cpuacct cpuset memory pids blkio devices freezer systemd"

node_address() { echo "172.30.0.1$1"; }
node_pods() { echo "10.244.$1.0/24"; }

started() { # PROCESS: when it was started, and in which run of the kernel: no two processes have the same number and time
  echo "$(cut -d' ' -f22 "/proc/$1/stat") $(cat /proc/sys/kernel/random/boot_id)"
}
lives() { # FOLDER: whether the first process of the machine in this folder still runs
  [ -e "$1/started" ] && [ "$(started "$(cat "$1/pid")" 2> /dev/null)" = "$(cat "$1/started")" ]
}

say() { echo "kube: $*" >&2; }
fail() { say "$*"; exit 2; }
