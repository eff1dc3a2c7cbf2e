// SPDX-License-Identifier: Apache-2.0

/// A tor circuit, as an onion service names it to the node.
struct TorCircuit: Equatable {
    let number: UInt32

    /// The line that tor sends first on each stream of the circuit (`HiddenServiceExportCircuitID haproxy`).
    var proxyLine: [UInt8] {
        let (high, low) = (String(number >> 16, radix: 16), String(number & 0xFFFF, radix: 16))
        return Array("PROXY TCP6 fc00:dead:beef:4dad::\(high):\(low) ::1 \(number & 0xFFFF) 80\r\n".utf8)
    }
}

/// Generates distinct circuits.
struct TorCircuits {
    private var last: UInt32

    /// - Parameter number: the number before that of the first circuit.
    init(after number: UInt32) { last = number }

    mutating func next() -> TorCircuit {
        last &+= 1
        return TorCircuit(number: last)
    }
}
