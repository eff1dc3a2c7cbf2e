import Cryptography
import TNP

/// Apple's provider token for one key: shared by all connections that use the key (Apple, "Establishing a token-based
/// connection to APNs": renewed no more often than every 20 minutes and no less often than every 60).
public final class APNsProviderToken {
    /// Seconds after which a new one is made.
    public static let lifetime: Int64 = 50 * 60

    private let key: SigningKey
    private let keyID: String
    private let teamID: String
    private var issued: (at: Int64, header: [UInt8])?

    /// - Parameters:
    ///   - key: of the `.p8` file.
    ///   - keyID: the key's 10-character identifier.
    ///   - teamID: the developer team's 10-character identifier.
    public init(key: SigningKey, keyID: String, teamID: String) {
        self.key = key
        self.keyID = keyID
        self.teamID = teamID
    }

    /// The value of `authorization` at this Unix time in seconds. A clock that was set back makes no new one.
    public func authorization(at now: Int64) -> [UInt8] {
        if let issued, now - issued.at < Self.lifetime { return issued.header }
        let header =
            Array("bearer ".utf8)
            + JSONWebToken.signed(claims: "{\"iss\":\"\(teamID)\",\"iat\":\(now)}", keyID: keyID, by: key)
        issued = (now, header)
        return header
    }
}
