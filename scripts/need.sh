#!/bin/sh
# Make sure that programs are there: installed through apt when we are root, else said plainly.
set -eu
missing=""
for program in "$@"; do
    command -v "$program" >/dev/null 2>&1 && continue
    case "$program" in
        java) package=default-jre-headless ;;
        javac) package=default-jdk-headless ;;
        mvn) package=maven ;;
        *) package="$program" ;;
    esac
    missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing$missing (needed here, and missing) ..."
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "Missing:$missing. Install it with your package manager (on Debian: sudo apt-get install$missing) and try again." >&2
    exit 1
fi
