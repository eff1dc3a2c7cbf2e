// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import Time
import TocsinClient
import TocsinPhone
import Tor

/// How a phone sends its requests about handles.
enum PhoneProtocol: CaseIterable {
    case http, tnp
}

/// A phone made of the library for phones: it registers, is rung, gets another device token, rotates, is rung, and forgets.
extension Stage {
    /// Runs the phone's life.
    /// - Parameters:
    ///   - node: the host at which the phone reaches the node.
    ///   - ports: the node's ports, or its sockets.
    ///   - proxy: tor's SOCKS port; `nil` for none.
    func runLibraryPhone(
        _ phoneProtocol: PhoneProtocol, at node: NodeHost, http: Endpoint, tnp: Endpoint, through proxy: Proxy?
    ) async throws {
        var device = await phone(.iOS)
        var pairing = try PhonePairing(device.pairingToken)
        let owner = HandleOwner()
        let sequence = { @Sendable in UInt64(UnixTime.milliseconds) }
        let service = HandleService(owner: owner, sequence: sequence) { [self] node, request in
            let fields =
                request.body.isEmpty
                ? [] : ["Content-Type: application/octet-stream", "Content-Length: \(request.body.count)"]
            let head =
                ["\(request.method) \(request.path) HTTP/1.1", "Host: \(node.name)", "Connection: close"] + fields
            let bytes = Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + request.body
            let answers = try HTTPAnswer.all(in: try await exchange(bytes, at: http, through: proxy))
            let answer = try #require(answers.first)
            return (answer.status, answer.body)
        }
        /// Performs a request over TNP.
        func overTNP(_ action: HandleCall.Action) async throws -> PhoneHandle {
            let call = try HandleCall(action, sequence: sequence(), at: node, by: owner)
            return try await runExchange(HandleExchange(call), at: tnp, through: proxy)
        }
        func ring(_ title: String, _ pairing: PhonePairing, _ deviceToken: String) async throws {
            let client = TocsinClient(
                TocsinClient.Options(nodes: [tnp], proxy: proxy, patience: .seconds(5), schema: .tocsin), on: loop)
            let desktop = try PairingToken(pairing.text)
            let outcome = try await client.notify(
                desktop,
                BisqNotification(
                    kind: .trade, title: title, message: "Zpráva ✓", actionRequired: "Confirm", sentDate: 1),
                timeout: .seconds(60))
            await client.close()
            #expect(outcome.kind == .delivered, "\(outcome)")
            let received = try #require(await received(deviceToken).last)
            let notification = try PhoneNotification(try pairing.open(received.encrypted))
            #expect(notification.title == title && notification.message == "Zpráva ✓")
            #expect(notification.kind == .trade && notification.actionRequired == "Confirm")
        }

        let handle: PhoneHandle
        switch phoneProtocol {
        case .http: handle = try await service.register(pairing, at: node)
        case .tnp: handle = try await overTNP(.register(pairing, app: ""))
        }
        pairing.handle = handle
        try await ring("before", pairing, device.deviceToken)
        device = await services.giveNewDeviceToken(to: device)
        var renewed = try PhonePairing(device.pairingToken)
        renewed.handle = nil
        switch phoneProtocol {
        case .http: #expect(await service.rotate([HandleService.Entry(handle, at: node)], to: renewed).isEmpty)
        case .tnp: #expect(try await overTNP(.rotate(handle, renewed)) == handle)
        }
        try await ring("after", pairing, device.deviceToken)
        switch phoneProtocol {
        case .http: try await service.forget(HandleService.Entry(handle, at: node))
        case .tnp: #expect(try await overTNP(.forget(handle)) == handle)
        }
        await #expect(throws: PhoneError.self) { _ = try await overTNP(.rotate(handle, renewed)) }
    }

    /// The programs of Docs/examples/phone.
    static let phonePrograms = [
        ["/usr/bin/python3", "Docs/examples/phone/phone.py"],
        [
            "java", "-cp", "Clients/java-phone/target/tocsin-phone.jar:/usr/share/java/bcprov.jar",
            "Docs/examples/phone/Phone.java",
        ],
    ]

