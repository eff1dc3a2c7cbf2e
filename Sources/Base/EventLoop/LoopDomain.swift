// SPDX-License-Identifier: Apache-2.0

/// An actor on an event loop, for code that belongs to no other actor.
package actor LoopDomain {
    /// The loop that runs this actor's code.
    package nonisolated let loop: EventLoop

    package init(_ loop: EventLoop) { self.loop = loop }

    /// The loop, as this actor's executor.
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// Runs `body` on the loop.
    package func run<Result: Sendable>(
        _ body: @Sendable (isolated LoopDomain) async throws -> Result
    ) async rethrows -> Result {
        try await body(self)
    }
}
