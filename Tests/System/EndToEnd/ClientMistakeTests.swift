// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing
import Tor

/// What a newcomer gets wrong in the first hour: each client says so long before its time limit.
@Suite(.tags(.tor), .timeLimit(.minutes(3)))
struct ClientMistakeTests {
    private static let clients = [
        [Program.path], ["java", "-jar", "Clients/java/target/tocsin-client.jar"],
        ["env", "PYTHONPATH=Clients/python", "/usr/bin/python3", "-m", "tocsin_client"],
    ]
    private static let onion = "bisqpushv56wo32w2dv7xacvvcrnow6gud5vkvftwsgevczmspzvqgad.onion:7077"
    private static let pairing =
        "iOS|x|12345678901234567890123456789012|d45161df3d172837f1b83bb3e411d5a63120de6b435ff9235adb70d619d162a1"

    /// Nothing listens at port 9 (discard) of this machine.
    private static let mistakes: [(options: [String], text: String)] = [
        (["--node", onion, "--tor", "127.0.0.1:9"], "the SOCKS proxy at 127.0.0.1:9 cannot be reached"),
        (["--node", "127.0.0.1:9", "--direct"], "the node cannot be reached: "),
        (["--node", onion.replacing("qgad", with: "qgae")], "is not an onion address"),
    ]

    @Test func `the jar without BouncyCastle says that it is missing`() async throws {
        let sent = try await ChildProcess.output(
            of: "java", ["-cp", "Clients/java/target/classes", "org.tocsin.client.Main", "pair", "read", Self.pairing],
            timeout: .seconds(60))
        #expect(!sent.isSuccess && sent.text.contains("BouncyCastle is missing: add org.bouncycastle:bcprov-jdk18on"))
    }

    @Test(arguments: clients) func `a mistake in the settings ends in seconds, with a sentence`(
        _ client: [String]
    ) async throws {
        for (options, text) in Self.mistakes {
            let sent = try await ChildProcess.output(
                of: client[0], Array(client.dropFirst()) + ["send", "-", "--title", "x", "--timeout", "600"] + options,
                input: Self.pairing, timeout: .seconds(60))
            #expect(!sent.isSuccess && sent.text.localizedCaseInsensitiveContains(text), "\(client[0]): \(sent.text)")
        }
    }
}
