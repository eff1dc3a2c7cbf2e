// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import TNP
import TocsinClient

/// The option `--handle`.
struct HandleArgument: ParsableArguments {
    @Option(
        help: """
            The handle, or a pairing token with it. Who has it can ring the phone: @FILE reads it from a file, where \
            other users of this machine cannot see it.
            """)
    var handle: String

    /// Parses the handle.
    /// - Throws: the exit code, after printing the error.
    func read() throws -> Handle {
        let text = try TextArgument.text(handle)
        guard let handle = (try? PairingToken(pasted: text))?.handle ?? Handle(text: text) else {
            throw fail(
                "--handle must be \(Handle.prefix) and \(2 * Handle.length) hexadecimal digits, or a pairing token with a handle",
                .usage)
        }
        return handle
    }
}

/// The option `--sender-key`.
struct SenderKeyOptions: ParsableArguments {
    @Option(
        name: .customLong("sender-key"),
        help: """
            The public key of a sender that may ring the phone besides the handle's owner, in Base64. Repeat it, up to \
            \(HandleRequest.Registration.maximumSenderKeys) times. Default: whoever has the handle may.
            """)
    var keys: [String] = []

    /// Parses the keys.
    /// - Throws: the exit code, after printing the error.
    func read() throws -> [[UInt8]] {
        guard keys.count <= HandleRequest.Registration.maximumSenderKeys else {
            throw fail("a handle has at most \(HandleRequest.Registration.maximumSenderKeys) sender keys", .usage)
        }
        return try keys.map { text in
            guard let key = Base64.decode(Array(text.utf8)), key.count == Ed25519.publicKeyLength else {
                throw fail("--sender-key must be a public key: 44 characters of Base64", .usage)
            }
            return key
        }
    }
}

extension ConnectionOptions {
    /// Checks that there is one node: only one can keep a handle.
    func requireOneNode() throws {
        guard nodes.count == 1 else {
            throw ValidationError("a handle is kept by one node: give --node once")
        }
    }
}

extension NodeAccess {
    /// Sends the request of a handle's owner.
    /// - Throws: the exit code, after printing why the node did not accept the request.
    static func ask<Answer: Sendable>(
        _ options: ConnectionOptions, _ purpose: String, _ body: (TocsinClient) async throws -> Answer
    ) async throws -> Answer {
        let result = try await NodeAccess(options: options, purpose: purpose, awaits: "the node").run { client in
            do {
                return Result<Answer, TocsinClient.HandleRefused>.success(try await body(client))
            } catch let error as TocsinClient.HandleRefused {
                return .failure(error)
            }
        }
        switch result {
        case .success(let answer): return answer
        case .failure(let refused):
            let text = OutcomeText(refused.outcome)
            switch refused.outcome.kind {
            case .retry: throw fail("try again \(text.retryTime): \(text.reason)", .tryLater)
            case .gone: throw fail("gone: \(text.reason). Register the phone again", .gone)
            default: throw fail("rejected: \(text.reason)", .rejected)
            }
        }
    }
}

extension PairingArgument {
    /// Parses a pairing token that names the device token, and returns what to register.
    /// - Throws: the exit code, after printing the error.
    func readRegistration(senderKeys: [[UInt8]]) throws -> (PairingToken, HandleRequest.Registration) {
        let pairing = try read()
        guard pairing.handle == nil else {
            throw fail(
                "this pairing token has a handle: give the one that the phone shows, with its device token", .usage)
        }
        return (
            pairing,
            HandleRequest.Registration(
                magic: pairing.magic, deviceToken: Array(pairing.deviceToken.utf8), senderKeys: senderKeys)
        )
    }
}
