#!/bin/sh
# Prints the path of a Python of a release, for example 3.13: the command python3.13, or pyenv's newest of that release.
set -eu
release=$1
for found in "$(command -v "python$release" || true)" "$(pyenv prefix "$(pyenv latest "$release" 2>/dev/null)" 2>/dev/null)/bin/python3"; do
    # A shim of pyenv is there even where its Python is not chosen, and fails.
    if [ "$("$found" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$release" ]; then
        echo "$found"
        exit 0
    fi
done
echo "python$release is not on this machine: install it, or let pyenv do so (pyenv install $release)" >&2
exit 2
