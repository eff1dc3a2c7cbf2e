// SPDX-License-Identifier: Apache-2.0
// Stands in for tor, whose program the node starts, so it is confined as the node is. Tries what an attacker would who has
// taken over the node, and writes what came of each attempt to DIRECTORY/attempts, a line each: NAME OK, or NAME ERRNO.
// The first argument is --version, or the arguments are those of tor: ... -f DIRECTORY/torrc ...
// DIRECTORY/../targets has a line for each file to read: NAME PATH.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *attempts;

static void note(const char *name, long result) {
    if (result >= 0) fprintf(attempts, "%s OK\n", name);
    else fprintf(attempts, "%s %s\n", name, strerrorname_np(errno));
    fflush(attempts);
}

static void try_reading(const char *name, const char *path) {
    char bytes[16];
    int file = open(path, O_RDONLY);
    ssize_t count = file < 0 ? -1 : read(file, bytes, sizeof bytes);
    if (count == 0) {
        count = -1;
        errno = ENODATA;
    }
    note(name, count);
    if (file >= 0) close(file);
}

// This node's process whose command line has this second word, and a configuration beside the state directory; 0 if there
// is none.
static pid_t process(const char *word, const char *directory) {
    // Without /state/tor.
    size_t common = strlen(directory) - strlen("/state/tor");
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    pid_t found = 0;
    while (processes && !found && (entry = readdir(processes))) {
        char path[300], line[512] = "";
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        int file = open(path, O_RDONLY);
        if (file < 0) continue;
        ssize_t length = read(file, line, sizeof line - 1);
        close(file);
        size_t first = strlen(line) + 1;
        size_t second = first + strlen(word) + 1;
        if (length > (ssize_t)(second + common) && strcmp(line + first, word) == 0
            && strncmp(line + second, directory, common) == 0)
            found = atoi(entry->d_name);
    }
    if (processes) closedir(processes);
    return found;
}

static void attack_process(pid_t holder) {
    char path[64], bytes[16];
    note("ptrace", ptrace(PTRACE_ATTACH, holder, NULL, NULL));
    struct iovec here = { bytes, sizeof bytes }, there = { (void *)0x400000, sizeof bytes };
    note("process_vm_readv", process_vm_readv(holder, &here, 1, &there, 1, 0));
    snprintf(path, sizeof path, "/proc/%d/mem", holder);
    try_reading("key_holder_memory", path);
    snprintf(path, sizeof path, "/proc/%d/environ", holder);
    try_reading("key_holder_environment", path);
    snprintf(path, sizeof path, "/proc/%d/fd/3", holder);
    try_reading("key_holder_descriptor", path);
    struct rlimit limit;
    note("limits_of_key_holder", prlimit(holder, RLIMIT_NOFILE, NULL, &limit));
    note("kill_key_holder", kill(holder, SIGKILL));
}

static void attack(const char *directory) {
    char path[4200], name[64], target[4096];
    snprintf(path, sizeof path, "%s/../targets", directory);
    FILE *targets = fopen(path, "r");
    while (targets && fscanf(targets, "%63s %4095[^\n]", name, target) == 2) try_reading(name, target);
    if (targets) fclose(targets);

    // Positive controls: what the node may do.
    snprintf(path, sizeof path, "%s/own", directory);
    note("write_state", open(path, O_WRONLY | O_CREAT, 0600));
    note("new_socket", socket(AF_INET, SOCK_STREAM, 0));

    snprintf(path, sizeof path, "%s/../../planted", directory);
    note("write_elsewhere", open(path, O_WRONLY | O_CREAT, 0600));

    pid_t holder = process("key-holder", directory);
    if (holder > 0) attack_process(holder);

    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = { "sh", "-c", "true", NULL };
        execv("/bin/sh", arguments);
        note("shell", -1);
        _exit(0);
    }
    waitpid(child, NULL, 0);

    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    address.sin_port = htons(45677);
    note("listen", bind(listener, (struct sockaddr *)&address, sizeof address));
    note("mount", mount("none", "/mnt", "tmpfs", 0, NULL));
    note("namespace", unshare(CLONE_NEWNET));
    long cloned = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, 0);
    if (cloned == 0) _exit(0);
    note("user_namespace", cloned);
    note("packet_socket", socket(AF_PACKET, SOCK_RAW, 0));
    note("bpf", syscall(SYS_bpf, 0, NULL, 0));
    note("keyctl", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 0));
    note("io_uring", syscall(SYS_io_uring_setup, 1, NULL));
    note("perf", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
    note("end", 0);
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "--version") == 0) {
        puts("Tor version 0.4.8.12.");
        return 0;
    }
    char directory[4096] = "";
    for (int index = 1; index + 1 < count; index++) {
        if (strcmp(arguments[index], "-f") == 0) snprintf(directory, sizeof directory, "%s", arguments[index + 1]);
    }
    char *slash = strrchr(directory, '/');
    // Asked for its modules, and the like.
    if (!slash) return 0;
    *slash = 0;
    char path[4200];
    snprintf(path, sizeof path, "%s/attempts", directory);
    attempts = fopen(path, "wx");
    if (!attempts) return 1;
    attack(directory);
    return 0;
}
