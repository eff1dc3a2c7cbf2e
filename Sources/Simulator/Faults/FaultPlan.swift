// SPDX-License-Identifier: Apache-2.0

/// What becomes of one request.
struct FaultPlan: Equatable {
    enum Fate: Equatable {
        /// Judged, delivered where it is good, and answered after this time.
        case answered(after: Duration)
        /// Answered so after this time, without being judged.
        case refused(Faults.ErrorAnswer, after: Duration)
        /// Judged, delivered where it is good, and never answered.
        case stalled
        /// Reset with this code; before that judged and delivered, or not.
        case reset(code: UInt32, isProcessed: Bool)
        /// Its connection is dropped; before that the request is judged and delivered, or not.
        case closed(isProcessed: Bool)
        /// Its connection falls silent, and the request is not seen.
        case swallowed
    }

    /// Whether GOAWAY is said now. A request above its last stream has no fate.
    var saysGoAway: Bool
    var fate: Fate
}

extension Faults {
    /// How far an early GOAWAY's last stream lies below the newest, in streams.
    private static let fewStreams: Int32 = 3
    private static let refusedStream: UInt32 = 7

    /// What becomes of a request: rules and chance in, decision out.
    /// - Parameters:
    ///   - ordinal: which request of its connection it is; 1: the first.
    ///   - isForToken: whether it asks for an access token.
    func plan(
        forRequest ordinal: Int, isForToken: Bool, using random: inout some RandomNumberGenerator
    ) -> FaultPlan {
        FaultPlan(
            saysGoAway: goAwayEvery.map { $0 > 0 && ordinal.isMultiple(of: $0) } ?? false,
            fate: fate(ordinal: ordinal, isForToken: isForToken, using: &random))
    }

    /// The last stream that GOAWAY names.
    /// - Parameters:
    ///   - newest: the newest stream that the client has opened.
    ///   - processed: the highest one whose request has got its fate; it is never disowned.
    func lastStream(newest: Int32, processed: Int32) -> Int32 {
        // The streams of a client have odd numbers.
        goAwayIsEarly ? max(processed, newest - 2 * Self.fewStreams) : newest
    }

    private func fate(ordinal: Int, isForToken: Bool, using random: inout some RandomNumberGenerator) -> FaultPlan.Fate
    {
        if Self.happens(closePerMille, using: &random) {
            return .closed(isProcessed: Bool.random(using: &random))
        }
        if Self.happens(resetPerMille, using: &random), let code = resetCodes.randomElement(using: &random) {
            return .reset(code: code, isProcessed: code != Self.refusedStream && Bool.random(using: &random))
        }
        if let silentAfter, ordinal > silentAfter { return .swallowed }
        if stalls || stallsAfter.map({ ordinal > $0 }) ?? false { return .stalled }
        let time = latency.draw(using: &random)
        if isForToken {
            return tokenEndpointIsDown
                ? .refused(ErrorAnswer(perMille: 1000, status: 503), after: time) : .answered(after: time)
        }
        if let error = drawnError(using: &random) { return .refused(error, after: time) }
        return .answered(after: time)
    }

    private static func happens(_ perMille: Int, using random: inout some RandomNumberGenerator) -> Bool {
        perMille > 0 && Int.random(in: 0..<1000, using: &random) < perMille
    }

    private func drawnError(using random: inout some RandomNumberGenerator) -> ErrorAnswer? {
        guard !errors.isEmpty else { return nil }
        var drawn = Int.random(in: 0..<1000, using: &random)
        for error in errors {
            drawn -= error.perMille
            if drawn < 0 { return error }
        }
        return nil
    }
}
