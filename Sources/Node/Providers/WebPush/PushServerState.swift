// SPDX-License-Identifier: Apache-2.0

/// Decides which version of HTTP to use with a push server, and when to negotiate it again: takes events, returns actions.
/// No I/O. Requests are identified by the numbers of the provider.
struct PushServerState {
    /// A version of HTTP.
    enum HTTP: Equatable {
        case version1, version2
    }

    /// What to do.
    enum Action: Equatable {
        /// Open a connection to learn the server's version by ALPN.
        case negotiate
        /// Open connections of this version.
        case open(HTTP)
        /// Send this request over them.
        case send(UInt64)
        /// This request cannot be sent, for this reason.
        case fail(UInt64, String)
        /// Close the connections; requests without a response fail.
        case close
    }

    private enum Phase {
        /// The server's version is not known.
        case unknown
        case negotiating
        case open
        case closed
    }

    /// Whether the connections have TLS, whose ALPN tells the version. Without it, for onion services, it is HTTP/1.1.
    private let isSecure: Bool
    private var phase = Phase.unknown
    private var waiting: [UInt64] = []
    /// Whether the last request got no answer: the server may speak another version now.
    private var mayHaveChanged = false
    /// The number of requests without a result.
    private(set) var inFlight = 0

    init(isSecure: Bool) { self.isSecure = isSecure }

    /// A new request.
    mutating func start(_ number: UInt64, _ actions: inout [Action]) {
        if phase == .open, mayHaveChanged, inFlight == 0 {
            phase = .unknown
            actions.append(.close)
        }
        inFlight += 1
        switch phase {
        case .open: actions.append(.send(number))
        case .negotiating: waiting.append(number)
        case .closed: actions.append(.fail(number, "closed locally"))
        case .unknown:
            waiting.append(number)
            guard isSecure else { return use(.version1, &actions) }
            phase = .negotiating
            actions.append(.negotiate)
        }
    }

    /// The server's version is known, or the connection to learn it failed for a reason.
    mutating func negotiated(_ answer: Result<HTTP, Failure>, _ actions: inout [Action]) {
        guard phase == .negotiating else { return }
        switch answer {
        case .success(let version): use(version, &actions)
        case .failure(let failure):
            phase = .unknown
            fail(failure.reason, &actions)
        }
    }

    /// Why the server's version is not known.
    struct Failure: Error, Equatable {
        let reason: String
    }

    /// A request has a result.
    mutating func finished(isAnswered: Bool) {
        inFlight -= 1
        mayHaveChanged = !isAnswered
    }

    mutating func close(_ actions: inout [Action]) {
        guard phase != .closed else { return }
        phase = .closed
        actions.append(.close)
        fail("closed locally", &actions)
    }

    private mutating func use(_ version: HTTP, _ actions: inout [Action]) {
        phase = .open
        mayHaveChanged = false
        actions.append(.open(version))
        for number in waiting { actions.append(.send(number)) }
        waiting = []
    }

    private mutating func fail(_ reason: String, _ actions: inout [Action]) {
        for number in waiting { actions.append(.fail(number, reason)) }
        waiting = []
    }
}
