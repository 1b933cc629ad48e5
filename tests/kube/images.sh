#!/bin/sh
# images.sh: the images of the cluster, as files in $IMAGES. No registry is asked: the project's own Dockerfiles are
# built on a base of Debian packages; each of the others is one program. An image is built again when what it is made of
# has changed.
set -e
. "$(dirname "$0")/settings.sh"
builder="$HERE/machine.sh run builder"
mkdir -p "$IMAGES" "$RUN/shared"

buildah() { $builder buildah --storage-driver overlay --root /var/lib/containers/storage "$@"; }

# What an image was made of: a file beside it says.
current() { [ -e "$IMAGES/$1.tar" ] && [ "$(cat "$IMAGES/$1.of" 2> /dev/null)" = "$2" ]; }

store() { # name reference made-of
  rm -f "$IMAGES/$1.tar"
  buildah push -q "$2" "docker-archive:/opt/kube/images/$1.tar:$2"
  echo "$3" > "$IMAGES/$1.of"
}

program() { # name reference: a binary and nothing else
  of=$(sha256sum < "$KUBE_BIN/$1")
  current "$1" "$of" && return 0
  container=$(buildah from scratch)
  buildah copy -q "$container" "/opt/kube/bin/$1" "/$1" > /dev/null
  buildah config --entrypoint "[\"/$1\"]" "$container"
  buildah commit -q --rm "$container" "$2" > /dev/null
  store "$1" "$2" "$of"
}

base() { # the stand-in of python:3.11-slim, with the machine's certificates, by which pip reaches its index
  of="$(stat -c %Y "$ROOTS/python") $(sha256sum < /etc/ssl/certs/ca-certificates.crt)"
  [ "$(cat "$IMAGES/base.of" 2> /dev/null)" = "$of" ] && buildah inspect localhost/base > /dev/null 2>&1 && return 0
  container=$(buildah from scratch)
  buildah add -q "$container" /opt/kube/roots/python / > /dev/null
  buildah copy -q "$container" /opt/kube/shared/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt > /dev/null
  buildah run --isolation chroot "$container" ln -sf /usr/bin/python3 /usr/local/bin/python
  buildah commit -q --rm "$container" localhost/base > /dev/null
  echo "$of" > "$IMAGES/base.of"
}

project() { # node | router | loadtest
  of=$(cd "$REPOSITORY" && find pyproject.toml LICENSE README.md core store router node loadtest images -type f \
    -not -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | sha256sum)
  current "$1" "$of" && return 0
  buildah bud -q --isolation chroot --layers --pull=never --build-arg BASE=localhost/base \
    --build-arg "ROUTER=docker.io/framehold/router:local" -f "/opt/kube/repository/$1/Dockerfile" \
    -t "docker.io/framehold/$1:local" /opt/kube/repository > "$RUN/build-$1.log" 2>&1 || {
    tail -20 "$RUN/build-$1.log" >&2
    fail "the image of $1 was not built"
  }
  store "$1" "docker.io/framehold/$1:local" "$of"
}

store_image() { # Debian's Redis under the names of Valkey's programs
  of=$(stat -c %Y "$ROOTS/python")
  current store "$of" && return 0
  container=$(buildah from localhost/base)
  for name in server cli; do
    buildah run --isolation chroot "$container" ln -sf "/usr/bin/redis-$name" "/usr/local/bin/valkey-$name"
  done
  buildah commit -q --rm "$container" docker.io/valkey/valkey:local > /dev/null
  store store docker.io/valkey/valkey:local "$of"
}

envoy_image() { # a binary that needs a C library
  of="$(sha256sum < "$KUBE_BIN/envoy") $(cat "$IMAGES/base.of")"
  current envoy "$of" && return 0
  container=$(buildah from localhost/base)
  buildah copy -q "$container" /opt/kube/bin/envoy /usr/local/bin/envoy > /dev/null
  buildah config --entrypoint '["/usr/local/bin/envoy"]' "$container"
  buildah commit -q --rm "$container" localhost/envoy:1 > /dev/null
  store envoy localhost/envoy:1 "$of"
}

haproxy_image() { # Debian's HAProxy, with the stop signal of the official image
  of=$(stat -c %Y "$ROOTS/haproxy")
  current haproxy "$of" && return 0
  container=$(buildah from scratch)
  buildah add -q "$container" /opt/kube/roots/haproxy / > /dev/null
  buildah config --stop-signal SIGUSR1 "$container"
  buildah commit -q --rm "$container" docker.io/library/haproxy:local > /dev/null
  store haproxy docker.io/library/haproxy:local "$of"
}

"$HERE/machine.sh" start builder host-network
trap '"$HERE/machine.sh" stop builder; rm -rf "$RUN/builder"' EXIT
cat /etc/ssl/certs/ca-certificates.crt > "$RUN/shared/ca-certificates.crt"
program pause localhost/pause:1
program coredns localhost/coredns:1
program metrics-server localhost/metrics-server:1
program contour localhost/contour:1
base
store_image
envoy_image
haproxy_image
project router
project node
project loadtest
