// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Sender
import Synchronization
import TNP
import Time

private let lastSequence = Mutex<UInt64>(0)

/// Requests of a handle's owner to the node that keeps the handle (PROTOCOL §11). They all go to the first node of
/// ``Options/nodes``.
extension TocsinClient {
    /// The node did not accept a request about a handle.
    public struct HandleRefused: Error, Equatable, Sendable, CustomStringConvertible {
        /// The node's answer.
        public let outcome: Outcome
        public var description: String { outcome.sentence }
    }

    /// Asks the node for a handle, which stands for a phone in the place of its device token. The same phone, app and
    /// owner always get the same handle. Unless the phone rings by the handle within ten minutes, the node drops it.
    /// - Parameters:
    ///   - app: the name of an app of the node; empty for its first app.
    ///   - owner: the key that may later change or end the handle.
    ///   - sequence: greater than that of any earlier request for the same handle.
    /// - Throws: ``HandleRefused``, ``ClientError``, `CancellationError`.
    public func register(
        _ registration: HandleRequest.Registration, app: String = "", owner: Ed25519.PrivateKey,
        sequence: UInt64 = TocsinClient.nextSequence(), timeout: Duration = .seconds(180)
    ) async throws -> Handle {
        try await ask(
            HandleRequest(
                .register(app: Array(app.utf8), owner: owner.publicKey, registration), sequence: sequence, at: onion,
                by: owner),
            of: registration.deviceToken, timeout)
    }

    /// Puts another device token behind a handle. Its sender keys are replaced, too.
    /// - Parameters: as of ``register(_:app:owner:sequence:timeout:)``.
    /// - Throws: ``HandleRefused``, ``ClientError``, `CancellationError`.
    public func rotate(
        _ handle: Handle, to registration: HandleRequest.Registration, owner: Ed25519.PrivateKey,
        sequence: UInt64 = TocsinClient.nextSequence(), timeout: Duration = .seconds(180)
    ) async throws {
        _ = try await ask(
            HandleRequest(.rotate(handle, registration), sequence: sequence, at: onion, by: owner), of: handle.bytes,
            timeout)
    }

    /// Ends a handle: nobody can ring the phone by it any more.
    /// - Parameters: as of ``register(_:app:owner:sequence:timeout:)``.
    /// - Throws: ``HandleRefused``, ``ClientError``, `CancellationError`.
    public func forget(
        _ handle: Handle, owner: Ed25519.PrivateKey, sequence: UInt64 = TocsinClient.nextSequence(),
        timeout: Duration = .seconds(180)
    ) async throws {
        _ = try await ask(
            HandleRequest(.forget(handle), sequence: sequence, at: onion, by: owner), of: handle.bytes, timeout)
    }

    /// The sequence of a request made now: the Unix time in milliseconds, or one more than the last one of this process if
    /// that is greater. Without that, the node would refuse the second of two requests within a millisecond.
    public static func nextSequence() -> UInt64 {
        lastSequence.withLock { last in
            last = max(last + 1, UInt64(max(0, UnixTime.milliseconds)))
            return last
        }
    }

    /// The onion of the only node that requests about handles go to.
    private var onion: SignedOnion { SignedOnion(of: options.nodes[0]) }

    private func ask(_ request: HandleRequest, of address: [UInt8], _ timeout: Duration) async throws -> Handle {
        let answer = try await send(.handle(request), of: address, toFirstNodeOnly: true, timeout: timeout)
        guard answer.outcome.kind == .delivered, let handle = answer.handle else {
            throw HandleRefused(outcome: answer.outcome)
        }
        return handle
    }
}
