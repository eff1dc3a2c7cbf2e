// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import Tor

/// What people type, or have in a file, reaches the phone as it is, or nothing is sent and a line says why: with each
/// client, in each locale.
@Suite(.tags(.node)) struct ClientTextTests {
    private static let clients = [
        "\(Program.path)", "java -jar Clients/java/target/tocsin-client.jar",
        "env PYTHONPATH=Clients/python /usr/bin/python3 -m tocsin_client",
    ]
    /// The environment, and whether a locale with UTF-8 was asked for.
    private static let locales = ["LC_ALL=C.UTF-8", "LC_ALL=C", "LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0"]

    private enum Expected {
        case shown(title: String, message: String)
        case refused(String)
    }

    /// Options in the words of a shell, and what comes of them.
    private static let cases: [(options: String, expected: Expected)] = [
        ("--title Zürich --message 'Zpráva ✓'", .shown(title: "Zürich", message: "Zpráva ✓")),
        (#"--title "$(printf 'Z\374rich')""#, .refused("argument")),
        (
            #"--title Paid --message "@$(f 'one\r\ntwo\r\n')""#, .shown(title: "Paid", message: "one\ntwo")
        ),
        (#"--title "@$(f '\357\273\277Z\303\274rich\r\n')""#, .shown(title: "Zürich", message: "")),
        (#"--title "@$(f 'one\n\n')""#, .shown(title: "one\n", message: "")),
        (#"--title "@$(f '\377\376Z\000')""#, .refused("UTF-16 text: save it as UTF-8")),
        (#"--title "@$(f 'Z\374rich')""#, .refused("not UTF-8 text")),
        (#"--message "$(printf 'a%.0s' $(seq 3100))""#, .refused("the text is too long by")),
    ]

    @Test(arguments: clients)
    func `a text arrives as it was typed, or is refused with a line`(_ client: String) async throws {
        let stage = Stage()
        let port = try await stage.reservePort()
        let endpoints = try await stage.services.start()
        try await stage.startNode(
            stage.configuration(endpoints).replacing(#"tnp = "unix:tnp.sock""#, with: #"tnp = "127.0.0.1:\#(port)""#))
        for locale in Self.locales {
            for (options, expected) in Self.cases {
                let phone = await stage.phone(.android)
                let script = """
                    f() { file=$(mktemp "\(stage.directory)/text.XXXXXX") && printf "$1" > "$file" && echo "$file"; }
                    \(locale) \(client) send - --node 127.0.0.1:\(port) --direct \(options)
                    """
                let sent = try await ChildProcess.output(
                    of: "bash", ["-c", script], input: phone.pairingToken, timeout: .seconds(120))
                let received = await stage.services.received.filter { $0.deviceToken == phone.pairing.deviceToken }
                let what = "\(client), \(locale), \(options): \(sent.text)"
                switch expected {
                case .shown(let title, let message):
                    #expect(sent.isSuccess, "\(what)")
                    let content = try phone.open(try #require(received.first, "\(what)").encrypted)
                    #expect(content.title == title && content.message == message, "\(what)")
                case .refused(let line):
                    #expect(!sent.isSuccess && received.isEmpty, "\(what)")
                    #expect(sent.text.contains(line) && !sent.text.contains("Traceback"), "\(what)")
                    #expect(sent.text.split(separator: "\n").count == 1, "\(what)")
                }
            }
        }
        await stage.end()
    }
}
