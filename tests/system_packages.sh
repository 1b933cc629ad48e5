#!/bin/sh
# Makes sure that the programs of the system which a set of tests starts are here: test (redis-server; haproxy as a data
# plane), load (redis-server), npm, chart (promtool for the alert rules), browser (chromium), firefox, day (a firewall,
# and a clock that is wrong). Other sets need none. It installs them where it may (root and apt-get). Otherwise it prints
# the one line that does, and exits with 2.
set -eu

case ${1:?the name of a set} in
    test) programs="redis-server haproxy" ;;
    load) programs=redis-server ;;
    npm) programs=npm ;;
    chart) programs=promtool ;;
    browser) programs=chromium ;;
    firefox) programs=firefox ;;
    day) programs="iptables faketime" ;;
    *) exit 0 ;;
esac

missing=""
for program in $programs; do
    # A program's name is its Debian package's name, but for two.
    case $program in
        promtool) package=prometheus ;;
        firefox) package=firefox-esr ;;
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
    # Homebrew's names of redis-server and firefox-esr.
    echo "needed:$missing; run: brew install$(echo "$missing" | sed 's/redis-server/redis/; s/firefox-esr/firefox/')" >&2
else
    echo "needed on PATH:$missing; install these with your system's package manager" >&2
fi
exit 2
