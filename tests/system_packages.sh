#!/bin/sh
# Makes sure that the system packages which the tests start are here (redis-server; haproxy as a data plane; npm for
# the TypeScript client and the conformance suite; promtool for the alert rules; chromium and firefox for the dashboard; on Linux ip for the rehearsals of the chart): installs them where it may (root and apt-get), otherwise prints the one line that does and exits 2.
set -eu

missing=""
programs="redis-server haproxy npm promtool chromium firefox"
[ "$(uname)" != Linux ] || programs="$programs ip"
for program in $programs; do
    # A program's name is its Debian package's name, but for three.
    case $program in
        promtool) package=prometheus ;;
        firefox) package=firefox-esr ;;
        ip) package=iproute2 ;;
        *) package=$program ;;
    esac
    PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null 2>&1 || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends$missing"
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    echo "installing$missing" >&2
    apt-get update -qq && $install -qq >/dev/null && exit 0
    echo "needed, and could not be installed:$missing; run: apt-get update && $install" >&2
elif command -v apt-get >/dev/null 2>&1; then
    echo "needed:$missing; run: sudo apt-get update && sudo $install" >&2
elif command -v brew >/dev/null 2>&1; then
    echo "needed:$missing; run: brew install redis haproxy node prometheus chromium firefox" >&2
else
    echo "needed on PATH:$missing; install Redis, HAProxy, Node.js, Prometheus, Chromium and Firefox with your system's package manager" >&2
fi
exit 2