    /// Runs the life of a phone that is a program: Docs/examples/phone.
    /// - Parameters:
    ///   - command: starts the program.
    ///   - node: what the program takes as the node.
    ///   - tor: its option for tor's SOCKS port.
    ///   - desktop: how a desktop reaches the node.
    func runProgramPhone(
        _ command: [String], node: String, tor: [String], desktop: TocsinClient.Options
    ) async throws {
        var device = await phone(.android)
        let state = "\(directory)/phone-\(UUID().uuidString)"
        func run(_ arguments: [String], input: String = "") async throws -> String {
            let result = try await ChildProcess.output(
                of: command[0], Array(command.dropFirst()) + arguments, input: input, timeout: .seconds(120))
            try #require(result.isSuccess, "\(command.last ?? "") \(arguments[0]): \(result.text)")
            return result.text.trimmingCharacters(in: .whitespacesAndNewlines)
        }
        func ring(_ title: String, _ pairing: String, _ deviceToken: String) async throws {
            let client = TocsinClient(desktop, on: loop)
            let outcome = try await client.notify(
                try PairingToken(pairing),
                BisqNotification(kind: .trade, title: title, message: "m", actionRequired: "Confirm", sentDate: 1),
                timeout: .seconds(60))
            await client.close()
            #expect(outcome.kind == .delivered, "\(outcome)")
            let encrypted = try #require(await received(deviceToken).last).encrypted
            let opened = try await run(["open", state], input: encrypted)
            #expect(opened.contains(title) && opened.contains("Confirm"), "\(opened)")
        }
        _ = try await run(["new", state, "android", device.deviceToken, "Pixel"])
        let pairing = try await run(["register", state, node, "--app", "sealed"] + tor)
        if command == Self.phonePrograms[0] { #expect(try await run(["restrict", state] + tor) == "restricted") }
        try await ring("before", pairing, device.deviceToken)
        device = await services.giveNewDeviceToken(to: device)
        #expect(try await run(["rotate", state, device.deviceToken] + tor) == "rotated")
        try await ring("after", pairing, device.deviceToken)
        #expect(try await run(["forget", state] + tor) == "forgotten")
    }

    /// Sends these bytes and returns all that arrives until the peer closes.
    private func exchange(_ bytes: [UInt8], at endpoint: Endpoint, through proxy: Proxy?) async throws -> [UInt8] {
        let stream = try await loop.dial(endpoint, through: proxy, timeout: .seconds(60))
        defer { stream.close() }
        return await StreamReader.answer(to: bytes, on: stream, within: .seconds(60), loop)
    }

    private func runExchange(
        _ start: HandleExchange, at endpoint: Endpoint, through proxy: Proxy?
    ) async throws -> PhoneHandle {
        var exchange = start
        let stream = try await loop.dial(endpoint, through: proxy, timeout: .seconds(60))
        let reader = StreamReader(stream)
        let timer = Timer(on: loop) { stream.fail(.timedOut) }
        timer.start(after: .seconds(60))
        defer {
            timer.stop()
            stream.close()
        }
        stream.write(exchange.start)
        while true {
            if let handle = exchange.handle { return handle }
            // One byte at a time: no frame is cut where it is convenient.
            stream.write(try exchange.receive(try await reader.read(exactly: 1)))
        }
    }
}

/// The phone's half without tor.
@Suite(.tags(.node), .timeLimit(.minutes(2)))
struct LibraryPhoneTests {
    @Test(arguments: PhoneProtocol.allCases)
    func `a phone made of TocsinPhone registers, is rung, rotates, is rung, and forgets`(
        _ phoneProtocol: PhoneProtocol
    ) async throws {
        let stage = Stage()
        try await stage.start(gates: "[puzzle]\nmode = \"always\"\neffort = 1000", more: HandleTests.enabled)
        try await stage.runLibraryPhone(
            phoneProtocol, at: try #require(NodeHost("localhost")), http: stage.httpSocket, tnp: stage.socket,
            through: nil)
        await stage.end()
    }
}
