#!/bin/sh
# Makes sure that the system packages which the tests start are here: installs them where it may (root and apt-get),
# otherwise prints the one line that does and exits 2.
set -eu

command -v redis-server >/dev/null 2>&1 && exit 0

packages="redis-server"
install="apt-get install -y --no-install-recommends $packages"
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    echo "installing $packages" >&2
    apt-get update -qq && $install -qq >/dev/null && command -v redis-server >/dev/null 2>&1 && exit 0
    echo "redis-server is needed and could not be installed; run: apt-get update && $install" >&2
elif command -v apt-get >/dev/null 2>&1; then
    echo "redis-server is needed; run: sudo apt-get update && sudo $install" >&2
elif command -v brew >/dev/null 2>&1; then
    echo "redis-server is needed; run: brew install redis" >&2
else
    echo "redis-server is needed; install Redis with your system's package manager, so that redis-server is on PATH" >&2
fi
exit 2
