// SPDX-License-Identifier: Apache-2.0

/// A place on an event loop for code that belongs to no other actor of it.
public actor LoopDomain {
    /// The loop that this domain's code runs on.
    public nonisolated let loop: EventLoop

    /// A domain on `loop`.
    public init(_ loop: EventLoop) { self.loop = loop }

    public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// Runs `body` on the loop.
    public func run<Result: Sendable>(
        _ body: @Sendable (isolated LoopDomain) async throws -> Result
    ) async rethrows -> Result {
        try await body(self)
    }
}
