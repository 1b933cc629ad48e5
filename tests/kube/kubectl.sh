#!/bin/sh
# kubectl.sh ARGUMENTS...: kubectl of the cluster, as its administrator.
. "$(dirname "$0")/settings.sh"
export KUBECONFIG="$RUN/shared/pki/admin.conf"
exec "$HERE/machine.sh" near control "$KUBE_BIN/kubectl" "$@"
