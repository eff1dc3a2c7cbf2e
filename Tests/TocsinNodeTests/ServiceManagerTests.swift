// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import Testing

@testable import Time
@testable import TocsinNode

/// What the environment says of a watchdog, and every how many microseconds it is to be fed.
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

@Suite struct ServiceManagerTests {
    // MARK: What is written

    @Test func `notices of one call are one datagram, a line each`() {
        #expect(text(.ready) == "READY=1")
        #expect(text(.watchdog) == "WATCHDOG=1")
        #expect(text(.ready, .status("3 routes")) == "READY=1\nSTATUS=3 routes")
    }

    @Test func `a reload says since when, in microseconds`() {
        let start = MonotonicTime(nanoseconds: 12_345_678_999)
        #expect(text(.reloading(since: start)) == "RELOADING=1\nMONOTONIC_USEC=12345678")
    }

    @Test func `a start that takes long says how much longer`() {
        #expect(text(.starting(within: .seconds(30))) == "EXTEND_TIMEOUT_USEC=30000000")
    }

    @Test func `a stop says how long it may take`() {
        #expect(text(.stopping(within: .seconds(30))) == "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000")
        #expect(text(.stopping(within: .zero)) == "STOPPING=1\nEXTEND_TIMEOUT_USEC=0")
    }

    @Test func `a status cannot say anything else`() {
        #expect(text(.status("a\nREADY=1\r\0\u{85}b")) == "STATUS=a READY=1   b")
    }

    @Test func `a status is cut between characters`() {
        let line = text(.status(String(repeating: "é", count: 1000)))
        #expect(line == "STATUS=" + String(repeating: "é", count: ServiceNotice.longestStatus / 2))
        #expect(text(.status("x" + String(repeating: "é", count: 1000))).utf8.count == 7 + 255)
    }

    // MARK: Who listens

    @Test(arguments: ["", "/", "@", "relative/notify", "vsock:2:1234", "/" + String(repeating: "x", count: 107)])
    func `what names no socket is no manager`(_ socket: String) {
        #expect(findManager(["NOTIFY_SOCKET": socket]) == nil)
    }

    @Test func `who is not asked to notify has no manager`() {
        #expect(findManager([:]) == nil)
        #expect(findManager(["WATCHDOG_USEC": "1000000"]) == nil)
    }

    @Test(arguments: watchdogs)
    func `the watchdog is fed twice in its time, by the process that it watches`(
        _ variables: [String: String], _ microseconds: Int64?
    ) {
        let environment = variables.merging(["NOTIFY_SOCKET": "@x"]) { $1 }
        #expect(findManager(environment)?.watchdogInterval == microseconds.map { .microseconds($0) })
    }

    // MARK: On a socket

    @Test(arguments: [false, true])
    func `the manager gets what it is told`(_ isAbstract: Bool) throws {
        let socket = try NotifySocket(isAbstract: isAbstract)
        let manager = try #require(findManager(["NOTIFY_SOCKET": socket.name]))
        #expect(manager.tell(.ready, .status("listening")))
        #expect(manager.tell(.stopping(within: .seconds(1))))
        #expect(socket.receive() == "READY=1\nSTATUS=listening")
        #expect(socket.receive() == "STOPPING=1\nEXTEND_TIMEOUT_USEC=1000000")
    }

    @Test func `the longest names fit`() throws {
        for isAbstract in [false, true] {
            let socket = try NotifySocket(isAbstract: isAbstract, length: 107)
            let manager = try #require(findManager(["NOTIFY_SOCKET": socket.name]))
            #expect(manager.tell(.watchdog))
            #expect(socket.receive() == "WATCHDOG=1")
        }
        // An abstract name has no zero at its end.
        let longest = try NotifySocket(isAbstract: true, length: 108)
        #expect(findManager(["NOTIFY_SOCKET": longest.name])?.tell(.watchdog) == true)
    }

    @Test func `a manager that is gone holds nobody up`() throws {
        let name = try NotifySocket(isAbstract: false).name
        #expect(findManager(["NOTIFY_SOCKET": name])?.tell(.ready) == false)
    }

    @Test func `a manager that does not read holds nobody up`() throws {
        let socket = try NotifySocket(isAbstract: true)
        let manager = try #require(findManager(["NOTIFY_SOCKET": socket.name]))
        // The kernel keeps net.unix.max_dgram_qlen of them: 10, or what systemd sets, 512.
        #expect((0..<100_000).contains { _ in !manager.tell(.watchdog) })
        #expect(socket.receive() == "WATCHDOG=1")
    }

    @Test func `children do not speak in the process's name`() async {
        // In a process of its own: the environment is everybody's.
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

    @Test func `a loop that turns feeds the watchdog until it is told to end`() async throws {
        let socket = try NotifySocket(isAbstract: true)
        let manager = try #require(findManager(["NOTIFY_SOCKET": socket.name, "WATCHDOG_USEC": "20000"]))
        let watch = Task { await manager.keepWatch(of: EventLoop(name: "watchdog")) }
        for _ in 0..<3 { #expect(socket.receive() == "WATCHDOG=1") }
        watch.cancel()
        await watch.value
    }

    @Test func `a loop that hangs does not feed it`() async throws {
        let socket = try NotifySocket(isAbstract: true)
        let manager = try #require(findManager(["NOTIFY_SOCKET": socket.name, "WATCHDOG_USEC": "20000"]))
        let loop = EventLoop(name: "watchdog")
        let watch = Task { await manager.keepWatch(of: loop) }
        #expect(socket.receive() == "WATCHDOG=1")
        let fed = await LoopDomain(loop).run { _ in
            // What was said before the hang is not counted.
            while socket.receive(wait: .zero) != nil {}
            return socket.receive(wait: .milliseconds(200))
        }
        #expect(fed == nil)
        #expect(socket.receive() == "WATCHDOG=1")
        watch.cancel()
        await watch.value
    }

    @Test func `who wants no watchdog is not told`() async throws {
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

/// A service manager's end.
private final class NotifySocket: Sendable {
    /// As `NOTIFY_SOCKET` would say it.
    let name: String
    private let descriptor: Int32

    struct Failure: Error {}

    /// - Parameter length: of the name in bytes, its first character included.
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

    /// The next datagram; nil: none came within the time.
    func receive(wait: Duration = .seconds(10)) -> String? {
        var watch = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&watch, 1, Int32(wait.milliseconds)) == 1 else { return nil }
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
    }
}
