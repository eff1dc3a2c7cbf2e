// SPDX-License-Identifier: Apache-2.0

import DequeModule
import EventLoop
import Time

/// Receives the replies to commands, on the connection's loop.
package protocol RedisReceiver: AnyObject {
    /// The reply to the command with this number, or why there is none. An error of the server is
    /// ``RedisError/refused(_:)``.
    func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>)
}

/// A connection to a Redis server. Commands are sent at the end of each turn of the loop, all in one write, and
/// answered in order. Each command gets exactly one reply or error. If a reply is late, the connection ends.
package final class RedisConnection: ByteStreamHandler, TurnEndHandler {
    /// Maximum number of commands that wait for their replies.
    package static let maximumWaiting = 16_384
    /// How long the server may take for a reply.
    package static let replyTimeout = Duration.seconds(2)

    private struct Waiting {
        let receiver: any RedisReceiver
        let number: UInt64
        let deadline: MonotonicTime
    }

    private let stream: ByteStream
    private let reader = ReplyReader()
    private var output: [UInt8] = []
    private var waiting: Deque<Waiting> = []
    private var isFlushPending = false
    private var timer: Timer?
    /// Why the connection has ended; `nil` before that.
    package private(set) var failure: RedisError?
    private var onEnd: ((RedisError) -> Void)?

    /// Takes over a stream that has just connected, and is paused.
    package init(_ stream: ByteStream) {
        self.stream = stream
        stream.handler = self
        timer = Timer(on: stream.loop) { [unowned self] in checkDeadline() }
        stream.resumeReading()
    }

    deinit { stream.close() }

    /// Calls `body` once when the connection has ended, after the errors of all commands that wait; at once if it has
    /// ended already.
    package func whenEnded(_ body: @escaping (RedisError) -> Void) {
        if let failure { body(failure) } else { onEnd = body }
    }

    /// The number of commands that wait for their replies.
    package var waitingCount: Int { waiting.count }

    /// Sends a command. Its receiver may learn of an error at once.
    package func send(_ command: RedisCommand, number: UInt64 = 0, for receiver: any RedisReceiver) {
        if let failure { return receiver.replied(number, .failure(failure)) }
        guard waiting.count < Self.maximumWaiting else { return receiver.replied(number, .failure(.tooManyWaiting)) }
        command.encode(into: &output)
        waiting.append(Waiting(receiver: receiver, number: number, deadline: .now + Self.replyTimeout))
        if waiting.count == 1 { timer?.start(after: Self.replyTimeout) }
        guard !isFlushPending else { return }
        isFlushPending = true
        stream.loop.atEndOfTurn(self)
    }

    /// Sends a command and waits for its reply.
    /// - Parameter time: how long the caller waits. If it is shorter than ``replyTimeout``, the connection stays open
    ///   when it has passed.
    /// - Throws: ``RedisError``.
    package func call(
        _ command: RedisCommand, within time: Duration = replyTimeout, isolation: isolated (any Actor)? = #isolation
    ) async throws(RedisError) -> RedisReply {
        let result = await withCheckedContinuation { continuation in
            let caller = Caller(continuation)
            if time < Self.replyTimeout { caller.wait(for: time, on: stream.loop) }
            send(command, for: caller)
        }
        return try result.get()
    }

    package func turnEnded() {
        isFlushPending = false
        guard failure == nil else { return }
        stream.write(output)
        output.removeAll(keepingCapacity: true)
    }

    // MARK: Replies

    package func stream(_ stream: ByteStream, received bytes: RawSpan) {
        do throws(RedisError) {
            try reader.append(bytes)
            while let reply = try reader.next() {
                guard let first = waiting.popFirst() else { throw .malformed("a reply without a command") }
                if case .error(let text) = reply {
                    first.receiver.replied(first.number, .failure(.refused(Self.withoutArguments(text))))
                } else {
                    first.receiver.replied(first.number, .success(reply))
                }
                // The receiver may have closed the connection.
                guard failure == nil else { return }
            }
        } catch {
            close(error)
        }
    }

    /// An error of the server without the command's arguments, which some errors repeat.
    private static func withoutArguments(_ text: String) -> String {
        String(text.split(separator: ", with args beginning", maxSplits: 1).first ?? "")
    }

    package func stream(_ stream: ByteStream, ended reason: StreamError) { close(.disconnected("\(reason)")) }

    /// Ends the connection if the oldest command has waited for too long.
    private func checkDeadline() {
        guard let oldest = waiting.first else { return }
        let rest = oldest.deadline - .now
        guard rest > .zero else { return close(.timedOut) }
        timer?.start(after: rest)
    }

    /// Closes the connection. Commands that wait get this error.
    package func close(_ error: RedisError) {
        guard failure == nil else { return }
        failure = error
        timer?.stop()
        stream.close()
        while let next = waiting.popFirst() { next.receiver.replied(next.number, .failure(error)) }
        onEnd?(error)
        onEnd = nil
    }

    /// Resumes the task that waits for one reply.
    private final class Caller: RedisReceiver {
        private var continuation: CheckedContinuation<Result<RedisReply, RedisError>, Never>?
        private var timer: Timer?

        init(_ continuation: CheckedContinuation<Result<RedisReply, RedisError>, Never>) {
            self.continuation = continuation
        }

        func wait(for time: Duration, on loop: EventLoop) {
            timer = Timer(on: loop, after: time) { [unowned self] in replied(0, .failure(.timedOut)) }
        }

        func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) {
            timer = nil
            continuation?.resume(returning: reply)
            continuation = nil
        }
    }
}
