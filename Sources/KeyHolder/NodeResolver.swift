// SPDX-License-Identifier: Apache-2.0

import Confinement
import EventLoop
import Time

/// The node's side of its resolver. Starts another one when the files of the system's name service have changed, when one
/// has ended, and when one hangs. Loop only.
package final class NodeResolver: NameService {
    /// How long a lookup may take. The system asks each name server twice, for 5 seconds, unless resolv.conf says more.
    private static let longestLookup = Duration.seconds(60)
    /// How many answers are read before others have their turn: the resolver reads strangers' bytes, and is not trusted.
    private static let mostAnswers = 128

    private struct Lookup {
        let host: String
        let end: MonotonicTime
        let result: (NameAnswer) -> Void
    }

    /// A resolver that runs.
    private struct Connection {
        let socket: LocalSocket
        let reader: ReadableDescriptor
        /// The versions of the files at its start.
        let files: [FileVersion?]
    }

    private let supervisor: Supervisor
    private unowned let loop: EventLoop
    private var connection: Connection?
    private var lookups: [UInt64: Lookup] = [:]
    private var lastNumber: UInt64 = 0
    /// Fewer than the supervisor allows: it would refuse another resolver, and the present one would be lost.
    private var starts = UseLimit(burst: 8, perSecond: 0.1)

    package init(_ supervisor: Supervisor, on loop: EventLoop) {
        self.supervisor = supervisor
        self.loop = loop
    }

    package func lookUp(_ host: String, _ result: @escaping (NameAnswer) -> Void) {
        let now = MonotonicTime.now
        lastNumber += 1
        lookups[lastNumber] = Lookup(host: host, end: now + Self.longestLookup, result: result)
        if !restartIfNeeded(at: now), let connection { send(lastNumber, to: connection.socket) }
    }

    /// Ends lookups that take too long, and notices that the files have changed while some wait. Call this once a second.
    package func secondPassed(at now: MonotonicTime) {
        let late = lookups.filter { $0.value.end <= now }.keys.sorted()
        for number in late { answer(number, .failure("no answer in time", isUnknown: false)) }
        if !lookups.isEmpty {
            _ = restartIfNeeded(at: now, isHanging: !late.isEmpty)
        } else if !late.isEmpty {
            connection = nil
        }
    }

    /// Ends the resolver; what waits fails.
    package func end() {
        connection = nil
        fail("the node stops")
    }

    private static var files: [FileVersion?] { FileRules.nameServiceFiles.map { FileVersion(of: $0) } }

    /// Starts another resolver if there is none, or if the files have changed, and asks it for all that waits.
    /// - Parameter isHanging: whether threads of the present one take the places of other lookups.
    /// - Returns: whether all that waits has been asked for, or has failed.
    private func restartIfNeeded(at now: MonotonicTime, isHanging: Bool = false) -> Bool {
        // Before it opens them, so that a change in between is noticed.
        let files = Self.files
        if let connection, connection.files == files, !isHanging { return false }
        guard starts.take(at: now) else {
            if connection != nil { return false }
            fail("the node's resolver ends too often")
            return true
        }
        do throws(LocalSocket.Failure) {
            let socket = try supervisor.startResolver()
            connection = Connection(
                socket: socket,
                reader: ReadableDescriptor(socket.descriptor, on: loop) { [unowned self] in receive(from: socket) },
                files: files)
            for number in lookups.keys.sorted() { send(number, to: socket) }
        } catch {
            fail("the node's resolver cannot be started")
        }
        return true
    }

    private func send(_ number: UInt64, to socket: LocalSocket) {
        guard let lookup = lookups[number] else { return }
        do throws(LocalSocket.Failure) {
            try socket.send(ResolverRequest(number: number, host: lookup.host).encoded)
        } catch {
            // The reader notices if it has ended.
            answer(number, .failure("the node's resolver takes no more names", isUnknown: false))
        }
    }

    private func receive(from socket: LocalSocket) {
        do throws(LocalSocket.Failure) {
            for _ in 0..<Self.mostAnswers {
                guard let (bytes, passed) = try socket.receive(atMost: ResolverAnswer.largest + 1) else { return }
                if let passed { _ = LocalSocket(owning: passed) }
                guard passed == nil, let message = ResolverAnswer(decoding: bytes) else {
                    throw LocalSocket.Failure.malformed
                }
                answer(message.number, message.answer)
            }
        } catch {
            guard connection?.socket === socket else { return }
            connection = nil
            fail("the node's resolver has ended")
        }
    }

    private func answer(_ number: UInt64, _ answer: NameAnswer) {
        lookups.removeValue(forKey: number)?.result(answer)
    }

    private func fail(_ reason: String) {
        for number in lookups.keys.sorted() { answer(number, .failure(reason, isUnknown: false)) }
    }
}
