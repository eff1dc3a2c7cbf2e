// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import Time

/// The service manager that started this process, where it wants to hear of it: systemd with `Type=notify`.
package struct ServiceManager: Sendable {
    /// How often it wants to hear ``ServiceNotice/watchdog``: half the time after which it kills. Nil: not at all.
    package let watchdogInterval: Duration?
    private let address: sockaddr_un
    private let addressLength: socklen_t

    /// What sd_notify(3) and sd_watchdog_enabled(3) read.
    private static let variables = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]
    /// A datagram is lost when it cannot be handed over within this time. Much shorter than any watchdog's.
    private static let patience: time_t = 1

    /// What the environment says of a service manager.
    /// - Parameter process: this process's id; the watchdog may be meant for another.
    /// - Returns: nil where there is none, or its socket is named by what is neither a path nor `@` and a name.
    init?(environment: [String: String], process: Int32) {
        guard let socket = environment["NOTIFY_SOCKET"].map({ Array($0.utf8) }) else { return nil }
        let isAbstract = socket.first == UInt8(ascii: "@")
        guard isAbstract || socket.first == UInt8(ascii: "/"), socket.count > 1 else { return nil }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        // A path ends with a zero; an abstract name begins with one and ends with its length.
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

    /// The manager of this process, if it has one. Takes its variables out of the environment, so that no child (tor, for
    /// one) speaks in this process's name: call it before there are other threads.
    package static func ofThisProcess() -> ServiceManager? {
        var environment: [String: String] = [:]
        for name in variables {
            if let value = getenv(name) { environment[name] = String(cString: value) }
            unsetenv(name)
        }
        return ServiceManager(environment: environment, process: getpid())
    }

    /// Hands the notices over together. Waits a second at most.
    /// - Returns: whether the manager has got them. A service goes on where it has not.
    @discardableResult
    package func tell(_ notices: ServiceNotice...) -> Bool {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var limit = timeval(tv_sec: Self.patience, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let datagram = ServiceNotice.datagram(notices)
        return withUnsafeBytes(of: address) { bytes in
            let address = bytes.assumingMemoryBound(to: sockaddr.self).baseAddress
            // A signal may come in between, but not for ever.
            for _ in 0..<8 {
                let sent = sendto(
                    descriptor, datagram, datagram.count, Int32(MSG_NOSIGNAL), address, addressLength)
                if sent >= 0 || errno != EINTR { return sent == datagram.count }
            }
            return false
        }
    }

    /// Tells it again and again that the start goes on, until the task is cancelled or ``longestStart`` is over: a large spool
    /// is read through before the node is ready. Not on the loop, which the start may hold.
    @concurrent
    package func keepStarting() async {
        let deadline = MonotonicTime.now + Self.longestStart
        while !Task.isCancelled, MonotonicTime.now < deadline {
            tell(.starting(within: Self.startInterval * 3))
            try? await Task.sleep(for: Self.startInterval)
        }
    }

    private static let startInterval = Duration.seconds(10)
    private static let longestStart = Duration.seconds(1800)

    /// Tells it again and again that `loop` still turns, until the task is cancelled; where no watchdog is wanted, it
    /// returns at once. A loop that hangs says nothing, and the manager starts the service anew.
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
