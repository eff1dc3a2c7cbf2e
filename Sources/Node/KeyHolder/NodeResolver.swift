// SPDX-License-Identifier: Apache-2.0

import Confinement
import EventLoop
import Time

/// The node's side of its resolver, as a ``ResolverState`` decides. Used on the loop only.
package final class NodeResolver: NameService {
    /// The largest number of answers read in one turn of the loop: the resolver reads strangers' bytes, and must not be
    /// able to hold up the loop.
    private static let maximumAnswers = 128

    private let supervisor: Supervisor
    private unowned let loop: EventLoop
    private var state = ResolverState<[FileVersion?]>()
    private var results: [UInt64: (NameAnswer) -> Void] = [:]
    private var connection: (socket: LocalSocket, reader: EventWatch)?

    package init(_ supervisor: Supervisor, on loop: EventLoop) {
        self.supervisor = supervisor
        self.loop = loop
    }

    package func lookUp(_ host: String, _ result: @escaping (NameAnswer) -> Void) {
        let (number, actions) = state.lookUp(host, files: Self.files, at: .now)
        results[number] = result
        perform(actions)
    }

    /// Ends lookups that take too long, and notices that the system's files have changed while some wait. Call this once a
    /// second.
    package func secondPassed(at now: MonotonicTime) { perform(state.secondPassed(files: Self.files, at: now)) }

    /// Stops the resolver; what waits fails.
    package func stop() {
        connection = nil
        perform(state.ended("the node stops"))
    }

    private static var files: [FileVersion?] { FileRules.nameServiceFiles.map { FileVersion(of: $0) } }

    private func perform(_ actions: [ResolverState<[FileVersion?]>.Action]) {
        for action in actions {
            switch action {
            case .start: start()
            case .send(let number, let host): send(ResolverRequest(number: number, host: host))
            case .answer(let number, let answer): results.removeValue(forKey: number)?(answer)
            case .end: connection = nil
            }
        }
    }

    private func start() {
        do throws(LocalSocket.Failure) {
            let socket = try supervisor.startResolver()
            let reader = EventWatch(readable: socket.descriptor, on: loop) { [unowned self] in receive(from: socket) }
            connection = (socket, reader)
            perform(state.started())
        } catch {
            connection = nil
            perform(state.ended("the node's resolver cannot be started"))
        }
    }

    private func send(_ request: ResolverRequest) {
        do throws(LocalSocket.Failure) {
            try connection?.socket.send(request.encoded)
        } catch {
            // The reader notices if the resolver has ended.
            let full = NameAnswer.failure("the node's resolver takes no more names", isUnknown: false)
            perform(state.answered(request.number, full))
        }
    }

    private func receive(from socket: LocalSocket) {
        do throws(LocalSocket.Failure) {
            for _ in 0..<Self.maximumAnswers {
                guard let (bytes, passed) = try socket.receive(atMost: ResolverAnswer.maximumBytes + 1) else { return }
                if let passed { _ = LocalSocket(owning: passed) }
                guard passed == nil, let message = ResolverAnswer(decoding: bytes) else {
                    throw LocalSocket.Failure.malformed
                }
                perform(state.answered(message.number, message.answer))
            }
        } catch {
            guard connection?.socket === socket else { return }
            connection = nil
            perform(state.ended("the node's resolver has ended"))
        }
    }
}
