// SPDX-License-Identifier: Apache-2.0

import Cryptography
import StandIns
import TestSupport
import Testing

@testable import Tor

/// Parsing of tor's output: version, log, events, authentication.
@Suite(.tags(.sockets)) struct TorTextTests {
    private static let label = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid"
    private let onion = OnionAddress(label)

    // MARK: Version and modules

    @Test func `versions are parsed and compared numerically`() throws {
        let version = try #require(TorVersion(output: "Tor version 0.4.9.11.\nThis build …\n"))
        #expect("\(version)" == "0.4.9.11")
        #expect(version >= TorVersion.oldest)
        let old = try #require(TorVersion(output: "Tor version 0.4.7.16 (git-1234).\n"))
        #expect(old < TorVersion.oldest)
        #expect(try #require(TorVersion(output: "Tor version 0.4.8.0-alpha-dev.")) == TorVersion.oldest)
        #expect(try #require(TorVersion(output: "Tor version 0.4.10.1.")) > version)
    }

    @Test(arguments: [
        "", "tor", "Tor version", "Tor version x", "Tor version 0.4.9.", "Tor version 99999999999999999999.1.1.1",
    ])
    func `text without a version is not parsed as one`(_ text: String) { #expect(TorVersion(output: text) == nil) }

    @Test func `the module list says whether tor has proof of work`() {
        #expect(TorBuild.hasProofOfWork(modules: "relay: yes\ndirauth: yes\npow: yes\n"))
        #expect(!TorBuild.hasProofOfWork(modules: "relay: yes\npow: no\n"))
        #expect(!TorBuild.hasProofOfWork(modules: "relay: yes\n"))
    }

    @Test func `a binary that is missing, too old or not tor is rejected`() async throws {
        try await withDirectory { directory in
            await #expect(throws: TorProblem.missing(binary: "\(directory)/tor")) {
                _ = try await TorBuild(of: "\(directory)/tor", path: nil)
            }
            for (script, isOld) in [
                ("#!/bin/sh\necho Tor version 0.4.7.16.\n", true), ("#!/bin/sh\necho hello\n", false),
                ("#!/bin/sh\nexit 1\n", false), ("no program", false),
            ] {
                let file = "\(directory)/program"
                try write(Array(script.utf8), to: file, mode: 0o700)
                let error = await #expect(throws: TorProblem.self) { _ = try await TorBuild(of: file, path: nil) }
                switch error {
                case .tooOld(let version)?: #expect(isOld && "\(version)" == "0.4.7.16")
                case .unusable(file, _)?: #expect(!isOld)
                default: Issue.record("\(script): \(String(describing: error))")
                }
            }
        }
    }

    // MARK: Log

    @Test func `a log line has a severity and a text without control characters`() throws {
        let line = try #require(TorLogLine("Nov 21 18:36:54.000 [warn] You are\u{1B}[2K root.\u{7}"))
        #expect(line == TorLogLine("[warn] You are[2K root."))
        #expect(line.severity == .warn)
        #expect(line.text == "You are[2K root.")
        #expect(TorLogLine("Nov 21 [notice] " + String(repeating: "x", count: 9999))?.text.count == 400)
        #expect(TorLogLine("no line") == nil)
        #expect(TorLogLine("a [strange] line") == nil)
        #expect(TorLogLine("] a [") == nil)
    }

    @Test(arguments: [
        "Our clock is 3 hours, 5 minutes behind the time published in the consensus network status document.",
        "Received NETINFO cell with skewed time (OR:x): It seems that our clock is ahead by 2 days, or theirs is behind.",
    ])
    func `tor's clock warnings are recognized`(_ text: String) throws {
        #expect(try #require(TorLogLine("[warn] \(text)")).isAboutClock)
    }

    @Test func `other warnings are not taken for clock warnings`() throws {
        #expect(try !#require(TorLogLine("[warn] You are running Tor as root.")).isAboutClock)
    }

    @Test func `lines are assembled from fragments of any size, and overlong lines are truncated`() {
        let text = Array("one\r\ntwo\n\nthree".utf8)
        var random = SplitMix64(seed: 3)
        for _ in 0..<100 {
            var splitter = LineSplitter()
            var lines: [String] = []
            var rest = text[...]
            while !rest.isEmpty {
                let piece = rest.prefix(1 + random.below(5))
                lines += splitter.lines(of: piece)
                rest = rest.dropFirst(piece.count)
            }
            #expect(lines == ["one", "two", ""])
            #expect(splitter.finish() == "three")
            #expect(splitter.finish() == nil)
        }
        var splitter = LineSplitter()
        for _ in 0..<100 { #expect(splitter.lines(of: [UInt8](repeating: 65, count: 1000)) == []) }
        #expect(splitter.lines(of: [10]).map(\.utf8.count) == [LineSplitter.maximumLineLength])
    }

    // MARK: Events

    @Test func `relevant control events are parsed`() throws {
        let onion = try #require(onion)
        let upload = "650 HS_DESC UPLOAD \(Self.label) UNKNOWN $ABC~relay0 xyz HSDIR_INDEX=1"
        #expect(TorEvent(line: upload) == .uploading(onion))
        #expect(TorEvent(line: "650 HS_DESC UPLOADED \(Self.label) UNKNOWN $ABC~relay0") == .uploaded(onion))
        let failed = "650 HS_DESC FAILED \(Self.label) NO_AUTH $ABC xyz REASON=UPLOAD_REJECTED"
        #expect(TorEvent(line: failed) == .failed(onion))
        #expect(
            TorEvent(line: #"650 STATUS_CLIENT NOTICE BOOTSTRAP PROGRESS=80 TAG=ap_conn SUMMARY="Connecting""#)
                == .bootstrapped(percent: 80))
        #expect(
            TorEvent(line: #"250-status/bootstrap-phase=NOTICE BOOTSTRAP PROGRESS=100 TAG=done SUMMARY="Done""#)
                == .bootstrapped(percent: 100))
    }

    @Test(arguments: [
        "", "650", "650 HS_DESC", "650 HS_DESC UPLOAD", "650 HS_DESC CREATED \(label) UNKNOWN UNKNOWN xyz",
        "650 HS_DESC UPLOAD \(label)x x", "650 HS_DESC UPLOAD \(label.dropLast())e x",
        "650 STATUS_CLIENT NOTICE BOOTSTRAP PROGRESS=101", "650 STATUS_CLIENT NOTICE BOOTSTRAP PROGRESS=x",
        "650 STATUS_CLIENT NOTICE BOOTSTRAP", "650 STATUS_CLIENT NOTICE CIRCUIT_ESTABLISHED", "250 OK",
    ])
    func `other control lines are ignored`(_ line: String) { #expect(TorEvent(line: line) == nil) }

    // MARK: The descriptor

    private func state(_ events: TorEvent...) -> OnionDescriptor {
        var uploads = DescriptorUploads()
        for event in events { uploads.observe(event) }
        return uploads.state
    }

    @Test func `a missing upload reply does not affect the next round of uploads`() throws {
        let onion = try #require(onion)
        // tor drops one of two uploads without a reply; then a newer descriptor follows.
        #expect(state(.uploading(onion), .uploading(onion), .failed(onion), .uploading(onion)) == .uploading)
        let lost: [TorEvent] = [.uploading(onion), .uploading(onion), .uploaded(onion)]
        var uploads = DescriptorUploads()
        for event in lost + [.uploading(onion), .failed(onion)] { uploads.observe(event) }
        #expect(uploads.state == .failed)
        uploads.observe(.uploading(onion))
        uploads.observe(.uploaded(onion))
        #expect(uploads.state == .published)
    }

    @Test func `a descriptor is published if one directory accepts it, and failed if all reject it`() throws {
        let onion = try #require(onion)
        #expect(state() == .none)
        #expect(state(.uploading(onion), .uploading(onion)) == .uploading)
        #expect(state(.uploading(onion), .uploading(onion), .uploaded(onion)) == .published)
        #expect(state(.uploading(onion), .uploading(onion), .uploaded(onion), .failed(onion)) == .published)
        #expect(state(.uploading(onion), .uploading(onion), .failed(onion), .failed(onion)) == .failed)
    }

    @Test func `a later round of uploads leaves the descriptor published unless all uploads fail`() throws {
        let onion = try #require(onion)
        let first: [TorEvent] = [.uploading(onion), .uploaded(onion)]
        var uploads = DescriptorUploads()
        for event in first + [.uploading(onion), .uploading(onion)] { uploads.observe(event) }
        #expect(uploads.state == .published)
        uploads.observe(.failed(onion))
        #expect(uploads.state == .published)
        uploads.observe(.failed(onion))
        #expect(uploads.state == .failed)
        uploads.observe(.uploading(onion))
        #expect(uploads.state == .uploading)
        uploads.observe(.uploaded(onion))
        #expect(uploads.state == .published)
    }

    // MARK: Authentication

    @Test func `the authentication method is read from PROTOCOLINFO`() {
        func login(_ line: String) -> CookieAuthentication {
            CookieAuthentication(protocolInfo: ["250-PROTOCOLINFO 1", line, "250 OK"])
        }
        let cookie = login(#"250-AUTH METHODS=COOKIE,SAFECOOKIE COOKIEFILE="/run/tor/control.authcookie""#)
        #expect(cookie.cookieFile == "/run/tor/control.authcookie")
        #expect(!cookie.requiresNoAuthentication)
        #expect(login(#"250-AUTH METHODS=SAFECOOKIE COOKIEFILE="/a \"b\\c\303\251""#).cookieFile == #"/a "b\cé"#)
        #expect(login("250-AUTH METHODS=NULL").requiresNoAuthentication)
        for line in [
            "250-AUTH METHODS=HASHEDPASSWORD", "250-AUTH METHODS=SAFECOOKIE",
            #"250-AUTH METHODS=COOKIE COOKIEFILE="/a""#,
            #"250-AUTH METHODS=SAFECOOKIE COOKIEFILE="/a"#, #"250-AUTH METHODS=SAFECOOKIE COOKIEFILE="\"#, "250-AUTH",
            "",
        ] {
            #expect(login(line).cookieFile == nil, "\(line)")
            #expect(!login(line).requiresNoAuthentication)
        }
    }

    @Test func `SAFECOOKIE proves the cookie without sending it, and only to a server that knows it`() {
        let cookie = Array(UInt8(0)..<32)
        let nonce = [UInt8](repeating: 1, count: 32)
        // Made with Python's hmac.
        let hash = "18bf4049ee4f5be22254e66ded2c3778d180b1eb268e8e41fcbdd10d64538030"
        let server = String(repeating: "02", count: 32)
        func command(_ reply: String, cookie: [UInt8]) -> String? {
            CookieAuthentication.command(challenge: [reply], cookie: cookie, nonce: nonce)
        }
        let reply = "250 AUTHCHALLENGE SERVERHASH=\(hash.uppercased()) SERVERNONCE=\(server)"
        #expect(
            command(reply, cookie: cookie)
                == "AUTHENTICATE e396c96ac795e44f88cc8bfdebd8517eadc1a9872cb9c6b01c244cf065abbcdb")
        #expect(command(reply, cookie: cookie.reversed()) == nil)
        #expect(command("250 AUTHCHALLENGE SERVERHASH=\(hash) SERVERNONCE=03", cookie: cookie) == nil)
        #expect(command("250 AUTHCHALLENGE SERVERHASH= SERVERNONCE=", cookie: cookie) == nil)
        #expect(command("250 OK", cookie: cookie) == nil)
    }

    @Test func `an installed client key is read from the ONION_CLIENT_AUTH_VIEW reply`() {
        let head = "250-ONION_CLIENT_AUTH_VIEW \(Self.label)"
        #expect(TemporaryOnionKey.key(inView: [head, "250 OK"]) == nil)
        #expect(
            TemporaryOnionKey.key(inView: [head, "250-CLIENT \(Self.label) x25519:QUJD Flags=Permanent", "250 OK"])
                == "QUJD"
        )
        // A key of another type: there is one, but it is not ours.
        #expect(TemporaryOnionKey.key(inView: [head, "250-CLIENT \(Self.label) x448:QUJD", "250 OK"]) == "")
    }
}
