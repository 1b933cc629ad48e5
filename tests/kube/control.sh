#!/bin/sh
# control.sh: in the machine `control`: etcd, API server, controller manager and scheduler. It returns when they serve.
set -e
. "$(dirname "$0")/settings.sh"
pki=/opt/kube/shared/pki logs=/var/log

background() { # name command...
  name=$1
  shift
  setsid "$@" > "$logs/$name.log" 2>&1 < /dev/null &
}

background etcd etcd --name control --data-dir /var/lib/etcd/data --unsafe-no-fsync \
  --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
  --initial-cluster control=http://127.0.0.1:2380
background kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
  --service-cluster-ip-range="$SERVICES" --advertise-address="$GATE" --bind-address=0.0.0.0 --secure-port=6443 \
  --tls-cert-file=$pki/apiserver.crt --tls-private-key-file=$pki/apiserver.key --client-ca-file=$pki/ca.crt \
  --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true --profiling=false \
  --kubelet-preferred-address-types=InternalIP --kubelet-certificate-authority=$pki/ca.crt \
  --kubelet-client-certificate=$pki/apiserver-kubelet.crt --kubelet-client-key=$pki/apiserver-kubelet.key \
  --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=$pki/sa.pub \
  --service-account-signing-key-file=$pki/sa.key --requestheader-client-ca-file=$pki/front-ca.crt \
  --requestheader-allowed-names=front-proxy-client --requestheader-username-headers=X-Remote-User \
  --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
  --proxy-client-cert-file=$pki/front.crt --proxy-client-key-file=$pki/front.key --enable-aggregator-routing=true

for _ in $(seq 180); do
  [ "$(kubectl --kubeconfig $pki/admin.conf get --raw /readyz 2>/dev/null)" = ok ] && break
  sleep 1
done
[ "$(kubectl --kubeconfig $pki/admin.conf get --raw /readyz)" = ok ] || fail "the API server is not ready; see control/disk/var/log/kube-apiserver.log"

background kube-controller-manager kube-controller-manager --kubeconfig=$pki/controller-manager.conf \
  --service-account-private-key-file=$pki/sa.key --root-ca-file=$pki/ca.crt --cluster-signing-cert-file=$pki/ca.crt \
  --cluster-signing-key-file=$pki/ca.key --use-service-account-credentials=true --leader-elect=false \
  --bind-address=127.0.0.1 --horizontal-pod-autoscaler-sync-period=5s
background kube-scheduler kube-scheduler --kubeconfig=$pki/scheduler.conf --leader-elect=false --bind-address=127.0.0.1
