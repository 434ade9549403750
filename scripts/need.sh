#!/bin/sh
# Make sure that programs are there: installed through apt when we are root, else said plainly.
set -eu
PATH="$PATH:/usr/sbin:/sbin"
# A program, or the one thing here that is none: a plug-in of the SASL library that kcat uses.
have() {
    case "$1" in
        sasl-gssapi) find /usr/lib /usr/lib64 /usr/local/lib -name 'libgssapiv2.so*' 2>/dev/null | grep -q . ;;
        *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}
missing=""
for program in "$@"; do
    have "$program" && continue
    case "$program" in
        java) package=default-jre-headless ;;
        javac) package=default-jdk-headless ;;
        mvn) package=maven ;;
        krb5kdc) package=krb5-kdc ;;
        kadmin.local) package=krb5-admin-server ;;
        kinit) package=krb5-user ;;
        krb5-config) package=libkrb5-dev ;;
        python3-config) package=python3-dev ;;
        sasl-gssapi) package=libsasl2-modules-gssapi-mit ;;
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
