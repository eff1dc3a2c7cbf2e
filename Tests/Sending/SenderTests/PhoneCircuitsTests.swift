// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TestSupport
import Testing

@testable import Sender

@Suite(.tags(.computing)) struct PhoneCircuitsTests {
    private final class Circuit {
        var isIdle = false
    }

    private func phone(_ number: Int) -> [UInt8] { Array("phone\(number)".utf8) }

    /// The circuit of a phone, and whether it is new.
    private func use(_ number: Int, _ circuits: inout PhoneCircuits<Circuit>) -> (Circuit, isNew: Bool, ended: Circuit?)
    {
        switch circuits.circuit(for: phone(number), isIdle: \.isIdle) {
        case .known(let circuit): return (circuit, false, nil)
        case .new(let former):
            let circuit = Circuit()
            circuits.insert(circuit, for: phone(number))
            return (circuit, true, former)
        }
    }

    @Test func `each phone has a circuit of its own, which it keeps`() {
        var circuits = PhoneCircuits<Circuit>()
        let (one, other) = (use(1, &circuits), use(2, &circuits))
        #expect(one.isNew && other.isNew && one.0 !== other.0)
        #expect(use(1, &circuits).0 === one.0)
        circuits.remove(phone(1))
        #expect(use(1, &circuits).isNew)
    }

    @Test func `beyond the bound, an idle circuit ends for another phone's`() {
        var circuits = PhoneCircuits<Circuit>()
        let all = (1...PhoneCircuits<Circuit>.maximum).map { use($0, &circuits).0 }
        all[6].isIdle = true
        let next = use(100, &circuits)
        #expect(next.isNew && next.ended === all[6])
        #expect(circuits.all.count == PhoneCircuits<Circuit>.maximum)
    }

    @Test func `beyond the bound, phones share circuits that are in use`() {
        var circuits = PhoneCircuits<Circuit>()
        let all = (1...PhoneCircuits<Circuit>.maximum).map { use($0, &circuits).0 }
        let next = use(100, &circuits)
        #expect(!next.isNew && all.contains { $0 === next.0 })
        #expect(use(100, &circuits).0 === next.0)
    }

    @Test func `where circuits stay, phones share them even if they are idle`() {
        var circuits = PhoneCircuits<Circuit>()
        for number in 1...PhoneCircuits<Circuit>.maximum { use(number, &circuits).0.isIdle = true }
        for number in [100, 101, 100] {
            guard case .known = circuits.circuit(for: phone(number), isIdle: nil) else {
                return #expect(Bool(false), "an idle circuit ends")
            }
        }
        // A phone that has one keeps it.
        let own = use(3, &circuits).0
        guard case .known(let again) = circuits.circuit(for: phone(3), isIdle: nil) else { return }
        #expect(again === own)
    }

    @Test func `a new circuit has the proxy's address, and a password nobody used before`() {
        let proxy = Proxy.socks5(.tcp(host: "127.0.0.1", port: 9050), nil)
        guard case .socks5(let endpoint, let one?) = proxy.withNewCircuit(isRequired: true),
            case .socks5(_, let other?) = proxy.withNewCircuit(isRequired: false)
        else { return #expect(Bool(false), "a SOCKS proxy stays one") }
        #expect(endpoint == proxy.endpoint && one.password != other.password)
        #expect(one.isRequired && !other.isRequired)
    }
}
