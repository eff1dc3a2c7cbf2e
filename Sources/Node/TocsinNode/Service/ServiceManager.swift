// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import Time

/// The service manager that started this process and expects notifications: systemd with `Type=notify`.
package struct ServiceManager: Sendable {
    /// How often to send ``ServiceNotice/watchdog``: half the timeout after which the manager kills the process; `nil`
    /// if no watchdog is configured.
    package let watchdogInterval: Duration?
    private let address: sockaddr_un
    private let addressLength: socklen_t

    /// The variables of sd_notify(3) and sd_watchdog_enabled(3).
    private static let variables = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]
    /// Send timeout in seconds, after which a datagram is lost. Much shorter than any watchdog timeout.
    private static let sendTimeout: time_t = 1

    /// The service manager that environment variables name; `nil` if there is none, or its socket is neither a path nor
    /// `@` and a name.
    /// - Parameter process: this process's id; the watchdog may be meant for another process.
    init?(environment: [String: String], process: Int32) {
        guard let socket = environment["NOTIFY_SOCKET"].map({ Array($0.utf8) }) else { return nil }
        let isAbstract = socket.first == UInt8(ascii: "@")
        guard isAbstract || socket.first == UInt8(ascii: "/"), socket.count > 1 else { return nil }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        // A path ends with a zero byte; an abstract name starts with one, and the address length ends it.
        let needed = isAbstract ? socket.count : socket.count + 1
        guard needed <= MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { path in
            path.copyBytes(from: socket)
            if isAbstract { path[0] = 0 }
        }
        self.address = address
        addressLength = socklen_t(MemoryLayout.offset(of: \sockaddr_un.sun_path)! + needed)

        let watched = environment["WATCHDOG_PID"]
        let limit = environment["WATCHDOG_USEC"].flatMap { Int64($0) } ?? 0
        let isMeant = watched == nil || watched == "\(process)"
        watchdogInterval = isMeant && limit > 1 ? .microseconds(limit / 2) : nil
    }

    /// The manager of this process, if there is one. Removes its variables from the environment, so that no child
    /// process, such as tor, sends notifications in this process's name. Call before other threads exist.
    package static func ofThisProcess() -> ServiceManager? {
        var environment: [String: String] = [:]
        for name in variables {
            if let value = getenv(name) { environment[name] = String(cString: value) }
            unsetenv(name)
        }
        return ServiceManager(environment: environment, process: getpid())
    }

    /// Sends notices in one datagram. Waits for at most a second.
    /// - Returns: whether they were sent. The service can continue even if not.
    @discardableResult
    package func tell(_ notices: ServiceNotice...) -> Bool {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var limit = timeval(tv_sec: Self.sendTimeout, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let datagram = ServiceNotice.datagram(notices)
        return withUnsafeBytes(of: address) { bytes in
            let address = bytes.assumingMemoryBound(to: sockaddr.self).baseAddress
            // A signal may interrupt the call.
            for _ in 0..<8 {
                let sent = sendto(descriptor, datagram, datagram.count, Int32(MSG_NOSIGNAL), address, addressLength)
                if sent >= 0 || errno != EINTR { return sent == datagram.count }
            }
            return false
        }
    }

    /// Extends the start timeout every ``startInterval``, until the task is cancelled or ``maximumStart`` has passed:
    /// the node reads all of a large spool before it is ready. Does not run on the loop, which the start may block.
    @concurrent
    package func keepStarting() async {
        let deadline = MonotonicTime.now + Self.maximumStart
        while !Task.isCancelled, MonotonicTime.now < deadline {
            tell(.starting(within: Self.startInterval * 3))
            try? await Task.sleep(for: Self.startInterval)
        }
    }

    private static let startInterval = Duration.seconds(10)
    private static let maximumStart = Duration.seconds(1800)

    /// Sends watchdog notices from `loop` until the task is cancelled; returns at once if no watchdog is configured. If
    /// the loop hangs, the notices stop and the manager restarts the service.
    package func keepWatch(of loop: EventLoop) async {
        guard let watchdogInterval else { return }
        await LoopDomain(loop).run { domain in
            while !Task.isCancelled {
                tell(.watchdog)
                await domain.loop.sleep(for: watchdogInterval)
            }
        }
    }
}
