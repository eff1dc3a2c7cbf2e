// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import TNP

@Suite(.tags(.computing)) struct FrameDecoderTests {
    @Test func `a frame of length 0 is a protocol error`() {
        var decoder = FrameDecoder(maximumLength: 256)
        decoder.append([0, 0, 0, 0])
        #expect(throws: ProtocolError(code: .protocolError, text: "a frame of length 0")) { try decoder.next() }
    }

    @Test func `an oversized frame is rejected before its payload arrives`() {
        var decoder = FrameDecoder(maximumLength: 256)
        decoder.append([0, 0, 1, 1])
        let error = #expect(throws: ProtocolError.self) { try decoder.next() }
        #expect(error?.code == .frameTooLarge)
    }

    @Test func `a frame of the maximum length is accepted`() throws {
        var decoder = FrameDecoder(maximumLength: 256)
        decoder.append([0, 0, 1, 0, 5] + [UInt8](repeating: 1, count: 255))
        #expect(try decoder.next()?.payload.count == 255)
    }

    @Test func `the frame limit can change between two frames of one read`() throws {
        var decoder = FrameDecoder(maximumLength: 2)
        decoder.append([0, 0, 0, 2, 5, 1, 0, 0, 0, 9, 6, 1, 2, 3, 4, 5, 6, 7, 8])
        #expect(try decoder.next()?.type == 5)
        decoder.maximumLength = 9
        #expect(try decoder.next()?.type == 6)
        #expect(try decoder.next() == nil)
    }

    @Test func `unknown frame types are skipped from 0x80 and rejected below`() throws {
        #expect(throws: ProtocolError.self) { try Message(Frame(type: 0x09, payload: [])) }
        #expect(throws: ProtocolError.self) { try Message(Frame(type: 0x10, payload: [])) }
        #expect(throws: ProtocolError.self) { try Message(Frame(type: 0x7F, payload: [])) }
        guard case .skipped = try Message(Frame(type: 0x80, payload: [1, 2, 3])) else {
            Issue.record("type 0x80 was not skipped")
            return
        }
    }
}

@Suite(.tags(.computing)) struct ProxyLineTests {
    private func read(_ text: String, pieces: Int = 1000) throws -> (circuit: UInt32?, rest: Int) {
        var decoder = ProxyLineDecoder()
        let bytes = Array(text.utf8)
        var offset = 0
        while offset < bytes.count {
            let piece = Array(bytes[offset..<min(offset + pieces, bytes.count)])
            let (circuit, taken) = try decoder.append(piece.span.bytes)
            offset += taken
            if let circuit { return (circuit, bytes.count - offset) }
        }
        return (nil, 0)
    }

    @Test func `the circuit ID is parsed from pieces of any size`() throws {
        for pieces in [1, 2, 7, 1000] {
            let (circuit, rest) = try read("PROXY TCP6 fc00:dead:beef:4dad::0:b7 ::1 183 80\r\nTNP", pieces: pieces)
            #expect(circuit == 183)
            #expect(pieces > 3 ? rest == 3 : true)
        }
        #expect(try read("PROXY TCP6 fc00:dead:beef:4dad::2:0 ::1 0 80\r\n").circuit == 0x20000)
    }

    @Test(arguments: [
        "TNP\u{1}\u{1}", "PROXX TCP6", "PROXY TCP4 1.2.3.4 ::1 1 80\r\n",
        "PROXY TCP6 fc00:dead:beef:4dad::0:b7 ::1 80\r\n",
        "PROXY TCP6 fc00:dead:beef:4dad::0:b7 ::1 183 80\n", "PROXY TCP6 fc00:dead:beef:4dad::xyz:b7 ::1 183 80\r\n",
        "PROXY UNKNOWN\r\n",
    ])
    func `a stream without a valid PROXY line is rejected`(_ text: String) {
        #expect(throws: ProtocolError.self) { try read(text) }
    }

    @Test func `an endless PROXY line is rejected`() {
        let line = "PROXY TCP6 " + String(repeating: "f", count: 200)
        #expect(throws: ProtocolError.self) { try read(line, pieces: 1) }
    }
}

@Suite(.tags(.computing)) struct PairingTokenTests {
    @Test func `what a file or a terminal puts around a pairing token is no part of it`() throws {
        let token = "iOS|iPhone 15|\(String(repeating: "k", count: 32))|\(String(repeating: "0a", count: 32))"
        for text in ["\(token)\n", " \(token)\r\n", "\t\(token) \n\n"] {
            #expect(try PairingToken(text).deviceToken == PairingToken(token).deviceToken)
        }
        for text in ["", " ", "\n|||\n"] {
            #expect(throws: PairingToken.FormatError.self) { try PairingToken(text) }
        }
    }

    private let key = "A4C595428CAA4C768F60AE7EBFF85852"
    private let apple = "d45161df3d172837f1b83bb3e411d5a63120de6b435ff9235adb70d619d162a1"

    @Test func `pairing tokens of every platform parse`() throws {
        #expect(try PairingToken("iOS|iPhone 15|\(key)|\(apple)").magic == .iOS)
        #expect(try PairingToken("iOSDev||\(key)|\(apple)").magic == .iOSDev)
        let google =
            "cutUn7ZaTra9q3ayZG5vCQ:APA91bGrc9pTJdqzBgKYWQfP4I1g21rukjFpyKsjGCvFqnQl8owMqD_7_HB7viqHYXW5XE5O8B82Vyu"
        let android = try PairingToken("android|Google sdk_gphone_x86|aximqjxdRhe4HSxyh28m/FiIPlv8HEgV|\(google)")
        #expect(android.magic == .android)
        #expect(android.deviceToken == google)
    }

    @Test func `a parse error names the faulty part and never its content`() {
        for (token, word) in [
            ("iOS|x|\(key)", "four parts"), ("ios|x|\(key)|\(apple)", "magic"), ("iOS|x|short|\(apple)", "key"),
            ("iOS|x|\(key)|\(apple)0", "device token"), ("iOS|x|\(key)|zz\(apple.dropFirst(2))", "device token"),
            ("android|x|\(key)|short", "device token"), ("iOS|x|\(key)|\(apple)|more", "four parts"),
        ] {
            let error = #expect(throws: PairingToken.FormatError.self) { try PairingToken(token) }
            #expect(error?.description.contains(word) == true)
            #expect(error?.description.contains(apple) == false)
        }
    }

    @Test func `pairing tokens and envelopes print as redacted`() throws {
        let token = try PairingToken("iOS|iPhone|\(key)|\(apple)")
        let envelope = try Envelope(
            magic: .iOS, deviceToken: Array(apple.utf8)[...], iv: Array("0123456789abcdef".utf8)[...],
            ciphertext: [UInt8](repeating: 0x41, count: 32)[...], format: .pipe)
        for text in ["\(token)", "\(envelope)", String(reflecting: token), String(reflecting: envelope)] {
            #expect(text == "<redacted>")
        }
        var dumped = ""
        dump(token, to: &dumped)
        dump(envelope, to: &dumped)
        #expect(!dumped.contains(key) && !dumped.contains(apple) && !dumped.contains("65"))
    }
}
