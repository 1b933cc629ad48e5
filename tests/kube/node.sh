#!/bin/sh
# node.sh NUMBER [kubelet]: in the machine node NUMBER: containerd, kubelet and kube-proxy; or kubelet alone, once more.
set -e
. "$(dirname "$0")/settings.sh"
number=$1 name=node$1 pki=/opt/kube/shared/pki logs=/var/log made=/run/kube
address=$(node_address "$number")

background() { # name command...
  label=$1
  shift
  setsid "$@" >> "$logs/$label.log" 2>&1 < /dev/null &
  echo $! > "$made/$label.pid"
}

kubelet() {
  background kubelet kubelet --config=$made/kubelet.yaml --kubeconfig=$pki/$name.conf --hostname-override="$name" \
    --node-ip="$address"
}

[ "$2" != kubelet ] || { kubelet; exit 0; }

mkdir -p $made /etc/cni/net.d /opt/cni
ln -sfn /usr/lib/cni /opt/cni/bin
for controller in $CONTROLLERS; do mkdir -p "/sys/fs/cgroup/$controller/framehold-$name"; done
for setting in cpuset.cpus cpuset.mems; do
  cat /sys/fs/cgroup/cpuset/$setting > "/sys/fs/cgroup/cpuset/framehold-$name/$setting"
done
sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1

cat > $made/containerd.toml <<END
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Without CAP_SYS_RESOURCE nobody may lower oom_score_adj, and no pod would start.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
END
cat > /etc/cni/net.d/10-bridge.conflist <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$(node_pods "$number")"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
echo "# No name is known outside of the cluster." > $made/resolv.conf
cat > $made/kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $pki/$name.crt
tlsPrivateKeyFile: $pki/$name.key
clusterDomain: cluster.local
clusterDNS: [$DNS]
resolvConf: $made/resolv.conf
cgroupDriver: cgroupfs
cgroupRoot: /framehold-$name
enforceNodeAllocatable: []
failSwapOn: false
oomScoreAdj: 0
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: {memory.available: 200Mi}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
END
cat > $made/proxy.yaml <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $pki/proxy.conf}
mode: iptables
hostnameOverride: $name
clusterCIDR: 10.244.0.0/16
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
END

background containerd containerd --config $made/containerd.toml
for _ in $(seq 60); do ctr version > /dev/null 2>&1 && break; sleep 0.5; done
for image in /opt/kube/images/*.tar; do ctr -n k8s.io images import "$image" > /dev/null; done
# A second tag of the project's images, for an upgrade that changes it.
for image in node router; do
  ctr -n k8s.io images tag "docker.io/framehold/$image:local" "docker.io/framehold/$image:again" > /dev/null
done
kubelet
background kube-proxy kube-proxy --config=$made/proxy.yaml
# Of kube-router the part that enforces NetworkPolicies.
background kube-router kube-router --run-firewall=true --run-router=false --run-service-proxy=false \
  --kubeconfig=$pki/policies.conf --hostname-override="$name" --service-cluster-ip-range="$SERVICES" --health-port=0
