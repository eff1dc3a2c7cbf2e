// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Simulator

/// How streams of a circuit reach the node.
enum FloodTransport {
    /// The harness plays tor: straight to the node, and what names the circuit is said first.
    case played(Endpoint)
    /// Through a real onion service, each circuit a circuit of its own.
    case tor(PrivateTorNetwork.Access)

    private static let patience = Duration.seconds(60)

    /// What is to be said before the first byte.
    func opening(of circuit: TorCircuit) -> [UInt8] {
        switch self {
        case .played: circuit.proxyLine
        case .tor: []
        }
    }

    /// A stream on the circuit, on which nothing has been said.
    func dial(
        on circuit: TorCircuit, by loop: EventLoop, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> ByteStream {
        switch self {
        case .played(let node): return try await loop.dial(node, timeout: .seconds(5))
        case .tor(let access):
            // Credentials of their own give tor's clients circuits of their own (IsolateSOCKSAuth).
            let label = SOCKS5.Credentials(user: "flood", password: "\(circuit.number)")
            return try await loop.dial(access.onion, through: .socks5(access.socks, label), timeout: Self.patience)
        }
    }
}
