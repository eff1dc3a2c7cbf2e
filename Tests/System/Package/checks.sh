# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests in this directory say and check. They set work, a directory for the test.

passed=0

say() { printf '\n== %s\n' "$*"; }
# check RULE COMMAND ...: the rule holds if the command succeeds.
check() {
    local rule=$1
    shift
    if "$@" >"$work/check.log" 2>&1; then
        printf 'ok    %s\n' "$rule"
        passed=$((passed + 1))
    else
        printf 'FAILED %s\n      %s\n' "$rule" "$*"
        sed 's/^/      | /' "$work/check.log"
        printf '\n%d passed, 1 failed\n' "$passed"
        exit 1
    fi
}
not() { ! "$@"; }
# lacks PATTERN COMMAND ...: whether the command succeeds, prints something, and nothing of it matches.
lacks() {
    local pattern=$1 output
    shift
    output=$("$@" 2>&1) || { echo "$* failed: $output"; return 1; }
    [ -n "$output" ] || { echo "$* printed nothing"; return 1; }
    ! grep -E -- "$pattern" <<<"$output"
}
is() { [ "$1" = "$2" ] || { echo "is '$1', not '$2'"; return 1; }; }

# soon COMMAND ...: retries the command for about 30 s.
soon() { retry 150 "$@"; }
# eventually COMMAND ...: retries it for about two minutes.
eventually() { retry 600 "$@"; }
retry() {
    local tries=$1
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.2
    done
}
