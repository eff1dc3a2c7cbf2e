// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import Testing

@testable import TNP

/// A node that a test drives step by step. It waits at most ten seconds for each step.
actor FakeNode {
    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private var listener: Listener?
    private var waiting: [ByteStream] = []
    private var reader: StreamReader?
    private var decoder = FrameDecoder(maximumLength: 65_536)

    struct NoMessage: Error {}

    init(on loop: EventLoop) { self.loop = loop }

    /// - Returns: the endpoint that it listens on.
    func start() throws -> Endpoint {
        let listener = try Listener(.tcp(host: "127.0.0.1", port: 0), on: loop) { [unowned self] stream in
            stream.pauseReading()
            waiting.append(stream)
        }
        self.listener = listener
        return listener.endpoint
    }

    func end() {
        reader?.stream.close()
        reader = nil
        listener?.close()
        listener = nil
    }

    /// Replaces the present connection with the next one and reads its HELLO.
    func accept() async throws {
        reader?.stream.close()
        for _ in 0..<6000 where waiting.isEmpty { await loop.sleep(for: .milliseconds(10)) }
        guard !waiting.isEmpty else { throw NoMessage() }
        reader = StreamReader(waiting.removeFirst())
        decoder = FrameDecoder(maximumLength: 65_536)
        guard case .hello = try await message() else { throw NoMessage() }
    }

    func send(_ write: @Sendable (inout [UInt8]) -> Void) {
        var output: [UInt8] = []
        write(&output)
        reader?.stream.write(output)
    }

    func welcome(_ puzzle: Puzzle) {
        send {
            $0.append(
                Welcome(
                    maximumFrame: 8192, maximumInFlight: 64, idleTimeout: 600, serverTime: 1_760_000_000_123,
                    puzzle: puzzle, routes: ["bisq/iOS"]))
        }
    }

    func answer(_ request: UInt32, _ outcome: Outcome) {
        send { $0.append(SubmissionResult(request: request, outcome: outcome)) }
    }

    /// Waits for the next submission.
    func submission() async throws -> Submission {
        guard case .submit(let fields) = try await message() else { throw NoMessage() }
        return try fields.checked(format: .pipe)
    }

    private func message() async throws -> Message {
        guard let reader else { throw NoMessage() }
        let timer = Timer(on: loop) { reader.stream.fail(.timedOut) }
        timer.start(after: .seconds(10))
        defer { timer.stop() }
        while true {
            if let frame = try decoder.next() { return try Message(frame) }
            decoder.append(try await reader.read(exactly: 1))
        }
    }
}
