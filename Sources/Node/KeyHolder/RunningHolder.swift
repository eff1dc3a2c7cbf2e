// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Starts key holders; for a node, through its supervisor.
package protocol HolderSource: AnyObject, Sendable {
    /// Starts a key holder, and waits until it has read the configuration and the keys. Call this before the loop runs.
    func startBlocking() throws(HolderProblem) -> any RunningHolder
    /// As ``startBlocking()``, without holding up the loop.
    /// - Parameter result: receives the key holder on the loop, at once or later.
    func start(on loop: EventLoop, _ result: @escaping @Sendable (Result<any RunningHolder, HolderProblem>) -> Void)
}

/// A key holder that runs.
package protocol RunningHolder: AnyObject, Sendable {
    /// What it has read.
    var report: HolderReport { get }
    var hasEnded: Bool { get }
    /// Asks the key holder a question. One that does not answer in time is not asked again.
    /// - Parameter result: receives the answer on the loop, at once or later; empty if it refuses.
    func ask(
        _ request: HolderRequest, on loop: EventLoop,
        _ result: @escaping @Sendable (Result<[UInt8], HolderProblem>) -> Void)
    /// As ``ask(_:on:_:)``, and waits for the answer.
    func askBlocking(_ request: HolderRequest) -> Result<[UInt8], HolderProblem>
}

/// Why a key holder gives no answer.
package enum HolderProblem: Error { case hasEnded, doesNotAnswer }
