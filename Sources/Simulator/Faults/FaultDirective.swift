// SPDX-License-Identifier: Apache-2.0

/// One line that says what a stand-in does wrong from now on: what `tocsin simulate` takes as `--fault` and from its
/// standard input.
package enum FaultDirective: Sendable, Equatable {
    /// These faults take the place of those before.
    case faults(Device.Platform, Faults)
    /// The stand-in and all its connections go, without a word.
    case kill(Device.Platform)
    /// It listens again where it did.
    case restart(Device.Platform)
    /// It shows this certificate to those who come from now on.
    case certificate(Device.Platform, ServedCertificate)

    /// What is wrong with a line, and what was expected.
    package struct Mistake: Error, Equatable, CustomStringConvertible {
        package let description: String
    }

    /// What a line may say.
    package static let help = """
        apns-production|apns-development|fcm [FAULT ...]   these faults from now on; without any: none
        kill PLATFORM                   the listener and all connections go without a word
        restart PLATFORM                it listens again on the same port
        certificate PLATFORM KIND       good, untrusted, expired or other-name, for new connections

        goaway-every=N[:early]          GOAWAY at every Nth request of a connection; early: the last streams are dropped
        reset=PERMILLE[:CODE,...]       RST_STREAM; 2 INTERNAL_ERROR, 7 REFUSED_STREAM (never processed), 8 CANCEL,
                                        11 ENHANCE_YOUR_CALM; without codes: one of these four
        close=PERMILLE                  the connection ends without GOAWAY and without TLS's close_notify
        streams=N                       MAX_CONCURRENT_STREAMS, at once
        stall                           takes and delivers, never answers
        stall-after=N                   the same after N requests of a connection
        silent-after=N                  a connection answers nothing, PINGs included, after N requests
        swallow                         bytes are taken and dropped, nothing is said
        latency=fixed:MS                or uniform:LOW-HIGH, exponential:MEAN, in milliseconds
        error=PERMILLE:STATUS[:REASON[:RETRY-AFTER]]   may come several times; REASON may be empty
        token-endpoint-down             Google's token endpoint answers 503
        date-skew=SECONDS               the field date is ahead by so much; negative: behind
        """

    /// Reads a line; words are separated by spaces.
    /// - Throws: ``Mistake``.
    package init(_ text: String) throws(Mistake) {
        let words = text.split(whereSeparator: \.isWhitespace).map(String.init)
        guard let first = words.first else { throw Mistake(description: "an empty line: a platform was expected") }
        switch first {
        case "kill": self = .kill(try Self.onlyPlatform(words))
        case "restart": self = .restart(try Self.onlyPlatform(words))
        case "certificate":
            guard words.count == 3, let kind = ServedCertificate(rawValue: words[2]) else {
                let kinds = ServedCertificate.allCases.map(\.rawValue).joined(separator: ", ")
                throw Mistake(description: "after 'certificate', a platform and one of \(kinds) were expected")
            }
            self = .certificate(try Self.platform(words[1]), kind)
        default: self = .faults(try Self.platform(first), try Self.readFaults(words.dropFirst()))
        }
    }

    private static func onlyPlatform(_ words: [String]) throws(Mistake) -> Device.Platform {
        guard words.count == 2 else {
            throw Mistake(description: "after '\(words[0])', a platform and nothing else was expected")
        }
        return try platform(words[1])
    }

    private static func platform(_ word: String) throws(Mistake) -> Device.Platform {
        switch word {
        case "apns-production": return .apnsProduction
        case "apns-development": return .apnsDevelopment
        case "fcm": return .fcm
        default:
            throw Mistake(description: "'\(word)': apns-production, apns-development or fcm was expected")
        }
    }

    // MARK: Faults

    private static func readFaults(_ words: ArraySlice<String>) throws(Mistake) -> Faults {
        var faults = Faults()
        var seen: Set<String> = []
        for word in words {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard parts[0] == "error" || seen.insert(parts[0]).inserted else {
                throw Mistake(description: "'\(word)': this fault was already named in the line")
            }
            try apply(parts[0], parts.count == 2 ? parts[1] : nil, in: word, to: &faults)
        }
        guard faults.errors.reduce(0, { $0 + $1.perMille }) <= 1000 else {
            throw Mistake(description: "errors that add up to 1000 per mille at most were expected")
        }
        return faults
    }

    private static func apply(
        _ name: String, _ value: String?, in word: String, to faults: inout Faults
    ) throws(Mistake) {
        switch (name, value) {
        case ("goaway-every", let value?):
            let parts = try fields(value, 1...2, in: word, form: "goaway-every=N[:early]")
            guard parts.count == 1 || parts[1] == "early" else {
                throw Mistake(description: "'\(word)': goaway-every=N or goaway-every=N:early was expected")
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
        case ("swallow", nil): faults.swallows = true
        case ("latency", let value?): faults.latency = try latency(value, in: word)
        case ("error", let value?): faults.errors.append(try errorAnswer(value, in: word))
        case ("token-endpoint-down", nil): faults.tokenEndpointIsDown = true
        case ("date-skew", let value?):
            // A century either way.
            faults.dateSkew = Int64(try number(value, -3_155_760_000...3_155_760_000, in: word))
        default:
            throw Mistake(
                description: "'\(word)': goaway-every=, reset=, close=, streams=, stall, stall-after=, silent-after=, "
                    + "swallow, latency=, error=, token-endpoint-down or date-skew= was expected")
        }
    }

    private static func codes(_ text: String, in word: String) throws(Mistake) -> [UInt32] {
        var codes: [UInt32] = []
        for code in text.split(separator: ",", omittingEmptySubsequences: false) {
            codes.append(UInt32(try number(String(code), 0...Int(UInt32.max), in: word)))
        }
        return codes
    }

    /// An hour: longer than any client waits.
    private static let milliseconds = 0...3_600_000

    private static func latency(_ text: String, in word: String) throws(Mistake) -> Latency {
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
        throw Mistake(description: "'\(word)': \(form) was expected")
    }

    private static func errorAnswer(_ text: String, in word: String) throws(Mistake) -> Faults.ErrorAnswer {
        let parts = try fields(text, 2...4, in: word, form: "error=PERMILLE:STATUS[:REASON[:RETRY-AFTER]]")
        var error = Faults.ErrorAnswer(
            perMille: try number(parts[0], 0...1000, in: word), status: try number(parts[1], 400...599, in: word))
        if parts.count > 2, !parts[2].isEmpty {
            // It goes into JSON as it is.
            guard parts[2].utf8.allSatisfy(isOfReason) else {
                throw Mistake(description: "'\(word)': a reason of letters, digits and _ was expected")
            }
            error.reason = parts[2]
        }
        if parts.count > 3 { error.retryAfter = try number(parts[3], 0...1_000_000_000, in: word) }
        return error
    }

    private static func isOfReason(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    private static func fields(
        _ text: String, _ count: ClosedRange<Int>, in word: String, form: String
    ) throws(Mistake) -> [String] {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        guard count.contains(parts.count) else { throw Mistake(description: "'\(word)': \(form) was expected") }
        return parts
    }

    private static func number(
        _ text: String, _ range: ClosedRange<Int>, in word: String
    ) throws(Mistake) -> Int {
        guard let number = Int(text), range.contains(number) else {
            throw Mistake(
                description: "'\(word)': a number from \(range.lowerBound) to \(range.upperBound) was expected where "
                    + (text.isEmpty ? "nothing stands" : "'\(text)' stands"))
        }
        return number
    }
}
