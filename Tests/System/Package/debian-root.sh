# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# An empty Debian in a temporary directory, for the tests in this directory, which source this file:
#   . debian-root.sh; in_namespaces "$@"; make_root [PACKAGE,...]; boot_root
# Needs root, debootstrap and a Debian mirror: the one that this machine uses. All mounts, processes and files are
# removed when the test ends, also if it fails.
# The functions set: work, a directory for the test; root, the Debian; container, the pid of systemd-nspawn if it runs.

# shellcheck source-path=SCRIPTDIR source=checks.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/checks.sh"

# Restarts the test in namespaces of its own, so that its mounts and processes end with it.
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
    # A network namespace with only a loopback device: a node that runs on this machine does not interfere.
    unshare --net -- sh -c 'ip link set lo up && exec sleep infinity' &
    network=$!
    trap 'end_container; kill $network 2>/dev/null || true; remove_work' EXIT
    # The first process of a pid namespace ignores these signals unless it has a handler.
    trap 'exit 130' INT TERM
    trap 'echo "$0: line $LINENO: $BASH_COMMAND failed" >&2' ERR
}

# Removes the directory of the test, but nothing that is mounted in it: a bind mount is on the same file system.
remove_work() {
    local mount
    while read -r mount; do umount "$mount"; done < <(awk -v work="$work/" 'index($5, work) == 1 { print $5 }' /proc/self/mountinfo | sort -r)
    if grep -qF " $work/" /proc/self/mountinfo; then
        echo "$0: something is still mounted in $work, which stays" >&2
        return 1
    fi
    rm -rf --one-file-system "$work"
}

# in_network COMMAND ...: runs the command in that network namespace.
in_network() { nsenter -t "$network" -n -- "$@"; }

# make_root [PACKAGE,... [RELEASE]]: installs a minimal Debian and these packages: this machine's release, or another one.
make_root() {
    local own release mirror
    own=$(. /etc/os-release && echo "$VERSION_CODENAME")
    release=${2:-$own}
    # shellcheck disable=SC2016 # apt's own variables
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 2>/dev/null |
        awk -v release="$own" '$2 == release && /debian/ { print $1; exit }')
    [ -n "$mirror" ] || { echo "$0: apt knows no mirror of $own; run apt-get update" >&2; exit 77; }
    debootstrap --variant=minbase ${1:+"--include=$1"} "$release" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 || {
        tail -5 "$work/debootstrap.log" "$root/debootstrap/debootstrap.log" >&2 || true
        exit 1
    }
}

# Boots the Debian in a network namespace of its own, where all ports are free. Fails if it cannot boot.
boot_root() {
    command -v systemd-nspawn >/dev/null || return 1
    # bpf: for IPAddressDeny= of units.
    systemd-nspawn --quiet --boot --register=no --system-call-filter=bpf --keep-unit --private-network --console=pipe \
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
        # Kills its first process, and all others with it: no orderly shutdown is needed.
        kill -KILL "$(leader)" 2>/dev/null || true
        wait "$container" 2>/dev/null || true
        container=
    fi
}
