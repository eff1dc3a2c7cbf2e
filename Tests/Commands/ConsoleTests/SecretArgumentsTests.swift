// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Console

@Suite(.tags(.computing)) struct SecretArgumentsTests {
    private let key = "01234567890123456789012345678901"

    private func shown(_ arguments: [String], in message: (String) -> String) -> String {
        SecretArguments.removed(from: message(arguments[0]), arguments: ["tocsin"] + arguments)
    }

    @Test func `no message repeats a pairing token, a device token, a key or a handle`() {
        let secrets = [
            "iOS|iPhone|\(key)|" + String(repeating: "ab", count: 32), String(repeating: "0f", count: 32),
            "fGk3_x:APA91b" + String(repeating: "Q-", count: 60), key, "handle:" + String(repeating: "0", count: 64),
            "ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=",
        ]
        for secret in secrets {
            for given in [secret, "@\(secret)"] {
                let text = shown([given]) { "cannot read \($0): No such file or directory" }
                #expect(!text.contains(secret.prefix(20)) && text.contains("not shown"))
            }
            let text = SecretArguments.removed(
                from: "the value '\(secret)' is invalid for '--app'", arguments: ["tocsin", "--app=\(secret)"])
            #expect(!text.contains(secret.prefix(20)))
        }
    }

    @Test func `what is no secret is shown`() {
        let onion = String(repeating: "a", count: 56) + ".onion:7077"
        for argument in ["/etc/tocsin/tocsin.toml", "pairing", onion, "--config", "unbind", "Trade 123 is paid"] {
            #expect(shown([argument]) { "cannot read \($0)" } == "cannot read \(argument)")
        }
    }

    @Test func `an argument that contains another one is hidden whole`() {
        let token = "iOS|iPhone|\(key)|abcd"
        let text = SecretArguments.removed(from: "error: \(token)", arguments: ["tocsin", key, token])
        #expect(text == "error: [not shown: it may be secret]")
    }
}
