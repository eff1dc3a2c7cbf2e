// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import EventLoop
import Foundation
import Settings
import TNP
import TestSupport
import Testing
import Tor

@testable import Delivery
@testable import Logging
@testable import NodeConfiguration
@testable import Providers
@testable import TocsinNode
@testable import Tor

@Suite(.tags(.computing)) struct ConfigurationTests {
    // MARK: Valid configurations

    @Test func `the decoder reads every key of a full file`() throws {
        let configuration = try Configuration(
            text: """
                [node]
                state = "/var/lib/tocsin"
                log = "debug"
                log_format = "json"

                [listen]
                tnp = "127.0.0.1:7177"
                circuit_ids = true

                [limits]
                connections = 11
                in_flight = 12
                total_in_flight = 13
                max_frame = 4097
                handshake_timeout = 14
                idle_timeout = 15
                shutdown_timeout = 16

                [[app]]
                name = "bisq"
                format = "pipe"
                [app.apns]
                topic = "bisqremote.joachimneumann.com"
                key_file = "/keys/AuthKey.p8"
                key_id = "ABC123DEFG"
                team_id = "TEAM123456"
                message_magic = "BisqMessage1"
                alert = "Bisq notification"
                sound = "bell.caf"
                content_available = "always"
                mutable_content = "never"
                [app.fcm]
                service_account_file = "/keys/firebase.json"
                message_magic = "BisqMessage2"
                title = "Bisq"
                body = "Notification"
                sound = "bell"

                [[app]]
                name = "connect"
                format = "sealed"
                [app.apns]
                topic = "bisq.mobile.client.BisqConnect"
                alert_loc_key = "notification"
                certificate_file = "/keys/push.p12"
                certificate_password_file = "/keys/push.password"
                [app.fcm]
                service_account_file = "/keys/connect.json"
                data_only = true

                [apns]
                production = "https://127.0.0.1:8443"
                development = "https://[::1]:8444/base"
                trust_file = "/keys/ca.pem"

                [fcm]
                endpoint = "https://fcm.example"
                trust_file = "/keys/google.pem"

                [outbound]
                proxy = "socks5://127.0.0.1:9050"
                """, file: file)
        #expect(configuration.file == file)
        #expect(configuration.state == "/var/lib/tocsin")
        #expect(configuration.logLevel.rawValue == "debug")
        #expect(configuration.logFormat == .json)
        #expect(configuration.listen.tnp == Endpoint.tcp(host: "127.0.0.1", port: 7177))
        #expect(configuration.listen.circuitIDs)
        #expect(configuration.limits.connections == 11)
        #expect(configuration.limits.inFlight == 12)
        #expect(configuration.limits.totalInFlight == 13)
        #expect(configuration.limits.maximumFrame == 4097)
        #expect(configuration.limits.handshakeTimeout == 14)
        #expect(configuration.limits.idleTimeout == 15)
        #expect(configuration.limits.shutdownTimeout == 16)
        let (apple, google) = try services(of: configuration)
        #expect(apple.production.endpoint == Endpoint.tcp(host: "127.0.0.1", port: 8443))
        #expect(apple.production.authority == "127.0.0.1:8443")
        #expect(apple.production.path == "")
        #expect(apple.development.endpoint == Endpoint.tcp(host: "::1", port: 8444))
        #expect(apple.development.path == "/base")
        #expect(apple.trustFile == "/keys/ca.pem")
        #expect(google.url.authority == "fcm.example")
        #expect(google.url.port == 443)
        #expect(google.trustFile == "/keys/google.pem")
        #expect(configuration.outboundProxy?.endpoint == Endpoint.tcp(host: "127.0.0.1", port: 9050))

        try #require(configuration.apps.count == 2)
        let bisq = configuration.apps[0]
        #expect(bisq.name == "bisq")
        #expect(bisq.format == .pipe)
        #expect(bisq.identity.path == "app[1]")
        let apns = try #require(bisq.delivery(APNsDelivery.self))
        #expect(apns.profile.topic == "bisqremote.joachimneumann.com")
        #expect(apns.profile.format == .pipe)
        #expect(apns.profile.messageMagic == "BisqMessage1")
        #expect(apns.profile.alert == .text("Bisq notification"))
        #expect(apns.profile.sound == "bell.caf")
        #expect(apns.profile.contentAvailable == .always)
        #expect(apns.profile.mutableContent == .never)
        #expect(
            apns.credentials[0].reference
                == AppleKeyCredential.reference(file: "/keys/AuthKey.p8", keyID: "ABC123DEFG", teamID: "TEAM123456"))
        let fcm = try #require(bisq.delivery(FCMDelivery.self))
        #expect(fcm.serviceAccountFile == "/keys/firebase.json")
        #expect(fcm.profile.messageMagic == "BisqMessage2")
        #expect(fcm.profile.notification?.title == "Bisq")
        #expect(fcm.profile.notification?.body == "Notification")
        #expect(fcm.profile.sound == "bell")

        let connect = configuration.apps[1]
        #expect(connect.name == "connect")
        #expect(connect.format == .sealed)
        #expect(connect.identity.path == "app[2]")
        let other = try #require(connect.delivery(APNsDelivery.self))
        #expect(other.profile.format == .sealed)
        #expect(other.profile.alert == .localized(key: "notification"))
        #expect(
            other.credentials[0].reference
                == AppleCertificateCredential.reference(file: "/keys/push.p12", passwordFile: "/keys/push.password"))
        #expect(connect.delivery(FCMDelivery.self)?.profile.format == .sealed)
        #expect(connect.delivery(FCMDelivery.self)?.profile.notification?.title == nil)
    }

    @Test func `an absent key has its default`() throws {
        let configuration = try Configuration(text: minimal, file: file)
        #expect(configuration.state == "/etc/tocsin/state")
        #expect(configuration.logLevel.rawValue == "info")
        #expect(configuration.logFormat == .text)
        #expect(configuration.listen.tnp == Endpoint.tcp(host: "127.0.0.1", port: 7077))
        #expect(!configuration.listen.circuitIDs)
        #expect(configuration.limits.connections == 10_000)
        #expect(configuration.limits.inFlight == 64)
        #expect(configuration.limits.totalInFlight == 4000)
        #expect(configuration.limits.maximumFrame == 8192)
        #expect(configuration.limits.handshakeTimeout == 30)
        #expect(configuration.limits.idleTimeout == 600)
        #expect(configuration.limits.shutdownTimeout == 30)
        let (apple, google) = try services(of: Configuration(text: both, file: file))
        #expect(apple.production.authority == "api.push.apple.com")
        #expect(apple.development.authority == "api.development.push.apple.com")
        #expect(google.url.authority == "fcm.googleapis.com")
        #expect(apple.production.port == 443)
        #expect(apple.trustFile == nil)
        #expect(google.trustFile == nil)
        #expect(configuration.outboundProxy == nil)
        let app = try #require(configuration.apps.first)
        #expect(app.format == .pipe)
        #expect(app.delivery(APNsDelivery.self)?.profile.topic == nil)
        let fcm = try #require(app.delivery(FCMDelivery.self))
        #expect(fcm.profile.messageMagic == "BisqMessageAndroid")
        #expect(fcm.profile.notification?.title == "Notification")
        #expect(fcm.profile.notification?.body == "New notification")
        #expect(fcm.profile.sound == "default")
        #expect(configuration.listen.http == nil)
        #expect(configuration.limits.httpRequestTimeout == 20)
        #expect(configuration.limits.httpAnswerTimeout == 20)
        #expect(configuration.admission.http == Rate(burst: 1000, perMinute: 3000))
        #expect(configuration.admission.httpUnproven == Rate(burst: 300, perMinute: 120))
    }

    @Test func `the decoder reads and checks the settings of the HTTP endpoint`() throws {
        let text = """
            [listen]
            http = "127.0.0.1:7080"
            [limits]
            http_request_timeout = 3
            http_answer_timeout = 4
            http_burst = 5
            http_per_minute = 6
            http_unproven_burst = 7
            http_unproven_per_minute = 8
            \(minimal)
            """
        let configuration = try Configuration(text: text, file: file)
        #expect(configuration.listen.http == Endpoint.tcp(host: "127.0.0.1", port: 7080))
        #expect(configuration.limits.httpRequestTimeout == 3)
        #expect(configuration.limits.httpAnswerTimeout == 4)
        #expect(configuration.admission.http == Rate(burst: 5, perMinute: 6))
        #expect(configuration.admission.httpUnproven == Rate(burst: 7, perMinute: 8))
        for (key, text) in [
            ("listen.http", "[listen]\nhttp = \"0.0.0.0:80\""), ("listen.http", "[listen]\nhttp = \"127.0.0.1:7077\""),
            ("limits.http_answer_timeout", "[limits]\nhttp_answer_timeout = 25"),
        ] { #expect(problem(in: "\(text)\n\(minimal)")?.key == key) }
    }

    @Test func `the admin port is open to others only with a key of its own and a token`() throws {
        let open = "[listen]\nadmin = \"0.0.0.0:7079\"\nallow_public_admin = true\n"
        #expect(problem(in: open + minimal)?.key == "listen.allow_public_admin")
        let closed = "[listen]\nadmin = \"0.0.0.0:7079\"\nadmin_token_file = \"admin.token\"\n"
        #expect(problem(in: closed + minimal)?.key == "listen.admin")
        let read = try Configuration(text: "\(open)admin_token_file = \"admin.token\"\n\(minimal)", file: file)
        #expect(read.listen.adminTokenFile == "/etc/tocsin/admin.token")
        #expect(read.otherFiles == ["/etc/tocsin/admin.token"])
        #expect(throws: ConfigurationError.self) { try read.adminToken() }
    }

    @Test func `the admin port accepts loopback addresses only, even with allow_public`() {
        for address in ["0.0.0.0:7079", "192.0.2.1:7079", "[::]:7079"] {
            let error = problem(in: "[listen]\nallow_public = true\nadmin = \"\(address)\"\n\(minimal)")
            #expect(error?.key == "listen.admin")
            #expect(error?.problem.contains("tunnel") == true)
        }
        let own = "[listen]\nadmin = \"[::1]:7079\"\n\(minimal)"
        #expect(throws: Never.self) { try Configuration(text: own, file: file) }
    }

    @Test func `alert and alert_loc_key exclude each other`() {
        let error = problem(in: apple("\(key)\nalert = \"a\"\nalert_loc_key = \"b\""))
        #expect(error?.key == "app[1].apns.alert_loc_key")
    }

    @Test func `an absent key of app.apns has its default`() throws {
        let configuration = try Configuration(text: apple(key), file: file)
        let apns = try #require(configuration.apps.first?.delivery(APNsDelivery.self))
        #expect(apns.profile.messageMagic == "BisqMessageiOS")
        #expect(apns.profile.alert == .text("New notification"))
        #expect(apns.profile.sound == "default")
        #expect(apns.profile.contentAvailable == .request)
        #expect(apns.profile.mutableContent == .request)
        #expect(configuration.apps.first?.delivery(FCMDelivery.self)?.serviceAccountFile == nil)
    }

    @Test func `the decoder reads delivery limits, spool and connection pools`() throws {
        let configuration = try Configuration(
            text: """
                [limits]
                total_in_flight = 13
                attempts = 7
                patience = 17
                replay_window = 18
                replay_entries = 1900
                [spool]
                enabled = true
                key_file = "/media/stick/spool.key"
                max_bytes = 1048576
                [apns]
                connections = 2
                max_connections = 5
                [fcm]
                connections = 3
                max_connections = 3
                \(both)
                """, file: file)
        let dispatch = configuration.dispatchLimits
        #expect(dispatch.totalInFlight == 13)
        #expect(dispatch.retry.attempts == 7)
        #expect(dispatch.retry.patience == .seconds(17))
        #expect(dispatch.replaySeconds == 18)
        #expect(dispatch.replayEntries == 1900)
        let spool = try #require(configuration.spool)
        #expect(spool.file == "/etc/tocsin/state/spool.sqlite")
        #expect(spool.keyFile == "/media/stick/spool.key")
        #expect(spool.maximumBytes == 1_048_576)
        let (apple, google) = try services(of: configuration)
        #expect(apple.connections == 2...5)
        #expect(google.connections == 3...3)
    }

    @Test func `an absent key for delivery has its default`() throws {
        let configuration = try Configuration(text: minimal, file: file)
        let dispatch = configuration.dispatchLimits
        #expect(dispatch.totalInFlight == 4000)
        #expect(dispatch.retry.attempts == 5)
        #expect(dispatch.retry.patience == .seconds(20))
        #expect(dispatch.replaySeconds == 600)
        #expect(dispatch.replayEntries == 200_000)
        let (apple, google) = try services(of: Configuration(text: both, file: file))
        #expect(apple.connections == 1...8)
        #expect(google.connections == 1...8)
    }

    @Test func `the spool is off by default`() throws {
        for spool in ["", "[spool]\n", "[spool]\nenabled = false\n", "[spool]\nkey_file = \"k\"\nmax_bytes = 65536\n"] {
            let configuration = try Configuration(text: "\(spool)\(minimal)", file: file)
            #expect(configuration.spool == nil)
        }
    }

    @Test func `the spool is in the state directory, its key wherever key_file says`() throws {
        let spool = "[spool]\nenabled = true\n"
        let beside = try Configuration(text: "\(spool)\(minimal)", file: file).spool
        #expect(beside?.file == "/etc/tocsin/state/spool.sqlite")
        #expect(beside?.keyFile == "/etc/tocsin/state/spool.key")
        #expect(beside?.maximumBytes == 268_435_456)
        let elsewhere = try Configuration(
            text: "[node]\nstate = \"/var/lib/tocsin\"\n\(spool)key_file = \"keys/spool.key\"\n\(minimal)", file: file
        ).spool
        #expect(elsewhere?.file == "/var/lib/tocsin/spool.sqlite")
        #expect(elsewhere?.keyFile == "/etc/tocsin/keys/spool.key")
    }

    @Test func `connections above the default of max_connections raises it`() throws {
        for table in ["apns", "fcm"] {
            let configuration = try Configuration(text: "[\(table)]\nconnections = 20\n\(both)", file: file)
            let (apple, google) = try services(of: configuration)
            #expect((table == "apns" ? apple.connections : google.connections) == 20...20)
            #expect((table == "apns" ? google.connections : apple.connections) == 1...8)
        }
    }

    @Test func `a proxy may be HTTP or SOCKS5`() throws {
        let proxies: [(text: String, host: String, port: UInt16, speaksSOCKS: Bool)] = [
            ("http://127.0.0.1:3128", "127.0.0.1", 3128, false), ("http://[::1]:3128", "::1", 3128, false),
            ("http://proxy.example:80", "proxy.example", 80, false),
            ("socks5://127.0.0.1:9050", "127.0.0.1", 9050, true),
            ("socks5h://localhost:9050", "localhost", 9050, true),
        ]
        for (text, host, port, speaksSOCKS) in proxies {
            let configuration = try Configuration(text: "[outbound]\nproxy = \"\(text)\"\n\(minimal)", file: file)
            let proxy = try #require(configuration.outboundProxy)
            #expect(proxy.endpoint == Endpoint.tcp(host: host, port: port))
            if case .socks5(_, let credentials) = proxy {
                #expect(speaksSOCKS)
                // With credentials, tor uses separate circuits for these connections.
                #expect(credentials != nil)
            } else {
                #expect(!speaksSOCKS)
            }
        }
    }

    @Test func `a relative path is relative to the configuration file`() throws {
        let text = """
            [node]
            state = "var/state"
            [listen]
            tnp = "unix:./tnp.sock"
            [apns]
            trust_file = "ca.pem"
            [fcm]
            trust_file = "../ca.pem"
            [[app]]
            name = "one"
            [app.apns]
            topic = "a.b"
            key_file = "keys/a.p8"
            key_id = "ABC123DEFG"
            team_id = "TEAM123456"
            [app.fcm]
            service_account_file = "firebase.json"
            [[app]]
            name = "two"
            [app.apns]
            topic = "a.c"
            certificate_file = "push.p12"
            certificate_password_file = "push.password"
            """
        // The results are absolute, because a child process may have another working directory.
        let working = FileManager.default.currentDirectoryPath
        for (file, directory) in [
            ("/etc/tocsin/tocsin.toml", "/etc/tocsin"), ("tocsin.toml", working), ("a/t.toml", "\(working)/a"),
        ] {
            let configuration = try Configuration(text: text, file: file)
            #expect(configuration.state == "\(directory)/var/state")
            #expect(configuration.listen.tnp == Endpoint.unix(path: "\(directory)/./tnp.sock"))
            let (apple, google) = try services(of: configuration)
            #expect(apple.trustFile == "\(directory)/ca.pem")
            #expect(google.trustFile == "\(directory)/../ca.pem")
            try #require(configuration.apps.count == 2)
            let token = try #require(configuration.apps[0].delivery(APNsDelivery.self))
            #expect(
                token.credentials[0].reference
                    == AppleKeyCredential.reference(
                        file: "\(directory)/keys/a.p8", keyID: "ABC123DEFG", teamID: "TEAM123456"))
            #expect(
                configuration.apps[0].delivery(FCMDelivery.self)?.serviceAccountFile == "\(directory)/firebase.json")
            let certificate = try #require(configuration.apps[1].delivery(APNsDelivery.self))
            #expect(
                certificate.credentials[0].reference
                    == AppleCertificateCredential.reference(
                        file: "\(directory)/push.p12", passwordFile: "\(directory)/push.password"))
        }
    }

    @Test func `a certificate needs no password file`() throws {
        let configuration = try Configuration(text: apple("certificate_file = \"push.p12\""), file: file)
        let apns = try #require(configuration.apps.first?.delivery(APNsDelivery.self))
        #expect(
            apns.credentials[0].reference
                == AppleCertificateCredential.reference(file: "/etc/tocsin/push.p12", passwordFile: nil))
    }

    @Test(arguments: ["trace", "debug", "info", "notice", "warning", "error", "critical"])
    func `each log level is accepted by its name`(_ level: String) throws {
        let configuration = try Configuration(text: "[node]\nlog = \"\(level)\"\n\(minimal)", file: file)
        #expect(configuration.logLevel.rawValue == level)
    }

    // MARK: Unknown keys

    @Test func `an unknown key is an error that names it, at every level`() {
        let texts: [(key: String, text: String)] = [
            (key: "colour", text: "colour = 1\n\(minimal)"),
            (key: "metrics", text: "[metrics]\n\(minimal)"),
            (key: "node.colour", text: "[node]\ncolour = 1\n\(minimal)"),
            (key: "listen.colour", text: "[listen]\ncolour = 1\n\(minimal)"),
            (key: "limits.colour", text: "[limits]\ncolour = 1\n\(minimal)"),
            (key: "spool.colour", text: "[spool]\ncolour = 1\n\(minimal)"),
            (key: "apns.colour", text: "[apns]\ncolour = 1\n\(minimal)"),
            (key: "fcm.colour", text: "[fcm]\ncolour = 1\n\(minimal)"),
            (key: "outbound.colour", text: "[outbound]\ncolour = 1\n\(minimal)"),
            (key: "app[1].colour", text: "[[app]]\ncolour = 1\nname = \"x\"\n[app.fcm]\nservice_account_file = \"f\""),
            (key: "app[1].apns.colour", text: apple("\(key)\ncolour = 1")),
            (key: "app[1].fcm.colour", text: "\(minimal)colour = 1\n"),
            (key: "app[2].fcm.colour", text: "\(minimal)\(named("two"))colour = 1\n"),
        ]
        for (key, text) in texts {
            let error = problem(in: text)
            #expect(error?.key == key)
            #expect(error?.problem.contains("unknown key") == true, "\(key)")
            #expect(error?.description.contains(" \(key): ") == true, "\(key)")
        }
    }

    @Test func `an error for an unknown key suggests a similar key or lists all`() {
        let near = problem(in: "[limits]\nconections = 5\n\(minimal)")
        #expect(near?.key == "limits.conections")
        #expect(near?.problem.contains("did you mean connections?") == true)
        let far = problem(in: "[listen]\nport = 5\n\(minimal)")
        #expect(far?.key == "listen.port")
        #expect(
            far?.problem.contains(
                "known keys: admin, admin_token_file, allow_public, allow_public_admin, circuit_ids, direct_http, http, tnp"
            ) == true
        )
    }

    // MARK: Invalid values

    @Test func `a value of the wrong type is an error that states what is expected`() {
        let texts: [(key: String, expected: String, text: String)] = [
            (key: "node", expected: "must be a table: [node]", text: "node = 1\n\(minimal)"),
            (key: "listen", expected: "must be a table: [listen]", text: "listen = \"x\"\n\(minimal)"),
            (key: "apns", expected: "must be a table: [apns]", text: "apns = true\n\(minimal)"),
            (key: "node.state", expected: "a directory, in quotes", text: "[node]\nstate = 1\n\(minimal)"),
            (key: "node.log", expected: "one of \"trace\", \"debug\"", text: "[node]\nlog = 3\n\(minimal)"),
            (key: "node.log", expected: "\"error\", \"critical\"", text: "[node]\nlog = \"loud\"\n\(minimal)"),
            (
                key: "node.log_format", expected: "one of \"text\", \"json\"",
                text: "[node]\nlog_format = \"xml\"\n\(minimal)"
            ),
            (key: "listen.tnp", expected: "like \"127.0.0.1:7077\"", text: "[listen]\ntnp = 7077\n\(minimal)"),
            (
                key: "listen.circuit_ids", expected: "true or false",
                text: "[listen]\ncircuit_ids = \"true\"\n\(minimal)"
            ),
            (key: "listen.allow_public", expected: "true or false", text: "[listen]\nallow_public = 1\n\(minimal)"),
            (
                key: "limits.connections", expected: "whole number from 1 to 100000",
                text: "[limits]\nconnections = \"many\"\n\(minimal)"
            ),
            (
                key: "limits.max_frame", expected: "whole number from 4096 to 65536",
                text: "[limits]\nmax_frame = 8192.0\n\(minimal)"
            ),
            (
                key: "limits.patience", expected: "whole number from 0 to 600",
                text: "[limits]\npatience = \"long\"\n\(minimal)"
            ),
            (key: "spool", expected: "must be a table: [spool]", text: "spool = true\n\(minimal)"),
            (key: "spool.enabled", expected: "true or false", text: "[spool]\nenabled = 1\n\(minimal)"),
            (key: "spool.key_file", expected: "a file, in quotes", text: "[spool]\nkey_file = 1\n\(minimal)"),
            (
                key: "spool.max_bytes", expected: "whole number from 65536 to 1099511627776",
                text: "[spool]\nmax_bytes = \"1G\"\n\(minimal)"
            ),
            (
                key: "apns.connections", expected: "whole number from 1 to 100",
                text: "[apns]\nconnections = true\n\(minimal)"
            ),
            (key: "apns.production", expected: "in quotes", text: "[apns]\nproduction = 1\n\(minimal)"),
            (key: "apns.trust_file", expected: "in quotes", text: "[apns]\ntrust_file = false\n\(minimal)"),
            (key: "fcm.endpoint", expected: "in quotes", text: "[fcm]\nendpoint = []\n\(minimal)"),
            (key: "outbound.proxy", expected: "in quotes", text: "[outbound]\nproxy = 9050\n\(minimal)"),
            (key: "app", expected: "[[app]]", text: "app = 1"),
            (key: "app", expected: "[[app]]", text: "[app]\nname = \"bisq\""),
            (key: "app", expected: "[[app]]", text: "app = [1, 2]"),
            (key: "app[1].name", expected: "the app's name", text: "[[app]]\nname = 5"),
            (key: "app[1].format", expected: "one of \"pipe\", \"sealed\"", text: "[[app]]\nname = \"x\"\nformat = 1"),
            (
                key: "app[1].format", expected: "one of \"pipe\", \"sealed\"",
                text: "[[app]]\nname = \"x\"\nformat = \"Pipe\""
            ),
            (key: "app[1].apns", expected: "must be a table", text: "[[app]]\nname = \"x\"\napns = 1"),
            (key: "app[1].fcm", expected: "must be a table", text: "[[app]]\nname = \"x\"\nfcm = \"file\""),
            (key: "app[1].fcm.data_only", expected: "true or false", text: "\(minimal)data_only = \"no\"\n"),
            (key: "app[1].fcm.title", expected: "in quotes", text: "\(minimal)title = 1\n"),
            (
                key: "app[1].apns.mutable_content", expected: "one of \"always\"",
                text: apple("\(key)\nmutable_content = 1")
            ),
        ]
        for (key, expected, text) in texts {
            let error = problem(in: text)?.all.first { $0.key == key }
            #expect(error?.problem.contains(expected) == true, "\(key): \(error?.problem ?? "nothing")")
        }
    }

    @Test func `all errors of a file are told, each with its line and the name of what it belongs to`() {
        let text = """
            [limits]
            device_burst = "x"
            circuits = 3
            conections = 1
            [listen]
            http = "0.0.0.0:1"
            [[app]]
            name = "bisq"
            [app.apns]
            topik = "a.b"
            [app.web]
            sound = 1
            [[app]]
            name = "own"
            [app.fcm]
            service_account_file = "firebase.json"
            data_only = 3
            [canary]
            app = "other"
            [[tor.onion]]
            name = "desk"
            ports = [0]
            [lissten]
            """
        let error = problem(in: text)
        let lines = error?.all.map { "\($0.line ?? 0): \($0.owner.map { "\($0): " } ?? "")\($0.key ?? "")" }
        #expect(
            lines == [
                "2: limits.device_burst", "3: limits.circuits", "4: limits.conections", "6: listen.http",
                "10: bisq: app[1].apns.topik", "11: bisq: app[1].web.contact", "17: own: app[2].fcm.data_only",
                "19: canary.app", "22: desk: tor.onion[1].ports", "23: lissten",
            ])
        #expect(
            error?.description.split(separator: "\n").dropFirst(4).first
                == "\(file):10: \"bisq\": app[1].apns.topik: unknown key; did you mean topic?")
    }

    @Test func `an error does not cause further ones`() {
        for text in [
            "[[app]]\nname = \"x\"\n[app.apns]\ntopik = \"a.b\"\nother = 1\n", "[[app]]\nname = \"x\"\napns = 1\n",
            "[[app]]\nnaem = \"x\"\nother = 1\n[app.fcm]\nservice_account_file = \"f\"\n[canary]\napp = \"x\"\n",
            "[puzzle]\neffort = 0\n\(minimal)", "[apns]\nproduction = \"http://x\"\n\(minimal)",
            "[[site]]\nname = \"x\"\nrate_burst = 1\n\(minimal)",
        ] {
            #expect(problem(in: text)?.all.count == 1, "\(text)")
        }
    }

    @Test(arguments: [
        ("a = 1", "a", 1), ("\n[t]\n a = 1", "t.a", 3), ("[t]\nb = 1", "t.a", 1), ("[t]\n\"a\" = 1", "t.a", 2),
        ("[[t]]\n[[t]]\n[t.u]\na = 1", "t[2].u.a", 4), ("[[t]]\n[t.u]\na = 1\n[[t]]\n[t.u]\na = 2", "t[1].u.a", 3),
        ("t.a = 1", "t.a", 1), ("x = \"\"\"\na = 1\n\"\"\"\na = 2", "a", 4), ("# a = 1\r\na = 1\r\n", "a", 2),
        ("[[t.u]]\na = 1\n[[t.u]]\na = 2", "t.u[2].a", 4),
    ])
    func `a key's line is found in the text`(_ text: String, _ key: String, _ line: Int) {
        #expect(KeyLines(text).line(of: key) == line)
        #expect(KeyLines(text).line(of: "other") == nil)
    }

    @Test func `a limit is accepted at both ends of its range and not beyond`() throws {
        typealias Limits = Configuration.Limits
        let limits: [(key: String, range: ClosedRange<Int>, value: (Limits) -> Int)] = [
            (key: "connections", range: 1...100_000, value: { $0.connections }),
            (key: "in_flight", range: 1...10_000, value: { $0.inFlight }),
            (key: "total_in_flight", range: 1...1_000_000, value: { $0.totalInFlight }),
            (key: "max_frame", range: 4096...65_536, value: { $0.maximumFrame }),
            (key: "handshake_timeout", range: 1...600, value: { $0.handshakeTimeout }),
            (key: "idle_timeout", range: 1...86_400, value: { $0.idleTimeout }),
            (key: "shutdown_timeout", range: 1...600, value: { $0.shutdownTimeout }),
            (key: "attempts", range: 1...100, value: { $0.attempts }),
            (key: "patience", range: 0...600, value: { $0.patience }),
            (key: "replay_window", range: 1...86_400, value: { $0.replayWindow }),
            (key: "replay_entries", range: 1000...10_000_000, value: { $0.replayEntries }),
        ]
        for (key, range, value) in limits {
            for number in [range.lowerBound, range.upperBound] {
                let configuration = try Configuration(text: "[limits]\n\(key) = \(number)\n\(minimal)", file: file)
                #expect(value(configuration.limits) == number, "\(key)")
            }
            for number in [range.lowerBound - 1, range.upperBound + 1, -1] {
                let error = problem(in: "[limits]\n\(key) = \(number)\n\(minimal)")
                #expect(error?.key == "limits.\(key)")
                let expected = "must be a whole number from \(range.lowerBound) to \(range.upperBound)"
                #expect(error?.problem == "is \(number), but \(expected)")
            }
        }
    }

    @Test func `spool size and pool sizes are accepted within their ranges only`() throws {
        let numbers: [(table: String, key: String, range: ClosedRange<Int>)] = [
            (table: "spool", key: "max_bytes", range: 65_536...1_099_511_627_776),
            (table: "apns", key: "connections", range: 1...100),
            (table: "apns", key: "max_connections", range: 1...100),
            (table: "fcm", key: "connections", range: 1...100),
            (table: "fcm", key: "max_connections", range: 1...100),
        ]
        for (table, key, range) in numbers {
            for number in [range.lowerBound, range.upperBound] {
                #expect(throws: Never.self, "\(key) = \(number)") {
                    try Configuration(text: "[\(table)]\n\(key) = \(number)\n\(minimal)", file: file)
                }
            }
            for number in [range.lowerBound - 1, range.upperBound + 1, -1] {
                let error = problem(in: "[\(table)]\n\(key) = \(number)\n\(minimal)")
                #expect(error?.key == "\(table).\(key)")
                let expected = "must be a whole number from \(range.lowerBound) to \(range.upperBound)"
                #expect(error?.problem == "is \(number), but \(expected)")
            }
        }
    }

    @Test func `max_connections below connections is an error`() {
        for table in ["apns", "fcm"] {
            let error = problem(in: "[\(table)]\nconnections = 4\nmax_connections = 3\n\(minimal)")
            #expect(error?.key == "\(table).max_connections")
            #expect(error?.problem == "is 3, but must be a whole number from 4 to 100")
        }
    }

    @Test func `a syntax error names its line`() {
        let texts: [(line: Int, text: String)] = [
            (line: 1, text: "= 1"), (line: 2, text: "[node]\nlog = loud\n"),
            (line: 3, text: "[node]\nlog = \"info\"\nlog_format = = 5\n"),
        ]
        for (line, text) in texts {
            let error = problem(in: text)
            #expect(error?.key == nil)
            #expect(error?.file.hasPrefix("\(file):\(line):") == true, "\(error?.file ?? "nothing")")
            #expect(error?.problem.isEmpty == false)
        }
    }

    @Test(arguments: [
        ("name = bisq", "name"), ("  key_file = /etc/tocsin/apns.p8", "key_file"), ("log = loud # text", "log"),
        ("tnp = 127.0.0.1:7077", "tnp"), ("topic = ~x", "topic"),
    ])
    func `a string without quotes is an error that says so`(_ line: String, _ key: String) {
        #expect(SyntaxAdvice.sentence(for: line) == "a string needs quotes: \(key) = \"…\"")
        let error = problem(in: "[node]\n\(line)\n")
        #expect(error?.file.hasPrefix("\(file):2:") == true)
        #expect(error?.problem.contains("a string needs quotes: \(key)") == true)
    }

    @Test(arguments: [
        ("managed = no", "no is no value of TOML: managed = false, or a string in quotes"),
        ("managed = Yes # text", "Yes is no value of TOML: managed = true, or a string in quotes"),
        ("managed = None", "None is no value of TOML: leave the line out"),
        ("managed = False", "TOML writes it in lower case: managed = false"),
        ("managed = TRUE", "TOML writes it in lower case: managed = true"),
        ("state = “tor”", "“ is a typographic quotation mark: TOML wants the straight one, \""),
        ("state = `tor`", "` is a typographic quotation mark: TOML wants the straight one, \""),
        ("state\u{A0}= \"tor\"", "there is a space that is not plain (U+A0): type it anew"),
        ("state = \"tor", "the closing \" is missing"), ("state = 'tor", "the closing ' is missing"),
        ("state: \"tor\"", "= is missing after the key: state = …"),
        ("managed true", "= is missing after the key: managed = …"),
        ("export managed = true", "only one key stands before ="), ("managed =", "the value of managed is missing"),
        ("; text", "a comment begins with #"), ("// text", "a comment begins with #"),
        ("managed = true;", "a line ends without ;"), ("state = \"a\",", "a line ends without ,"),
        ("state = \"a\" b", "one value only: a comment begins with #, a list stands in [ ]"),
        ("a = true x", "one value only: a comment begins with #, a list stands in [ ]"),
        ("ports = [80 443]", "the values of a list have commas between them"),
        ("ports = [80, 443", "the list's closing ] is missing"),
        ("a = 5 5", "a number has no spaces; _ may stand between digits: 1_000"),
        ("a = 1,000", "a number has no commas; _ may stand between digits: 1_000"),
        ("a = 10 MB", "a number has no unit"), ("a = 5s", "a number has no unit"),
        ("a = 10%", "a number has no unit"), ("a = 010", "a number has no leading zeroes"),
        ("[node", "a table's name ends with ]"), ("[[app", "a table's name ends with ]]"),
    ])
    func `what TOML wants stands in one sentence`(_ line: String, _ sentence: String) {
        #expect(SyntaxAdvice.sentence(for: line) == sentence)
        let error = problem(in: "[node]\n\(line)\n")
        #expect(error?.problem.contains(sentence) == true || line.hasPrefix("["), "\(error?.problem ?? "nothing")")
        #expect(error?.problem.contains { $0.isNewline } == false)
    }

    @Test(arguments: ["= 1", "# a = b", "", "a == 1", "a = {"])
    func `another syntax error has the parser's words only`(_ line: String) {
        #expect(SyntaxAdvice.sentence(for: line) == nil)
    }

    @Test func `a secret that was pasted into the file is not in the error`() {
        let key = String(repeating: "MIGHAgEAMBMG", count: 5)
        for line in [key, key + "==", key + " = yes", key + " x", "hunter2!x", "c2VjcmV0="] {
            #expect(problem(in: "[node]\n\(line)\n")?.problem.contains("hunter2") != true)
            #expect(problem(in: "[node]\n\(line)\n")?.problem.contains("c2VjcmV0") != true)
            #expect(problem(in: "[node]\n\(line)\n")?.problem.contains("MIGHAgEAMBMGMIGH") == false)
        }
    }

    @Test func `a byte of value 0 does not end the configuration unnoticed`() {
        #expect(problem(in: "[node]\nlog = \"info\"\n\0[tor]\n")?.problem == "has a byte of value 0")
    }

    @Test func `a missing file is an error that names it`() {
        let missing = "/nowhere/at/all/tocsin.toml"
        let error = #expect(throws: ConfigurationError.self) { try Configuration(file: missing) }
        #expect(error?.file == missing)
        #expect(error?.key == nil)
        #expect(error?.problem == "cannot be read: No such file or directory")
    }

    // MARK: Apps

    @Test func `a configuration requires an app`() {
        for text in ["", "# nothing\n", "[node]\nlog = \"info\"\n"] {
            let error = problem(in: text)
            #expect(error?.key == nil)
            #expect(error?.problem.contains("[[app]]") == true)
        }
    }

    @Test func `an app requires a name`() {
        for text in ["[[app]]\n", "[[app]]\nname = \"\"\n", "[[app]]\n[app.fcm]\nservice_account_file = \"f\"\n"] {
            let error = problem(in: text)
            #expect(error?.key == "app[1].name")
            #expect(error?.problem.contains("is missing") == true)
            #expect(error?.problem.contains("the app's name") == true)
        }
    }

    @Test func `an app's name is at most 64 ASCII characters without spaces and slashes`() throws {
        for name in ["a b", "a/b", "caf\u{E9}", " ", String(repeating: "a", count: 65)] {
            let error = problem(in: named(name))
            #expect(error?.key == "app[1].name")
            #expect(error?.problem.contains("64 ASCII characters") == true)
        }
        let longest = String(repeating: "a", count: 64)
        let configuration = try Configuration(text: named(longest), file: file)
        #expect(configuration.apps.first?.name == longest)
    }

    @Test func `an app requires app.apns or app.fcm`() {
        let error = problem(in: "[[app]]\nname = \"bisq\"\n")
        #expect(error?.key == "app[1].name")
        #expect(error?.problem.contains("neither [app.apns] nor [app.fcm]") == true)
    }

    private static let onion = String(repeating: "a", count: 55) + "d"

    @Test func `an app may have upstream nodes in place of credentials, or beside them`() throws {
        let address = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion"
        let configuration = try Configuration(
            text: """
                [[app]]
                name = "bisq"
                [app.upstream]
                node = ["\(address.uppercased()):7077", "\(address):7078"]
                app = "other"
                message_magic_ios = "M1"
                """, file: "/etc/tocsin/tocsin.toml")
        let upstream = try #require(configuration.apps[0].delivery(UpstreamDelivery.self))
        #expect(upstream.nodes == [.tcp(host: address, port: 7077), .tcp(host: address, port: 7078)])
        #expect(upstream.app == "other" && !upstream.isDirect)
        #expect(upstream.messageMagic(on: .iOS) == "M1" && upstream.messageMagic(on: .android) == "BisqMessageAndroid")
        #expect(configuration.tor.hasSOCKSPort)
        let direct = try Configuration(
            text: "[[app]]\nname = \"x\"\n[app.upstream]\nnode = \"unix:b.sock\"\ndirect = true", file: "/etc/t.toml")
        #expect(direct.apps[0].delivery(UpstreamDelivery.self)?.nodes == [.unix(path: "/etc/b.sock")])
        #expect(!direct.tor.hasSOCKSPort)
    }

    @Test func `the address of an OnionBalance must be valid`() throws {
        let address = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion"
        let text =
            "[tor]\nonionbalance = \"\(address)\"\n"
            + apple("key_file = \"a.p8\"\nkey_id = \"ABC123DEFG\"\nteam_id = \"DEF123GHIJ\"")
        let tor = try Configuration(text: text, file: file).tor
        #expect(tor.settings(state: "/s").onionBalance.map { "\($0)" } == address)
        #expect(
            problem(in: text.replacing("25njq", with: "25njp"))?.description.contains(
                "tor.onionbalance: must be an onion address of version 3") == true)
    }

    @Test func `systemd's tor has a directory of its own`() throws {
        func tor(_ text: String) throws -> TorSettings {
            try Configuration(text: "[tor]\n\(text)\n\(minimal)", file: "/etc/t.toml").tor.settings(state: "/s")
        }
        #expect(try tor("").runner == .node && tor("").directory == "/s/tor")
        let service = try tor("run_by = \"service\"")
        #expect(service.runner == .service && service.directory == "/var/lib/tocsin-tor")
        #expect(service.statusFile == "/s/tor/status")
        #expect(try tor("run_by = \"service\"\ndirectory = \"x\"").directory == "/etc/x")
        let error = #expect(throws: ConfigurationError.self) {
            try tor("run_by = \"service\"\nbinary = \"/opt/tor\"")
        }
        #expect(error?.description.contains("systemctl edit tocsin-tor") == true)
    }

    @Test func `the node's tor may serve further onions`() throws {
        let text = """
            [listen]
            http = "127.0.0.1:7080"
            [[tor.onion]]
            name = "bisq2"
            ports = [8021]
            [[tor.onion]]
            name = "old"
            clients = "authorized"
            [[app]]
            name = "x"
            [app.upstream]
            node = "127.0.0.1:1"
            direct = true
            """
        let onions = try Configuration(text: text, file: "t.toml").tor.onions
        #expect(onions.map(\.name.description) == ["bisq2", "old"])
        #expect(onions.map(\.ports) == [[8021], [7077, 80, 8021]] && onions.map(\.isClosed) == [false, true])
        for (right, wrong, problem) in [
            ("\"old\"", "\"bisq2\"", "tor.onion[2].name: another onion is named bisq2"),
            ("\"old\"", "\"a/b\"", "tor.onion[2].name: must be 1 to 64 letters"),
            ("[8021]", "[0]", "tor.onion[1].ports: must be a list of different ports"),
            ("[8021]", "[80, 80]", "tor.onion[1].ports: must be a list"),
            ("http = ", "# http = ", "tor.onion[1].ports: a port other than 7077 leads to listen.http"),
            ("\"authorized\"", "\"alice\"", "tor.onion[2].clients: must be one of \"everyone\", \"authorized\""),
        ] {
            let error = #expect(throws: ConfigurationError.self) {
                try Configuration(text: text.replacing(right, with: wrong), file: "t.toml")
            }
            #expect(error?.description.contains(problem) == true, "\(error?.description ?? "")")
        }
    }

    @Test(arguments: [
        ("", "app[1].upstream.node: is missing"), ("node = 7", "app[1].upstream.node: must be an address"),
        ("node = []", "app[1].upstream.node: must be an address"),
        ("node = \"example.onion\"", "app[1].upstream.node: must be an address"),
        ("node = \"\(onion).onion:7077\"", "is not a valid onion address"),
        ("node = \"192.168.1.2:7077\"", "set direct = true"),
        ("node = \"unix:/b.sock\"", "app[1].upstream.node: must be an address"),
        (
            "node = \"25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion:1\"\ndirect = true",
            "app[1].upstream.direct: an onion address is reached through tor only"
        ),
        ("node = \"[::1]:7077\"\ndirect = true\napp = \"a b\"", "app[1].upstream.app: must be at most 64"),
        (
            "node = [\(Array(repeating: "\"127.0.0.1:1\"", count: 9).joined(separator: ", "))]\ndirect = true",
            "lists more than 8 nodes"
        ),
    ])
    func `a wrong upstream is an error that names the key`(_ keys: String, _ problem: String) {
        let error = #expect(throws: ConfigurationError.self) {
            try Configuration(text: "[[app]]\nname = \"x\"\n[app.upstream]\n\(keys)", file: "t.toml")
        }
        #expect(error?.description.contains(problem) == true, "\(error?.description ?? "")")
    }

    @Test func `two apps with the same name are an error`() {
        let error = problem(in: "\(minimal)\(named("two"))\(minimal)")
        #expect(error?.key == "app[3].name")
        #expect(error?.problem.contains("another app is named bisq") == true)
    }

    @Test func `more apps than WELCOME can list are an error`() throws {
        let longest = (1...63).map { named("app\($0)") }.joined()
        #expect(try Configuration(text: longest, file: file).apps.count == 63)
        let error = problem(in: "\(longest)\(minimal)")
        #expect(error?.key == "app")
        #expect(error?.problem.contains("63") == true)
    }

    @Test func `app.fcm requires a service account file`() {
        for lines in ["", "service_account_file = \"\"\n"] {
            let error = problem(in: "[[app]]\nname = \"bisq\"\n[app.fcm]\n\(lines)")
            #expect(error?.key == "app[1].fcm.service_account_file")
            #expect(error?.problem.contains("the JSON file from Firebase") == true)
        }
    }

    @Test func `app.apns requires a topic`() {
        for lines in ["", "topic = \"\"\n"] {
            let error = problem(in: "[[app]]\nname = \"bisq\"\n[app.apns]\n\(lines)\(key)\n")
            #expect(error?.key == "app[1].apns.topic")
            #expect(error?.problem.contains("bundle id") == true)
        }
    }

    @Test func `a message magic is at most 64 ASCII letters and digits`() {
        for magic in ["Bisq|Message", "Bisq Message", "Bisq\u{E9}", String(repeating: "a", count: 65)] {
            let apnsError = problem(in: apple("\(key)\nmessage_magic = \"\(magic)\""))
            #expect(apnsError?.key == "app[1].apns.message_magic")
            #expect(apnsError?.problem.contains("64 ASCII letters and digits") == true)
            let fcmError = problem(in: "\(minimal)message_magic = \"\(magic)\"\n")
            #expect(fcmError?.key == "app[1].fcm.message_magic")
            #expect(fcmError?.problem.contains("64 ASCII letters and digits") == true)
        }
    }

    // MARK: Apple's credentials

    @Test func `app.apns requires a key or a certificate`() {
        for lines in ["", "key_id = \"ABC123DEFG\"", "certificate_password_file = \"p\""] {
            let error = problem(in: apple(lines))
            #expect(error?.key == "app[1].apns.key_file")
            #expect(error?.problem.contains("is missing") == true)
            #expect(error?.problem.contains("certificate_file") == true)
        }
    }

    @Test func `a key and a certificate exclude each other`() {
        let error = problem(in: apple("\(key)\ncertificate_file = \"push.p12\""))
        #expect(error?.key == "app[1].apns.key_file")
        #expect(error?.problem.contains("not both") == true)
    }

    @Test func `a certificate takes neither key_id nor team_id`() {
        for extra in ["key_id = \"ABC123DEFG\"", "team_id = \"TEAM123456\""] {
            let error = problem(in: apple("certificate_file = \"push.p12\"\n\(extra)"))
            #expect(error?.key == "app[1].apns.key_id")
            #expect(error?.problem.contains("needs neither key_id nor team_id") == true)
        }
    }

    @Test func `key_id and team_id are ten letters and digits`() {
        for wrong in ["", "ABC123DEF", "ABC123DEFGH", "ABC-123DEF", "ABC 123DEF", "ABC123DE\u{E9}"] {
            let keyID = problem(in: apple("key_file = \"a.p8\"\nkey_id = \"\(wrong)\"\nteam_id = \"TEAM123456\""))
            #expect(keyID?.key == "app[1].apns.key_id")
            #expect(keyID?.problem.contains("10 letters and digits") == true)
            let teamID = problem(in: apple("key_file = \"a.p8\"\nkey_id = \"ABC123DEFG\"\nteam_id = \"\(wrong)\""))
            #expect(teamID?.key == "app[1].apns.team_id")
            #expect(teamID?.problem.contains("10 letters and digits") == true)
        }
        #expect(problem(in: apple("key_file = \"a.p8\"\nteam_id = \"TEAM123456\""))?.key == "app[1].apns.key_id")
        #expect(problem(in: apple("key_file = \"a.p8\"\nkey_id = \"ABC123DEFG\""))?.key == "app[1].apns.team_id")
    }

    // MARK: Addresses

    @Test(arguments: ["0.0.0.0:7077", "[::]:7077", "192.168.1.5:7077", "128.0.0.1:7077", "node.example:7077"])
    func `a public address requires allow_public`(_ address: String) throws {
        let error = problem(in: "[listen]\ntnp = \"\(address)\"\n\(minimal)")
        #expect(error?.key == "listen.tnp")
        #expect(error?.problem.contains("other machines can reach \(address);") == true)
        #expect(error?.problem.contains("allow_public = true") == true)
        let text = "[listen]\ntnp = \"\(address)\"\nallow_public = true\n\(minimal)"
        let configuration = try Configuration(text: text, file: file)
        #expect(configuration.listen.tnp.description == address)
    }

    @Test(arguments: ["127.0.0.1:1", "127.1.2.3:65535", "[::1]:7077", "localhost:7077", "unix:/run/tocsin/tnp.sock"])
    func `a local address is accepted`(_ address: String) throws {
        let configuration = try Configuration(text: "[listen]\ntnp = \"\(address)\"\n\(minimal)", file: file)
        #expect(configuration.listen.tnp.description == address)
    }

    @Test func `the node listens for its own tor at sockets that nobody else reaches`() throws {
        func listen(_ text: String, isManaged: Bool) throws -> [String?] {
            var configuration = try Configuration(
                text: "[node]\nstate = \"/s\"\n\(text)\n\(minimal)", file: "/etc/t.toml")
            configuration.decideTor(isManaged)
            return [configuration.listen.tnp.description, configuration.listen.http?.description]
        }
        let on = "[listen]\nhttp = \"on\""
        #expect(try listen("", isManaged: true) == ["unix:/s/tnp.sock", nil])
        #expect(try listen(on + "\ntnp = \"on\"", isManaged: true) == ["unix:/s/tnp.sock", "unix:/s/http.sock"])
        #expect(
            try listen(on + "\n[tor]\nrun_by = \"service\"", isManaged: true)
                == ["unix:/run/tocsin/tnp.sock", "unix:/run/tocsin/http.sock"])
        #expect(try listen(on, isManaged: false) == ["127.0.0.1:7077", "127.0.0.1:7080"])
        let chosen = "[listen]\ntnp = \"127.0.0.1:1\"\nhttp = \"127.0.0.1:2\""
        #expect(try listen(chosen, isManaged: true) == ["127.0.0.1:1", "127.0.0.1:2"])
        #expect(problem(in: "[listen]\nadmin = \"on\"\n\(minimal)")?.key == "listen.admin")
        #expect(
            problem(in: "[listen]\nhttp = \"off\"\n\(minimal)")?.problem.contains(
                "must be \"on\", or an address like") == true)
    }

    @Test func `a directory that the start makes is no obstacle`() throws {
        var configuration = try Configuration(
            text: "[node]\nstate = \"/nowhere\"\n[listen]\nhttp = \"unix:/nowhere/else/http.sock\"\n\(minimal)",
            file: file)
        configuration.decideTor(true)
        let listen = configuration.listen
        #expect(listen.obstacle(to: listen.tnp) == nil)
        #expect(try listen.obstacle(to: #require(listen.http)) != nil)
    }

    @Test(arguments: ["", "7077", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", ":7077", "::1:7077"])
    func `an invalid address is an error`(_ address: String) {
        let error = problem(in: "[listen]\ntnp = \"\(address)\"\nallow_public = true\n\(minimal)")
        #expect(error?.key == "listen.tnp")
        #expect(error?.problem.contains("\"127.0.0.1:7077\" or \"unix:/run/tocsin/tnp.sock\"") == true)
    }

    @Test func `a unix socket's path is 1 to 107 bytes long`() throws {
        let longest = "/" + String(repeating: "a", count: 106)
        for path in ["", "\(longest)a"] {
            let error = problem(in: "[listen]\ntnp = \"unix:\(path)\"\n\(minimal)")
            #expect(error?.key == "listen.tnp")
            #expect(error?.problem.contains("unix:/run/tocsin/tnp.sock") == true)
        }
        let configuration = try Configuration(text: "[listen]\ntnp = \"unix:\(longest)\"\n\(minimal)", file: file)
        #expect(configuration.listen.tnp == Endpoint.unix(path: longest))
    }

    @Test(arguments: ["", "api.push.apple.com", "http://push.apple.com", "https://", "https:///3", "https://a:99999"])
    func `an invalid URL is an error`(_ url: String) {
        let services: [(table: String, key: String, example: String)] = [
            (table: "apns", key: "production", example: "https://api.push.apple.com"),
            (table: "apns", key: "development", example: "https://api.development.push.apple.com"),
            (table: "fcm", key: "endpoint", example: "https://fcm.googleapis.com"),
        ]
        for (table, key, example) in services {
            let error = problem(in: "[\(table)]\n\(key) = \"\(url)\"\n\(minimal)")
            #expect(error?.key == "\(table).\(key)")
            #expect(error?.problem.contains(example) == true)
        }
    }

    @Test(arguments: [
        "", "127.0.0.1:9050", "https://127.0.0.1:9050", "socks4://127.0.0.1:9050", "socks5://", "socks5://127.0.0.1",
        "http://", "http://127.0.0.1", "http://127.0.0.1:0", "http://127.0.0.1:3128/path",
        "http://127.0.0.1:3128?query", "unix:/run/proxy.sock",
    ])
    func `an invalid proxy is an error`(_ proxy: String) {
        let error = problem(in: "[outbound]\nproxy = \"\(proxy)\"\n\(minimal)")
        #expect(error?.key == "outbound.proxy")
        #expect(error?.problem.contains("socks5://127.0.0.1:9050") == true)
        #expect(error?.problem.contains("http://127.0.0.1:3128") == true)
    }

    @Test(arguments: ["socks5", "http"])
    func `a login in a proxy's URL is an error that does not repeat it`(_ scheme: String) {
        let error = problem(in: "[outbound]\nproxy = \"\(scheme)://someone:secret@127.0.0.1:3128\"\n\(minimal)")
        #expect(error?.key == "outbound.proxy")
        #expect(error?.problem.contains("without a login") == true)
        #expect(error?.description.contains("secret") == false)
        #expect(error?.description.contains("someone") == false)
    }

    @Test(arguments: [
        "[", "[\n", "[[\n", "  [.a]", "[=]", "[#", "[é]", "\t[ \u{7F}", "\u{A0}[,", "a = 1\r\n[]", "\u{FEFF}[ ]",
    ])
    func `a table without a name is an error, not a crash`(_ text: String) {
        let error = #expect(throws: ConfigurationError.self) {
            _ = try Configuration(text: text + "\n" + minimal, file: file)
        }
        #expect(error?.file.hasPrefix("\(file):") == true)
    }

    @Test func `the spool's paths are absolute for a configuration with a relative path`() throws {
        let text = "[spool]\nenabled = true\n" + minimal
        let relative = try Configuration(text: text, file: "sim/tocsin.toml")
        let directory = FileManager.default.currentDirectoryPath + "/sim"
        #expect(relative.spool?.file == "\(directory)/state/spool.sqlite")
        #expect(relative.spool?.keyFile == "\(directory)/state/spool.key")
        let elsewhere = try Configuration(
            text: "[spool]\nenabled = true\nkey_file = \"keys/spool\"\n" + minimal, file: "sim/tocsin.toml")
        #expect(elsewhere.spool?.keyFile == "\(directory)/keys/spool")
    }

    // MARK: Helpers

    private let file = "/etc/tocsin/tocsin.toml"
    /// A minimal configuration; lines appended to it belong to `app.fcm`.
    private let minimal = "[[app]]\nname = \"bisq\"\n[app.fcm]\nservice_account_file = \"firebase.json\"\n"
    /// The same with iPhones.
    private var both: String { apple(key) + "[app.fcm]\nservice_account_file = \"firebase.json\"\n" }
    private func services(of configuration: Configuration) throws -> (apple: APNsService, google: FCMService) {
        let app = try #require(configuration.apps.first)
        return (
            try #require(app.delivery(APNsDelivery.self)).service, try #require(app.delivery(FCMDelivery.self)).service
        )
    }
    private let key = "key_file = \"a.p8\"\nkey_id = \"ABC123DEFG\"\nteam_id = \"TEAM123456\""

    private func named(_ name: String) -> String {
        "[[app]]\nname = \"\(name)\"\n[app.fcm]\nservice_account_file = \"firebase.json\"\n"
    }

    /// A configuration with these lines in `app.apns`, after the topic.
    private func apple(_ lines: String) -> String {
        "[[app]]\nname = \"bisq\"\n[app.apns]\ntopic = \"a.b\"\n\(lines)\n"
    }

    private func problem(
        in text: String, sourceLocation: SourceLocation = #_sourceLocation
    ) -> ConfigurationError? {
        #expect(throws: ConfigurationError.self, sourceLocation: sourceLocation) {
            try Configuration(text: text, file: file)
        }
    }

    // MARK: Handles

    @Test func `origins are what browsers send`() throws {
        func text(_ origins: String) -> String { "\(minimal)\n[handles]\nenabled = true\n\(origins)\n" }
        #expect(try Configuration(text: text(""), file: file).handles?.origins == [])
        let listed = "origins = [\"https://a.example\", \"http://localhost:8000\"]"
        let configuration = try Configuration(text: text(listed), file: file)
        #expect(configuration.handles?.origins == ["https://a.example", "http://localhost:8000"])
        for wrong in [
            "a.example", "https://", "https://A.example", "https://a.example/", "*", "null", "ftp://a.example",
        ] {
            #expect(problem(in: text("origins = \"\(wrong)\""))?.key?.hasSuffix("origins") == true, "\(wrong)")
        }
    }

    // MARK: Sites

    @Test func `sites are read, and may be neither doubled nor named strangely`() throws {
        func site(_ name: String, _ key: UInt8, _ more: String = "") -> String {
            let text = String(decoding: Base64.encode([UInt8](repeating: key, count: 32)), as: UTF8.self)
            return "[[site]]\nname = \"\(name)\"\nkey = \"\(text)\"\n\(more)\n"
        }
        let configuration = try Configuration(
            text:
                "\(minimal)\n[sites]\nmode = \"open\"\n\(site("a", 1))\(site("b", 2, "rights = [\"send\"]\nrate_burst = 5"))",
            file: "tocsin.toml")
        #expect(configuration.siteMode == .open)
        #expect(configuration.sites.map(\.name) == ["a", "b"])
        #expect(configuration.sites.map(\.rights) == [[.send, .register], [.send]])
        #expect(configuration.admission.sites.values.map(\.burst).sorted() == [5, 1000])
        for (text, key) in [
            (site("a", 1) + site("a", 2), "name"), (site("a", 1) + site("b", 1), "key"), (site("a b", 1), "name"),
            (site("", 1), "name"), (site("a", 1, "rights = [\"read\"]"), "rights"),
            ("[[site]]\nname = \"a\"\n", "key"), ("[[site]]\nname = \"a\"\nkey = \"AAAA\"\n", "key"),
        ] {
            let error = problem(in: "\(minimal)\n\(text)")
            #expect(error?.key?.hasSuffix(key) == true, "\(text): \(error?.description ?? "no error")")
        }
    }
}
