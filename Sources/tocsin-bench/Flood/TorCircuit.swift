// SPDX-License-Identifier: Apache-2.0

/// A circuit of tor's, as it is named to the node behind an onion service.
struct TorCircuit: Equatable {
    let number: UInt32

    /// What tor writes before the first byte of each stream of the circuit (`HiddenServiceExportCircuitID haproxy`).
    var proxyLine: [UInt8] {
        let (high, low) = (String(number >> 16, radix: 16), String(number & 0xFFFF, radix: 16))
        return Array("PROXY TCP6 fc00:dead:beef:4dad::\(high):\(low) ::1 \(number & 0xFFFF) 80\r\n".utf8)
    }
}

/// Hands out circuits, none of them twice.
struct TorCircuits {
    private var last: UInt32

    /// - Parameter number: the first circuit has the next one.
    init(after number: UInt32) { last = number }

    mutating func next() -> TorCircuit {
        last &+= 1
        return TorCircuit(number: last)
    }
}
