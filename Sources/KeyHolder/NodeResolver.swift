// SPDX-License-Identifier: Apache-2.0

import Confinement
import EventLoop
import Time

/// The node's side of its resolver. Starts another one when the files of the system's name service have changed, when one
/// has ended, and when one hangs. Loop only.
package final class NodeResolver: NameService {
    /// The system gives a name up before: 7 names with search domains, each asked twice of 3 name servers.
    private static let longestLookup = Duration.seconds(300)

    private struct Lookup {
        let host: String
        let start: MonotonicTime
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

    package init(_ supervisor: Supervisor, on loop: EventLoop) {
        self.supervisor = supervisor
        self.loop = loop
    }

    package func lookUp(_ host: String, _ result: @escaping (NameAnswer) -> Void) {
        let now = MonotonicTime.now
        lastNumber += 1
        let isHanging = lookups.values.contains { now - $0.start > Self.longestLookup }
        lookups[lastNumber] = Lookup(host: host, start: now, result: result)
        if let connection, connection.files == Self.files, !isHanging {
            send(lastNumber, to: connection.socket)
        } else {
            restart(at: now)
        }
    }

    private static var files: [FileVersion?] { FileRules.nameServiceFiles.map { FileVersion(of: $0) } }

    /// Starts another resolver, and asks it for all that the present one has not answered.
    private func restart(at now: MonotonicTime) {
        connection = nil
        // Before it opens them, so that a change in between is noticed.
        let files = Self.files
        do throws(LocalSocket.Failure) {
            let socket = try supervisor.startResolver()
            connection = Connection(
                socket: socket,
                reader: ReadableDescriptor(socket.descriptor, on: loop) { [unowned self] in receive(from: socket) },
                files: files)
            for (number, lookup) in lookups {
                lookups[number] = Lookup(host: lookup.host, start: now, result: lookup.result)
                send(number, to: socket)
            }
        } catch {
            fail("the node's resolver cannot be started")
        }
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
            while let (bytes, passed) = try socket.receive(atMost: ResolverAnswer.largest + 1) {
                if let passed { LocalSocket(owning: passed).end() }
                guard let message = ResolverAnswer(decoding: bytes) else { continue }
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
