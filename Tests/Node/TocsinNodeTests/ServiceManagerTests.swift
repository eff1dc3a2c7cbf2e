// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import TestSupport
import Testing

@testable import Time
@testable import TocsinNode

/// Environment variables of a watchdog with the resulting interval in microseconds; `nil` if there is none.
private let watchdogs: [([String: String], Int64?)] = [
    (["WATCHDOG_USEC": "30000000"], 15_000_000),
    (["WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "42"], 15_000_000),
    (["WATCHDOG_USEC": "3"], 1),
    (["WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "43"], nil),
    (["WATCHDOG_USEC": "30000000", "WATCHDOG_PID": ""], nil),
    (["WATCHDOG_USEC": "0"], nil),
    (["WATCHDOG_USEC": "-5"], nil),
    (["WATCHDOG_USEC": "1e9"], nil),
    (["WATCHDOG_USEC": "99999999999999999999"], nil),
    ([:], nil),
]

@Suite(.tags(.sockets)) struct ServiceManagerTests {
    // MARK: Datagrams

    @Test func `the notices of one call are lines of one datagram`() {
        #expect(text(.ready) == "READY=1")
        #expect(text(.watchdog) == "WATCHDOG=1")
        #expect(text(.ready, .status("3 routes")) == "READY=1\nSTATUS=3 routes")
    }

    @Test func `a reload states its start time in microseconds`() {
        let start = MonotonicTime(nanoseconds: 12_345_678_999)
        #expect(text(.reloading(since: start)) == "RELOADING=1\nMONOTONIC_USEC=12345678")
    }

    @Test func `a slow start extends its timeout`() {
        #expect(text(.starting(within: .seconds(30))) == "EXTEND_TIMEOUT_USEC=30000000")
    }

    @Test func `a stop states its timeout`() {
        #expect(text(.stopping(within: .seconds(30))) == "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000")
        #expect(text(.stopping(within: .zero)) == "STOPPING=1\nEXTEND_TIMEOUT_USEC=0")
    }

    @Test func `a status cannot contain another notice`() {
        #expect(text(.status("a\nREADY=1\r\0\u{85}b")) == "STATUS=a READY=1   b")
    }

    @Test func `a long status is cut between characters`() {
        let line = text(.status(String(repeating: "é", count: 1000)))
        #expect(line == "STATUS=" + String(repeating: "é", count: ServiceNotice.maximumStatus / 2))
        #expect(text(.status("x" + String(repeating: "é", count: 1000))).utf8.count == 7 + 255)
    }

    // MARK: Environment

    @Test(arguments: ["", "/", "@", "relative/notify", "vsock:2:1234", "/" + String(repeating: "x", count: 107)])
    func `an invalid socket name means no manager`(_ socket: String) {
        #expect(findManager(["NOTIFY_SOCKET": socket]) == nil)
    }

    @Test func `no NOTIFY_SOCKET means no manager`() {
        #expect(findManager([:]) == nil)
        #expect(findManager(["WATCHDOG_USEC": "1000000"]) == nil)
    }

    @Test(arguments: watchdogs)
    func `the watchdog interval is half of WATCHDOG_USEC, for the named process only`(
        _ variables: [String: String], _ microseconds: Int64?
    ) {
        let environment = variables.merging(["NOTIFY_SOCKET": "@x"]) { $1 }
        #expect(findManager(environment)?.watchdogInterval == microseconds.map { .microseconds($0) })
    }

    // MARK: Socket

    @Test(arguments: [false, true])
    func `the manager receives each notice`(_ isAbstract: Bool) throws {
        let socket = try NotifySocket(isAbstract: isAbstract)
        let manager = try #require(findManager(["NOTIFY_SOCKET": socket.name]))
        #expect(manager.tell(.ready, .status("listening")))
        #expect(manager.tell(.stopping(within: .seconds(1))))
        #expect(socket.receive() == "READY=1\nSTATUS=listening")
        #expect(socket.receive() == "STOPPING=1\nEXTEND_TIMEOUT_USEC=1000000")
    }

    @Test func `the longest socket names work`() throws {
        for isAbstract in [false, true] {
            let socket = try NotifySocket(isAbstract: isAbstract, length: 107)
            let manager = try #require(findManager(["NOTIFY_SOCKET": socket.name]))
            #expect(manager.tell(.watchdog))
            #expect(socket.receive() == "WATCHDOG=1")
        }
        // An abstract name has no terminating zero.
        let longest = try NotifySocket(isAbstract: true, length: 108)
        #expect(findManager(["NOTIFY_SOCKET": longest.name])?.tell(.watchdog) == true)
    }

    @Test func `a missing manager does not block`() throws {
        let name = try NotifySocket(isAbstract: false).name
        #expect(findManager(["NOTIFY_SOCKET": name])?.tell(.ready) == false)
    }

    @Test func `a manager that does not read does not block`() throws {
        let socket = try NotifySocket(isAbstract: true)
        let manager = try #require(findManager(["NOTIFY_SOCKET": socket.name]))
        // The kernel queues net.unix.max_dgram_qlen datagrams: 10 by default, 512 as set by systemd.
        #expect((0..<100_000).contains { _ in !manager.tell(.watchdog) })
        #expect(socket.receive() == "WATCHDOG=1")
    }

    @Test func `child processes do not inherit the manager's variables`() async {
        // Runs in a child process, because the environment belongs to the whole process.
        await #expect(processExitsWith: .success) {
            let socket = try NotifySocket(isAbstract: true)
            setenv("NOTIFY_SOCKET", socket.name, 1)
            setenv("WATCHDOG_USEC", "2000000", 1)
            setenv("WATCHDOG_PID", "\(getpid())", 1)
            let manager = try #require(ServiceManager.ofThisProcess())
            #expect(manager.watchdogInterval == .seconds(1))
            #expect(manager.tell(.ready))
            #expect(socket.receive() == "READY=1")
            for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] { #expect(getenv(name) == nil) }
            #expect(ServiceManager.ofThisProcess() == nil)
        }
    }

    // MARK: Watchdog

    @Test func `a running loop notifies the watchdog until it is cancelled`() async throws {
        let socket = try NotifySocket(isAbstract: true)
        let manager = try #require(findManager(["NOTIFY_SOCKET": socket.name, "WATCHDOG_USEC": "20000"]))
        let watch = Task { await manager.keepWatch(of: EventLoop(name: "watchdog")) }
        for _ in 0..<3 { #expect(socket.receive() == "WATCHDOG=1") }
        watch.cancel()
        await watch.value
    }

    @Test func `a blocked loop does not notify the watchdog`() async throws {
        let socket = try NotifySocket(isAbstract: true)
        let manager = try #require(findManager(["NOTIFY_SOCKET": socket.name, "WATCHDOG_USEC": "20000"]))
        let loop = EventLoop(name: "watchdog")
        let watch = Task { await manager.keepWatch(of: loop) }
        #expect(socket.receive() == "WATCHDOG=1")
        let notice = await LoopDomain(loop).run { _ in
            // Discards notices sent before the loop was blocked.
            while socket.receive(wait: .zero) != nil {}
            return socket.receive(wait: .milliseconds(200))
        }
        #expect(notice == nil)
        #expect(socket.receive() == "WATCHDOG=1")
        watch.cancel()
        await watch.value
    }

    @Test func `without a watchdog interval nothing is sent`() async throws {
        let socket = try NotifySocket(isAbstract: true)
        let manager = try #require(findManager(["NOTIFY_SOCKET": socket.name]))
        await manager.keepWatch(of: EventLoop(name: "watchdog"))
        #expect(socket.receive(wait: .zero) == nil)
    }

    private func text(_ notices: ServiceNotice...) -> String {
        String(decoding: ServiceNotice.datagram(notices), as: UTF8.self)
    }

    private func findManager(_ environment: [String: String]) -> ServiceManager? {
        ServiceManager(environment: environment, process: 42)
    }
}

/// The socket of a service manager.
private final class NotifySocket: Sendable {
    /// The value for `NOTIFY_SOCKET`.
    let name: String
    private let descriptor: Int32

    struct Failure: Error {}

    /// - Parameter length: of the name in bytes, including the first character.
    init(isAbstract: Bool, length: Int = 40) throws {
        let start = "\(isAbstract ? "@" : "/tmp/")notify-\(getpid())-\(UInt32.random(in: 0 ... .max))-"
        name = start + String(repeating: "x", count: length - start.utf8.count)
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { path in
            path.copyBytes(from: name.utf8)
            if isAbstract { path[0] = 0 }
        }
        let size = socklen_t(2 + length + (isAbstract ? 0 : 1))
        let result = withUnsafeBytes(of: &address) {
            bind(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, size)
        }
        guard result == 0 else { throw Failure() }
    }

    deinit {
        close(descriptor)
        if name.first == "/" { unlink(name) }
    }

    /// The next datagram; `nil` if none arrives in time.
    func receive(wait: Duration = .seconds(10)) -> String? {
        var watch = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&watch, 1, Int32(wait.milliseconds)) == 1 else { return nil }
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
    }
}
