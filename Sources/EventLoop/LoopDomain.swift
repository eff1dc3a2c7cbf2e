// SPDX-License-Identifier: Apache-2.0

/// A place on an event loop for code that belongs to no other actor of it.
package actor LoopDomain {
    /// The loop that this domain's code runs on.
    package nonisolated let loop: EventLoop

    /// A domain on `loop`.
    package init(_ loop: EventLoop) { self.loop = loop }

    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// Runs `body` on the loop.
    package func run<Result: Sendable>(
        _ body: @Sendable (isolated LoopDomain) async throws -> Result
    ) async rethrows -> Result {
        try await body(self)
    }
}
