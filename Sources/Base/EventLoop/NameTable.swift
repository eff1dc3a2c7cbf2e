// SPDX-License-Identifier: Apache-2.0

import Time

/// Decides which names are looked up, and what each caller gets. All callers that wait for a host share one lookup,
/// which takes a place until the system has answered. While a host's lookup fails, callers get the last addresses that
/// were found. The table is bounded, and takes the time as a parameter.
struct NameTable {
    typealias Result = Swift.Result<[HostAddress], StreamError>

    /// What a caller gets.
    enum Step: Equatable {
        case answer(Result)
        /// The answer comes later.
        /// - Parameters:
        ///   - startsLookup: whether the host is to be looked up now.
        ///   - patience: how long the caller waits.
        case wait(startsLookup: Bool, patience: Duration)
    }

    /// How long a caller waits at most for a host whose last addresses are known, so that there is time left to dial
    /// them.
    static let patience = Duration.seconds(3)
    /// How many callers wait at a time.
    static let maximumCallers = 4096
    /// How many hosts have their last addresses remembered, and for how long.
    static let (maximumRemembered, maximumMemory) = (256, Duration.seconds(24 * 3600))

    private let maximum: Int
    /// The callers of each name that is being looked up; possibly none.
    private var callers: [String: [UInt64]] = [:]
    /// How many callers wait.
    private(set) var callerCount = 0
    private var lastGood: [String: (addresses: [HostAddress], since: MonotonicTime)] = [:]

    /// - Parameter maximum: how many names are looked up at a time.
    init(maximum: Int) { self.maximum = maximum }

    /// A caller asks for a host.
    /// - Parameter time: how long the caller can wait.
    mutating func ask(_ host: String, by caller: UInt64, within time: Duration, at now: MonotonicTime) -> Step {
        let isNew = callers[host] == nil
        guard !isNew || callers.count < maximum, callerCount < Self.maximumCallers else {
            return .answer(result(for: host, or: .unknownHost("too many names are being looked up"), at: now))
        }
        callers[host, default: []].append(caller)
        callerCount += 1
        let isKnown = addresses(of: host, at: now) != nil
        return .wait(startsLookup: isNew, patience: max(.zero, isKnown ? min(time / 2, Self.patience) : time))
    }

    /// The system has answered.
    /// - Returns: the callers that wait, and what they get.
    mutating func ended(_ host: String, with answer: NameAnswer, at now: MonotonicTime) -> ([UInt64], Result) {
        let waiting = callers.removeValue(forKey: host) ?? []
        callerCount -= waiting.count
        switch answer {
        case .addresses(let addresses):
            if lastGood[host] == nil, lastGood.count >= Self.maximumRemembered,
                let oldest = lastGood.min(by: { $0.value.since < $1.value.since })
            {
                lastGood[oldest.key] = nil
            }
            lastGood[host] = (addresses, now)
            return (waiting, .success(addresses))
        case .failure(let reason, let isUnknown):
            // The host or its addresses no longer exist, so the last addresses are of no use.
            if isUnknown { lastGood[host] = nil }
            return (waiting, result(for: host, or: .unknownHost(reason), at: now))
        }
    }

    /// A caller's patience has ended.
    /// - Returns: what the caller gets; `nil` if it has an answer already.
    mutating func leave(_ host: String, _ caller: UInt64, at now: MonotonicTime) -> Result? {
        guard let index = callers[host]?.firstIndex(of: caller) else { return nil }
        callers[host]?.remove(at: index)
        callerCount -= 1
        return result(for: host, or: .timedOut, at: now)
    }

    /// The last addresses that were found for a host; `nil` if there are none or they are too old.
    private func addresses(of host: String, at now: MonotonicTime) -> [HostAddress]? {
        lastGood[host].flatMap { now - $0.since <= Self.maximumMemory ? $0.addresses : nil }
    }

    private func result(for host: String, or failure: StreamError, at now: MonotonicTime) -> Result {
        if let addresses = addresses(of: host, at: now) { return .success(addresses) }
        guard case .unknownHost(let reason) = failure else { return .failure(failure) }
        return .failure(.unknownHost("\(host): \(reason)"))
    }
}
