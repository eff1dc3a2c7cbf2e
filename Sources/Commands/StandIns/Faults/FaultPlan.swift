// SPDX-License-Identifier: Apache-2.0

/// The decision on how a simulated push service treats one request.
struct FaultPlan: Equatable {
    /// How the request is treated.
    enum Fate: Equatable {
        /// Validated, delivered if valid, and answered after this time.
        case answered(after: Duration)
        /// Answered with this error after this time, without validation.
        case refused(Faults.ErrorAnswer, after: Duration)
        /// Validated, delivered if valid, and never answered.
        case stalled
        /// Reset with this code, with or without processing it first.
        case reset(code: UInt32, isProcessed: Bool)
        /// Its connection is dropped, with or without processing the request first.
        case closed(isProcessed: Bool)
        /// Its connection stops responding, and the request is dropped.
        case swallowed
    }

    /// Whether GOAWAY is sent now. A request above GOAWAY's last stream is dropped, regardless of ``fate``.
    var sendsGoAway: Bool
    var fate: Fate
}

extension Faults {
    /// How many streams an early GOAWAY excludes, counted back from the newest.
    private static let disownedStreams: Int32 = 3
    private static let refusedStream: UInt32 = 7

    /// Decides how a request is treated, from the faults and random numbers.
    /// - Parameters:
    ///   - ordinal: the number of the request on its connection, from 1.
    ///   - isTokenRequest: whether it requests an access token.
    func plan(
        forRequest ordinal: Int, isTokenRequest: Bool, using random: inout some RandomNumberGenerator
    ) -> FaultPlan {
        FaultPlan(
            sendsGoAway: goAwayEvery.map { $0 > 0 && ordinal.isMultiple(of: $0) } ?? false,
            fate: fate(ordinal: ordinal, isForToken: isTokenRequest, using: &random))
    }

    /// The last stream id to send in GOAWAY.
    /// - Parameters:
    ///   - newest: the newest stream that the client has opened.
    ///   - processed: the highest stream with a request that was not dropped; it is never excluded.
    func lastStream(newest: Int32, processed: Int32) -> Int32 {
        // A client's streams have odd ids.
        goAwayIsEarly ? max(processed, newest - 2 * Self.disownedStreams) : newest
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
