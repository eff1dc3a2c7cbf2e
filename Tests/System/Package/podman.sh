# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Containers in a temporary directory and in namespaces of the test's own, for the tests in this directory, which source this
# file: . podman.sh; in_namespaces "$@"; load_image IMAGE.tar
# Needs root, and Debian's podman, podman-compose, runc, netavark and aardvark-dns. What the test starts ends with it.
# The functions set: work, a directory for the test; image, the name of the loaded image.

# shellcheck source-path=SCRIPTDIR source=checks.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/checks.sh"

in_namespaces() {
    [ "$(id -u)" = 0 ] || { echo "$0: must be root, for namespaces" >&2; exit 77; }
    local tool
    for tool in podman podman-compose runc ip curl; do
        command -v $tool >/dev/null || { echo "$0: $tool is missing; run it with make" >&2; exit 77; }
    done
    if [ -z "${INSIDE_NAMESPACES:-}" ]; then
        INSIDE_NAMESPACES=1 exec unshare --mount --pid --net --uts --fork --kill-child --mount-proc "$0" "$@"
    fi
    ip link set lo up
    work=$(mktemp -d)
    # Leftovers of another test in /run would mislead podman.
    mount -t tmpfs tmpfs /run
    mkdir -p /run/lock
    # The kernel's limits are what this machine allows, also where root may not raise them.
    cat >"$work/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "$work/networks"
CONF
    cat >"$work/storage.conf" <<CONF
[storage]
driver = "vfs"
graphroot = "$work/storage"
runroot = "/run/containers/storage"
CONF
    export CONTAINERS_CONF=$work/containers.conf CONTAINERS_STORAGE_CONF=$work/storage.conf
    trap 'end_containers' EXIT
    trap 'exit 130' INT TERM
    trap 'echo "$0: line $LINENO: $BASH_COMMAND failed" >&2' ERR
}

end_containers() {
    podman rm --all --force --time 0 >/dev/null 2>&1 || true
    awk -v work="$work/" 'index($5, work) == 1 { print $5 }' /proc/self/mountinfo | sort -r | xargs -r umount
    rm -rf --one-file-system "$work"
}

# load_image IMAGE.tar
load_image() {
    image=$(podman load -q -i "$1" | sed -n 's/^Loaded image: *//p')
    [ -n "$image" ]
}

# The options of every container of a node: as in compose.yaml.
confined=(--read-only --read-only-tmpfs=false --cap-drop all --security-opt no-new-privileges)

# stand_ins DIRECTORY NETWORK ADDRESS: starts stand-ins for Apple, Google and the phones in a container with the name
# stand-ins, and sets phone, the pairing token of an iPhone with Bisq 1's app.
stand_ins() {
    install -d -m 700 -o 10001 -g 10001 "$1"
    podman run -d --name stand-ins "${confined[@]}" --network "$2" --ip "$3" -v "$1:/srv/stand-ins" "$image" \
        simulate --directory /srv/stand-ins --host "$3" >/dev/null
    soon phones_show '^  iOS|'
    phone=$(podman logs stand-ins 2>&1 | sed -n 's/^  \(iOS|.*\)/\1/p')
}
# phones_show PATTERN: whether the stand-ins have printed it.
phones_show() { podman logs stand-ins 2>&1 | grep "$1"; }
