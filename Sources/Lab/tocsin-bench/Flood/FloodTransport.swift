// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns

/// How the streams of a circuit reach the node.
enum FloodTransport {
    /// The harness acts as tor: it connects to the node directly and sends a PROXY line that names the circuit.
    case direct(Endpoint)
    /// Through a real onion service, each circuit on a tor circuit of its own.
    case tor(PrivateTorNetwork.Access)

    private static let patience = Duration.seconds(60)

    /// The bytes to send first on a stream.
    func preamble(of circuit: TorCircuit) -> [UInt8] {
        switch self {
        case .direct: circuit.proxyLine
        case .tor: []
        }
    }

    /// Opens a stream on the circuit; nothing has been sent on it.
    func dial(
        on circuit: TorCircuit, by loop: EventLoop, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> ByteStream {
        switch self {
        case .direct(let node): return try await loop.dial(node, timeout: .seconds(5))
        case .tor(let access):
            // tor gives each SOCKS login a circuit of its own (IsolateSOCKSAuth).
            let label = SOCKS5.Credentials(user: "flood", password: "\(circuit.number)")
            return try await loop.dial(access.onion, through: .socks5(access.socks, label), timeout: Self.patience)
        }
    }
}
