import ArgumentParser
import TNP

/// Through which node a notification goes, and how, for all commands that send one.
struct DeliveryOptions: ParsableArguments {
    @Option(help: "The node: its onion address and port.")
    var node: String

    @Option(help: "tor's SOCKS port.")
    var tor: String = "127.0.0.1:9050"

    @Flag(help: "Connect without tor.")
    var direct = false

    @Option(help: "The node's app profile. Default: its first.")
    var app: String = ""

    @Option(help: "Seconds that Apple or Google may keep it for a phone that is off; 0: now or never.")
    var ttl: UInt32 = Envelope.longestTTL

    @Flag(help: "Be content when the node has stored it, where it can: it goes on trying until the ttl is over.")
    var queue = false

    @Option(help: "Seconds to go on trying.")
    var timeout: Int = 120

    @Option(help: "Seconds to compute, at most, where the node asks for proof of work; 0: never.")
    var maxWork: Int = 60

    @Option(help: "Directory of the sender keys. Default: tocsin/senders in $XDG_DATA_HOME or ~/.local/share.")
    var keys: String?

    @Flag(help: "Do not sign: a phone that is bound to a sender key is not rung.")
    var noKey = false

    @OptionGroup var onionKey: OnionKeyOption

    func validate() throws {
        guard !direct || onionKey.onionKey == nil else {
            throw ValidationError("--onion-key is for an onion, which --direct does not reach")
        }
        guard maxWork >= 0 else { throw ValidationError("--max-work must not be negative") }
        guard keys?.isEmpty != true else { throw ValidationError("--keys must name a directory") }
    }
}
