import Simulator

/// The configuration of a node whose Apple and Google are the stand-ins; its paths are relative to their directory.
struct SimulatedConfiguration {
    let endpoints: SimulatedServices.Endpoints
    /// Where the node listens.
    let tnp: String
    var circuitIDs = false
    var logLevel = "info"
    /// More tables, in TOML.
    var more = ""

    var text: String {
        """
        # A node for the stand-ins of `tocsin simulate`.
        [node]
        state = "state"
        log = "\(logLevel)"

        [listen]
        tnp = "\(tnp)"
        circuit_ids = \(circuitIDs)

        [[app]]
        name = "bisq"
        format = "pipe"

        [app.apns]
        topic = "bisqremote.joachimneumann.com"
        key_file = "apns.p8"
        key_id = "\(SimulatedServices.keyID)"
        team_id = "\(SimulatedServices.teamID)"
        alert = "Bisq notification"

        [app.fcm]
        service_account_file = "service-account.json"
        title = "Bisq"
        body = "Notification"

        [apns]
        production = "https://\(endpoints.production)"
        development = "https://\(endpoints.development)"
        trust_file = "ca.pem"

        [fcm]
        endpoint = "https://\(endpoints.fcm)"
        trust_file = "ca.pem"

        \(more)
        """
    }
}
