// SPDX-License-Identifier: Apache-2.0

#if !WITHOUT_PHONES
    @testable import TocsinPhone

    /// What a phone gets from a desktop or a node: texts, or a stream of TNP.
    func runPhone(_ input: inout FuzzInput) {
        let isStream = input.byte() != 0
        let bytes = input.all()
        if isStream {
            var exchange = HandleExchange(phone.call)
            do {
                for piece in stride(from: 0, to: bytes.count, by: 7).map({ bytes[$0..<min($0 + 7, bytes.count)] }) {
                    _ = try exchange.receive(Array(piece))
                }
            } catch {}
            return
        }
        let text = String(decoding: bytes, as: UTF8.self)
        if let pairing = try? PhonePairing(text) {
            precondition((try? PhonePairing(pairing.text))?.text == pairing.text, "the pairing token is not readable")
        }
        for pairing in phone.pairings { _ = try? pairing.open(text) }
        _ = try? phone.pairings[0].open(webPush: bytes)
        _ = try? PhoneNotification(bytes)
        _ = NodeHost(text)
        if let challenge = try? HandleChallenge(bytes), challenge.effort < 100 {
            _ = try? challenge.solve(for: phone.call, tries: 100)
        }
        for status in [200, 503] { _ = try? HandleAnswer.handle(status: status, body: bytes) }
    }

    private let phone: (pairings: [PhonePairing], call: HandleCall) = {
        guard let handle = PhoneHandle(String(repeating: "ab", count: 32)),
            let owner = HandleOwner(seed: [UInt8](repeating: 3, count: 32)),
            let receiver = WebPushReceiver(
                privateKey: [UInt8](repeating: 1, count: 32), secret: [UInt8](repeating: 2, count: 16)),
            let pipe = try? PhonePairing("iOS|x|A4C595428CAA4C768F60AE7EBFF85852|token"), let node = NodeHost("n"),
            let call = try? HandleCall(.forget(handle), sequence: 1, at: node, by: owner)
        else { fatalError("the constants above are valid: a fuzz target has no input to blame yet") }
        let web = PhonePairing(endpoint: "https://push.example/x", receiver: receiver, descriptor: "x")
        return ([web, pipe], call)
    }()
#endif
