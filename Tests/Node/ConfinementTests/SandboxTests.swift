// SPDX-License-Identifier: Apache-2.0

import CLinux
import Glibc
import TestSupport
import Testing

@testable import Confinement

/// The sandbox, each test in a process of its own, because it is for ever. Landlock confines the thread of the test.
@Suite(.tags(.sockets)) struct SandboxTests {
    /// Ends the process without the work that a leak sanitizer does at the end of a process: the sandbox forbids it.
    private static func leave() { _exit(0) }

    private static func execute(_ program: String) -> Int32 {
        var arguments: [UnsafeMutablePointer<CChar>?] = [nil]
        return execv(program, &arguments)
    }

    private static func readable(_ path: String) -> Bool {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        if file >= 0 { close(file) }
        return file >= 0
    }

    @Test func `files are readable, writable or neither, as the rules say`() async {
        await #expect(processExitsWith: .success) {
            // Not the pid alone: the sandbox forbids to remove what earlier processes left.
            let base = "/tmp/tocsin-rules-\(getpid())-\(UInt64.random(in: 0 ... .max))"
            for directory in [base, "\(base)/read", "\(base)/write"] { #expect(mkdir(directory, 0o700) == 0) }
            for file in ["\(base)/one", "\(base)/two", "\(base)/read/a"] { close(creat(file, 0o600)) }
            var rules = FileRules()
            rules.readable = ["\(base)/read", "\(base)/one", "\(base)/nothing"]
            rules.writable = ["\(base)/write"]
            let version = try? rules.apply()
            #expect(version == FileRules.version)
            guard FileRules.version > 0 else { return }
            #expect(Self.readable("\(base)/one") && Self.readable("\(base)/read/a"))
            #expect(!Self.readable("\(base)/two") && errno == EACCES)
            #expect(!Self.readable("/etc/passwd") && errno == EACCES)
            #expect(open("\(base)/one", O_WRONLY) < 0 && errno == EACCES)
            #expect(open("\(base)/read/b", O_WRONLY | O_CREAT, 0o600) < 0 && errno == EACCES)
            #expect(open("\(base)/write/b", O_RDWR | O_CREAT, 0o600) >= 0)
            #expect(rename("\(base)/write/b", "\(base)/write/c") == 0 && unlink("\(base)/write/c") == 0)
            #expect(unlink("\(base)/one") < 0 && errno == EACCES)
            Self.leave()
        }
    }

    @Test func `a refused system call fails, and an allowed one works`() async {
        await #expect(processExitsWith: .success) {
            #expect(throws: Never.self) { try SystemCallFilter.node(mayExecute: false).apply(.refuse) }
            #expect(clinux_prctl(PR_GET_DUMPABLE, 0) >= 0)
            #expect(mkdir("/tmp/tocsin-filter-\(getpid())-\(UInt64.random(in: 0 ... .max))", 0o700) == 0)
            #expect(chroot("/tmp") < 0 && errno == EPERM)
            // Types into the terminal (TIOCSTI), or would without the filter.
            var character: UInt8 = 32
            #expect(ioctl(STDIN_FILENO, 0x5412, &character) < 0 && errno == EPERM)
            // The kernel takes 32 bits of the request.
            for above in [1, 0xFFFF_FFFF] as [UInt] {
                #expect(ioctl(STDIN_FILENO, 0x5412 | above << 32, &character) < 0 && errno == EPERM)
                #expect(ioctl(STDIN_FILENO, 0x541C | above << 32, &character) < 0 && errno == EPERM)
            }
            #expect(ioctl(STDIN_FILENO, 0x5413, &character) >= 0 || errno != EPERM)
            #expect(ioctl(STDIN_FILENO, UInt(FIONREAD), &character) >= 0 || errno != EPERM)
            #expect(socket(AF_PACKET, Int32(SOCK_RAW.rawValue), 0) < 0 && errno == EPERM)
            let (stream, datagram) = (Int32(SOCK_STREAM.rawValue), Int32(SOCK_DGRAM.rawValue))
            for family in [AF_INET, AF_INET6] {
                #expect(socket(family, stream, 0) >= 0 && socket(family, stream | 0o2_000_000, 6) >= 0)
                // The resolver asks name servers, and not the node.
                #expect(socket(family, datagram, 0) < 0 && errno == EPERM)
                // MPTCP, to which Landlock's rules for TCP do not apply; ICMP; raw sockets.
                #expect(socket(family, stream, 262) < 0 && errno == EPERM)
                #expect(socket(family, datagram, 1) < 0 && errno == EPERM)
                #expect(socket(family, Int32(SOCK_RAW.rawValue), 1) < 0 && errno == EPERM)
            }
            #expect(socket(AF_UNIX, stream, 0) >= 0 && socket(AF_NETLINK, Int32(SOCK_RAW.rawValue), 0) >= 0)
            // The kernel's tables of processes' sockets, and its log of events.
            #expect(socket(AF_NETLINK, Int32(SOCK_RAW.rawValue), 4) < 0 && errno == EPERM)
            #expect(Self.execute("/bin/true") < 0 && errno == EPERM)
            Self.leave()
        }
    }

    @Test func `all but some numbers match exactly one comparison`() {
        let excluded: [UInt32] = [0x5412, 0x541C]
        let parts = SystemCallFilter.allBut(excluded)
        let samples = (0x5400..<0x5430).map(UInt32.init) + (0..<32).map { 1 << UInt32($0) } + [0, .max]
        for number in samples + excluded.map({ $0 | 1 << 31 }) {
            let count = parts.count { number & $0.mask == $0.value }
            #expect(count == (excluded.contains(number) ? 0 : 1))
        }
    }

    @Test func `a filter for tests ends the process`() async {
        await #expect(processExitsWith: .signal(SIGSYS)) {
            #expect(throws: Never.self) { try SystemCallFilter.node(mayExecute: true).apply(.kill) }
            _ = chroot("/tmp")
        }
    }

    @Test func `another process reads what was refused`() async {
        await #expect(processExitsWith: .success) {
            let confined = ConfinedThread()
            let descriptor = try #require(confined.start())
            #expect(RefusedCall.next(from: descriptor)?.name == "chroot")
            #expect(confined.finish() == EPERM)
            Self.leave()
        }
    }

    /// A thread that confines itself and makes a system call which is refused.
    private final class ConfinedThread: @unchecked Sendable {
        // Unchecked: the semaphore and the end of the thread order the accesses.
        private var thread = pthread_t()
        private let isConfined = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
        private var descriptor: Int32?
        private var error: Int32 = 0

        /// Starts the thread and waits until it is confined.
        func start() -> Int32? {
            sem_init(isConfined, 0, 0)
            let context = Unmanaged.passRetained(self).toOpaque()
            pthread_create(
                &thread, nil,
                { context in
                    let confined = Unmanaged<ConfinedThread>.fromOpaque(context!).takeRetainedValue()
                    confined.descriptor = try? SystemCallFilter.node(mayExecute: true).apply(.report)
                    sem_post(confined.isConfined)
                    confined.error = chroot("/tmp") < 0 ? errno : 0
                    return nil
                }, context)
            sem_wait(isConfined)
            return descriptor
        }

        /// Waits until the thread has ended.
        /// - Returns: the error of the system call.
        func finish() -> Int32 {
            pthread_join(thread, nil)
            return error
        }
    }

    @Test func `a key holder can neither open files nor sockets`() async {
        await #expect(processExitsWith: .success) {
            #expect(throws: Never.self) { try SystemCallFilter.keyHolder.apply(.refuse) }
            #expect(!Self.readable("/etc/passwd") && errno == EPERM)
            #expect(socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0) < 0 && errno == EPERM)
            #expect(write(STDERR_FILENO, "", 0) == 0)
            Self.leave()
        }
    }

    @Test func `capabilities are dropped, also for programs that are started`() async {
        await #expect(processExitsWith: .success) {
            guard geteuid() == 0 else { return }
            #expect(ProcessHardening.dropCapabilities())
            #expect(chroot("/tmp") < 0 && errno == EPERM)
            // CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER and CAP_NET_BIND_SERVICE.
            let kept = "CapEff:\t000000000000040b"
            var bytes = [UInt8](repeating: 0, count: 4096)
            let file = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC)
            let count = read(file, &bytes, bytes.count)
            #expect(String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).contains(kept))
            Self.leave()
        }
    }
}
