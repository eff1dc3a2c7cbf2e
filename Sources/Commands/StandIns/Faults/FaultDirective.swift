// SPDX-License-Identifier: Apache-2.0

/// A line that changes the behaviour of a simulated push service. `tocsin simulate` accepts such lines as `--fault` and
/// on its standard input.
package enum FaultDirective: Sendable, Equatable {
    /// Replaces the service's faults.
    case faults(Device.Platform, Faults)
    /// Closes the service's listener and all its connections, without GOAWAY.
    case kill(Device.Platform)
    /// Makes the service listen again on the same endpoint.
    case restart(Device.Platform)
    /// Changes the service's certificate for new connections.
    case certificate(Device.Platform, ServedCertificate)

    /// An error in a line, with the expected syntax.
    package struct SyntaxError: Error, Equatable, CustomStringConvertible {
        package let description: String
    }

    /// The syntax of a line.
    package static let help = """
        PLATFORM [FAULT ...]            replace the platform's faults; without a FAULT: clear them. Platforms:
                                        apns-production, apns-development, fcm, web-push
        kill PLATFORM                   close the listener and all connections, without GOAWAY
        restart PLATFORM                listen again on the same port
        certificate PLATFORM KIND       good, untrusted, expired or other-name, for new connections

        goaway-every=N[:early]          GOAWAY at the Nth request of each connection; early: drop the newest streams
        reset=PERMILLE[:CODE,...]       RST_STREAM with 2 INTERNAL_ERROR, 7 REFUSED_STREAM (never processed), 8 CANCEL,
                                        11 ENHANCE_YOUR_CALM or any other CODE; default: one of these four
        close=PERMILLE                  close the connection without GOAWAY and TLS close_notify
        streams=N                       MAX_CONCURRENT_STREAMS, effective immediately
        stall                           accept and deliver, but never respond
        stall-after=N                   as stall, after N requests of a connection
        silent-after=N                  ignore a connection, including its PINGs, after N requests
        swallow                         read and drop all bytes, never respond
        latency=fixed:MS                or uniform:LOW-HIGH, exponential:MEAN, in milliseconds
        error=PERMILLE:STATUS[:REASON[:RETRY-AFTER]]   can be repeated; REASON may be empty
        token-endpoint-down             the FCM token endpoint responds with 503
        date-skew=SECONDS               the date header is ahead by SECONDS; negative: behind
        """

    /// Parses a line of words separated by spaces.
    /// - Throws: ``SyntaxError``.
    package init(_ text: String) throws(SyntaxError) {
        let words = text.split(whereSeparator: \.isWhitespace).map(String.init)
        guard let first = words.first else { throw SyntaxError(description: "empty line: expected a platform") }
        switch first {
        case "kill": self = .kill(try Self.onlyPlatform(words))
        case "restart": self = .restart(try Self.onlyPlatform(words))
        case "certificate":
            guard words.count == 3, let kind = ServedCertificate(rawValue: words[2]) else {
                let kinds = ServedCertificate.allCases.map(\.rawValue).joined(separator: ", ")
                throw SyntaxError(description: "'certificate': expected a platform and one of \(kinds)")
            }
            self = .certificate(try Self.platform(words[1]), kind)
        default: self = .faults(try Self.platform(first), try Self.readFaults(words.dropFirst()))
        }
    }

    private static func onlyPlatform(_ words: [String]) throws(SyntaxError) -> Device.Platform {
        guard words.count == 2 else {
            throw SyntaxError(description: "'\(words[0])': expected a platform and nothing else")
        }
        return try platform(words[1])
    }

    private static func platform(_ word: String) throws(SyntaxError) -> Device.Platform {
        guard let platform = Device.Platform(rawValue: word) else {
            let known = Device.Platform.allCases.map(\.rawValue).joined(separator: ", ")
            throw SyntaxError(description: "'\(word)': expected one of \(known)")
        }
        return platform
    }

    // MARK: Faults

    private static func readFaults(_ words: ArraySlice<String>) throws(SyntaxError) -> Faults {
        var faults = Faults()
        var seen: Set<String> = []
        for word in words {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard parts[0] == "error" || seen.insert(parts[0]).inserted else {
                throw SyntaxError(description: "'\(word)': this fault is already named in the line")
            }
            try apply(parts[0], parts.count == 2 ? parts[1] : nil, in: word, to: &faults)
        }
        guard faults.errors.reduce(0, { $0 + $1.perMille }) <= 1000 else {
            throw SyntaxError(description: "expected errors with a total of at most 1000 per mille")
        }
        return faults
    }

    private static func apply(
        _ name: String, _ value: String?, in word: String, to faults: inout Faults
    ) throws(SyntaxError) {
        switch (name, value) {
        case ("goaway-every", let value?):
            let parts = try fields(value, 1...2, in: word, form: "goaway-every=N[:early]")
            guard parts.count == 1 || parts[1] == "early" else {
                throw SyntaxError(description: "'\(word)': expected goaway-every=N or goaway-every=N:early")
            }
            faults.goAwayEvery = try number(parts[0], 1...1_000_000_000, in: word)
            faults.goAwayIsEarly = parts.count == 2
        case ("reset", let value?):
            let parts = try fields(value, 1...2, in: word, form: "reset=PERMILLE[:CODE,...]")
            faults.resetPerMille = try number(parts[0], 0...1000, in: word)
            if parts.count == 2 { faults.resetCodes = try codes(parts[1], in: word) }
        case ("close", let value?): faults.closePerMille = try number(value, 0...1000, in: word)
        case ("streams", let value?):
            faults.concurrentStreams = UInt32(try number(value, 0...Int(UInt32.max), in: word))
        case ("stall", nil): faults.stalls = true
        case ("stall-after", let value?): faults.stallsAfter = try number(value, 0...1_000_000_000, in: word)
        case ("silent-after", let value?): faults.silentAfter = try number(value, 0...1_000_000_000, in: word)
        case ("swallow", nil): faults.isBlackHole = true
        case ("latency", let value?): faults.latency = try latency(value, in: word)
        case ("error", let value?): faults.errors.append(try errorAnswer(value, in: word))
        case ("token-endpoint-down", nil): faults.tokenEndpointIsDown = true
        case ("date-skew", let value?):
            // A century either way.
            faults.dateSkew = Int64(try number(value, -3_155_760_000...3_155_760_000, in: word))
        default:
            throw SyntaxError(
                description: "'\(word)': expected goaway-every=, reset=, close=, streams=, stall, stall-after=, "
                    + "silent-after=, swallow, latency=, error=, token-endpoint-down or date-skew=")
        }
    }

    private static func codes(_ text: String, in word: String) throws(SyntaxError) -> [UInt32] {
        var codes: [UInt32] = []
        for code in text.split(separator: ",", omittingEmptySubsequences: false) {
            codes.append(UInt32(try number(String(code), 0...Int(UInt32.max), in: word)))
        }
        return codes
    }

    /// Up to an hour: longer than any client waits.
    private static let milliseconds = 0...3_600_000

    private static func latency(_ text: String, in word: String) throws(SyntaxError) -> Latency {
        let form = "latency=fixed:MS, latency=uniform:LOW-HIGH or latency=exponential:MEAN"
        let parts = try fields(text, 2...2, in: word, form: form)
        switch parts[0] {
        case "fixed": return .fixed(try number(parts[1], milliseconds, in: word))
        case "exponential": return .exponential(mean: try number(parts[1], milliseconds, in: word))
        case "uniform":
            let bounds = parts[1].split(separator: "-", omittingEmptySubsequences: false).map(String.init)
            guard bounds.count == 2 else { break }
            let low = try number(bounds[0], milliseconds, in: word)
            let high = try number(bounds[1], low...milliseconds.upperBound, in: word)
            return .uniform(low...high)
        default: break
        }
        throw SyntaxError(description: "'\(word)': expected \(form)")
    }

    private static func errorAnswer(_ text: String, in word: String) throws(SyntaxError) -> Faults.ErrorAnswer {
        let parts = try fields(text, 2...4, in: word, form: "error=PERMILLE:STATUS[:REASON[:RETRY-AFTER]]")
        var error = Faults.ErrorAnswer(
            perMille: try number(parts[0], 0...1000, in: word), status: try number(parts[1], 400...599, in: word))
        if parts.count > 2, !parts[2].isEmpty {
            // The reason is inserted into JSON without escaping.
            guard parts[2].utf8.allSatisfy(isReasonCharacter) else {
                throw SyntaxError(description: "'\(word)': expected a reason of letters, digits and _")
            }
            error.reason = parts[2]
        }
        if parts.count > 3 { error.retryAfter = try number(parts[3], 0...1_000_000_000, in: word) }
        return error
    }

    private static func isReasonCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    private static func fields(
        _ text: String, _ count: ClosedRange<Int>, in word: String, form: String
    ) throws(SyntaxError) -> [String] {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        guard count.contains(parts.count) else { throw SyntaxError(description: "'\(word)': expected \(form)") }
        return parts
    }

    private static func number(
        _ text: String, _ range: ClosedRange<Int>, in word: String
    ) throws(SyntaxError) -> Int {
        guard let number = Int(text), range.contains(number) else {
            throw SyntaxError(
                description: "'\(word)': expected a number from \(range.lowerBound) to \(range.upperBound), found "
                    + (text.isEmpty ? "nothing" : "'\(text)'"))
        }
        return number
    }
}
