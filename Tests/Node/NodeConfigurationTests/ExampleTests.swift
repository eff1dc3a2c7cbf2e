// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import EventLoop
@testable import NodeConfiguration
@testable import Providers
@testable import TNP
@testable import TocsinNode

/// Tests the example configurations in Docs/examples.
@Suite(.tags(.computing)) struct ExampleTests {
    private static let directory = Repository.file("Docs/examples")

    private func load(_ name: String) throws -> Configuration {
        let file = Self.directory.appending(path: name)
        return try Configuration(text: try String(contentsOf: file, encoding: .utf8), file: file.path())
    }

    @Test func `each example is complete and enables the HTTP endpoint on loopback`() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.directory.path())
            .filter { $0.hasSuffix(".toml") }.sorted()
        #expect(names == ["bisq-1.toml", "bisq-connect.toml", "haveno.toml"])
        for name in names {
            let configuration = try load(name)
            #expect(configuration.listen.tnp == .tcp(host: "127.0.0.1", port: 7077), "\(name)")
            #expect(configuration.listen.http == .tcp(host: "127.0.0.1", port: 7080), "\(name)")
            #expect(configuration.apps.count == 1, "\(name)")
            // Secrets are files with absolute paths, because operators copy the example to another directory.
            let app = try #require(configuration.apps.first)
            #expect(app.delivery(FCMDelivery.self)?.serviceAccountFile.hasPrefix("/etc/tocsin/") == true, "\(name)")
            let reference = app.delivery(APNsDelivery.self)?.credentials[0].reference
            #expect(reference?.kind == AppleKeyCredential.kind, "\(name) has no key_file")
            #expect(reference?.files[0].hasPrefix("/etc/tocsin/") == true, "\(name)")
        }
    }

    @Test func `the Bisq 1 example sets magics, a notification block and no mutable-content`() throws {
        let app = try load("bisq-1.toml").apps[0]
        #expect(app.format == .pipe)
        let (apns, fcm) = (
            try #require(app.delivery(APNsDelivery.self)).profile, try #require(app.delivery(FCMDelivery.self)).profile
        )
        #expect(apns.topic == "bisqremote.joachimneumann.com")
        #expect(apns.messageMagic == "BisqMessageiOS")
        #expect(apns.alert == .text("Bisq notification"))
        #expect(apns.sound == "default")
        #expect(apns.contentAvailable == .request)
        #expect(apns.mutableContent == .never)
        #expect(fcm.messageMagic == "BisqMessageAndroid")
        #expect(fcm.notification?.title == "Bisq")
        #expect(fcm.notification?.body == "Notification")
    }

    @Test func `the Haveno example sets its own magics and texts`() throws {
        let app = try load("haveno.toml").apps[0]
        #expect(app.format == .pipe)
        let (apns, fcm) = (
            try #require(app.delivery(APNsDelivery.self)).profile, try #require(app.delivery(FCMDelivery.self)).profile
        )
        #expect(apns.messageMagic == "HavenoMessageiOS")
        #expect(apns.alert == .text("Haveno notification"))
        #expect(apns.mutableContent == .never)
        #expect(fcm.messageMagic == "HavenoMessageAndroid")
        #expect(fcm.notification?.title == "Haveno")
    }

    @Test func `the Bisq Connect example sets mutable-content on iOS and data only on Android`() throws {
        let app = try load("bisq-connect.toml").apps[0]
        #expect(app.format == .sealed)
        let (apns, fcm) = (
            try #require(app.delivery(APNsDelivery.self)).profile, try #require(app.delivery(FCMDelivery.self)).profile
        )
        #expect(apns.topic == "bisq.mobile.client.BisqConnect")
        #expect(apns.contentAvailable == .request)
        #expect(apns.mutableContent == .request)
        #expect(fcm.notification == nil)
    }

    @Test func `the three examples combine into one configuration`() throws {
        func apps(_ name: String) throws -> Substring {
            let text = try String(contentsOf: Self.directory.appending(path: name), encoding: .utf8)
            return text[try #require(text.range(of: "[[app]]")).lowerBound...]
        }
        let first = try String(contentsOf: Self.directory.appending(path: "bisq-1.toml"), encoding: .utf8)
        let text = "\(first)\n\(try apps("haveno.toml"))\n\(try apps("bisq-connect.toml"))"
        let configuration = try Configuration(text: text, file: "/etc/tocsin/tocsin.toml")
        #expect(configuration.apps.map(\.name) == ["bisq", "haveno", "bisq-connect"])
    }
}
