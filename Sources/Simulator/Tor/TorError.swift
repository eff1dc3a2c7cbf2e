/// Why a private Tor network did not come up, or broke.
public struct TorError: Error, Sendable, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }
}
