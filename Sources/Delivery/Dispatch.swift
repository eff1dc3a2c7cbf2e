import Providers
import TNP

/// Owns what has been taken until it has an outcome. One attempt each; when to try again is decided here, too, once
/// there is more than one.
public final class Dispatch {
    /// Told of each verdict: for logs and metrics.
    public typealias Observer = (Route, Envelope, Verdict) -> Void

    private let providers: [Route: any Provider]
    private let limit: Int
    private let observer: Observer
    /// Envelopes taken and without an outcome.
    public private(set) var inFlight = 0

    /// - Parameters:
    ///   - providers: who serves which route.
    ///   - limit: the most envelopes in flight at a time; more are answered RETRY 202.
    public init(providers: [Route: any Provider], limit: Int, observer: @escaping Observer) {
        self.providers = providers
        self.limit = limit
        self.observer = observer
    }

    /// The routes that are served, in the order of their names.
    public var routes: [Route] { providers.keys.sorted { $0.description < $1.description } }

    /// Delivers an envelope for the app of this name and waits for its outcome.
    public func deliver(
        _ envelope: Envelope, app: String, isolation: isolated (any Actor)? = #isolation
    ) async -> Outcome {
        let route = Route(app: app, magic: envelope.magic)
        guard let provider = providers[route] else { return .rejected(.platformNotConfigured) }
        guard inFlight < limit else { return .retry(.nodeBusy, after: 1000) }
        inFlight += 1
        defer { inFlight -= 1 }
        let verdict = await provider.attempt(envelope, isolation: isolation)
        observer(route, envelope, verdict)
        return verdict.outcome
    }

    /// Ends the connections to all providers; what is in flight gets an outcome at once.
    public func close() {
        for provider in providers.values { provider.close() }
    }
}
