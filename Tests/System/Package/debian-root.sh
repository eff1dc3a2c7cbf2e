# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# An empty Debian in a directory of its own, for the tests of this directory, which source this file:
#   . debian-root.sh; in_namespaces "$@"; make_root [PACKAGE,...]; boot_root
# Needs root, debootstrap and a Debian mirror, which is the one that this machine installs from. What was mounted, started
# and written is gone when the test ends, however it ends.
# They set: work, a directory for the test itself; root, the Debian; container, the pid of systemd-nspawn, if it runs.

# Starts the test again where its mounts and processes end with it.
in_namespaces() {
    [ "$(id -u)" = 0 ] || { echo "$0: must be root, for debootstrap and chroot" >&2; exit 77; }
    local tool
    for tool in debootstrap unshare nsenter pgrep systemd-analyze ip; do
        command -v "$tool" >/dev/null ||
            { echo "$0: $tool is missing; apt-get install debootstrap systemd procps iproute2" >&2; exit 77; }
    done
    if [ -z "${INSIDE_NAMESPACES:-}" ]; then
        INSIDE_NAMESPACES=1 exec unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@"
    fi
    work=$(mktemp -d)
    root=$work/root
    container=
    # A network with nothing but its own loopback: a node that runs on this machine is in nobody's way.
    unshare --net -- sh -c 'ip link set lo up && exec sleep infinity' &
    network=$!
    trap 'end_container; kill $network 2>/dev/null || true; umount -R "$root/proc" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
    # As the first process of its namespace it would not hear these otherwise.
    trap 'exit 130' INT TERM
    trap 'echo "$0: line $LINENO: $BASH_COMMAND has failed" >&2' ERR
}

# in_network COMMAND ...: runs it in that network.
in_network() { nsenter -t "$network" -n -- "$@"; }

# make_root [PACKAGE,...]: the least that Debian can be, and these packages.
make_root() {
    local release mirror
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    # shellcheck disable=SC2016 # apt's own variables
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 2>/dev/null |
        awk -v release="$release" '$2 == release && /debian/ { print $1; exit }')
    [ -n "$mirror" ] || { echo "$0: apt knows no mirror of $release; run apt-get update" >&2; exit 77; }
    debootstrap --variant=minbase ${1:+"--include=$1"} "$release" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 || {
        tail -5 "$work/debootstrap.log" "$root/debootstrap/debootstrap.log" >&2 || true
        exit 1
    }
}

# In a network of its own: what a test does there needs no other, and the ports are free. Fails where it cannot boot.
boot_root() {
    command -v systemd-nspawn >/dev/null || return 1
    systemd-nspawn --quiet --boot --register=no --keep-unit --private-network --console=pipe \
        -D "$root" </dev/null >"$work/nspawn.log" 2>&1 &
    container=$!
    soon is_booted
}
# The container's first process.
leader() { pgrep -P "${container:-0}" | head -1; }
in_container() { nsenter -t "$(leader)" -m -u -i -n -p -- env DEBIAN_FRONTEND=noninteractive "$@"; }
is_booted() {
    [ -n "$(leader)" ] && in_container systemctl is-system-running 2>/dev/null | grep -q 'running\|degraded'
}
end_container() {
    if [ -n "$container" ]; then
        # Its first process, and all others with it: nobody waits for an orderly end.
        kill -KILL "$(leader)" 2>/dev/null || true
        wait "$container" 2>/dev/null || true
        container=
    fi
}

# Tries for some seconds.
soon() {
    local tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 150 ] || return 1
        sleep 0.2
    done
}
