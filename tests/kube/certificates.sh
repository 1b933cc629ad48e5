#!/bin/sh
# certificates.sh FOLDER: an authority, and the certificates and kubeconfigs of a cluster. Needs openssl.
set -e
. "$(dirname "$0")/settings.sh"
mkdir -p "$1"
cd "$1"

quiet() { openssl "$@" 2>/dev/null; }

authority() { # name
  quiet ecparam -name prime256v1 -genkey -noout -out "$1.key"
  quiet req -x509 -new -key "$1.key" -subj "/CN=$1" -days 3650 -out "$1.crt" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,digitalSignature
}

certificate() { # name subject names-and-addresses authority
  by=${4:-ca}
  quiet ecparam -name prime256v1 -genkey -noout | quiet pkcs8 -topk8 -nocrypt -out "$1.key"
  quiet req -new -key "$1.key" -subj "$2" -out "$1.csr"
  {
    printf 'basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth,serverAuth\n'
    [ -z "$3" ] || echo "subjectAltName=$3"
  } > "$1.ext"
  quiet x509 -req -in "$1.csr" -CA "$by.crt" -CAkey "$by.key" -CAcreateserial -days 3650 -extfile "$1.ext" -out "$1.crt"
  rm "$1.csr" "$1.ext"
}

kubeconfig() { # name of a certificate
  cat > "$1.conf" <<END
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://$GATE:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: u, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
END
}

authority ca
authority front-ca   # signs whom the API server is for its extensions
certificate front /CN=front-proxy-client "" front-ca
certificate apiserver /CN=kube-apiserver "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,\
DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:10.96.0.1,IP:$GATE"
certificate apiserver-kubelet /O=system:masters/CN=kube-apiserver-kubelet-client
certificate admin /O=system:masters/CN=admin
certificate controller-manager /CN=system:kube-controller-manager
certificate scheduler /CN=system:kube-scheduler
certificate proxy /CN=system:kube-proxy
certificate policies /CN=kube-router
for number in $(seq "$KUBE_NODES"); do
  certificate "node$number" "/O=system:nodes/CN=system:node:node$number" "DNS:node$number,IP:$(node_address "$number")"
done
quiet genrsa -out sa.key 2048
quiet rsa -in sa.key -pubout -out sa.pub
for name in admin controller-manager scheduler proxy policies $(seq -f node%g "$KUBE_NODES"); do kubeconfig "$name"; done
