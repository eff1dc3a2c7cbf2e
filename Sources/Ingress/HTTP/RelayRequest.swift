// SPDX-License-Identifier: Apache-2.0

import Cryptography
import HTTP1
import NodeConfiguration
import TNP

/// The notification that a client requests at the HTTP endpoint. ``AppResolver`` finds the app that it is for.
struct RelayRequest: Redacted {
    /// The API of the request, which decides the form of the response.
    enum Dialect: Equatable {
        /// `GET /relay`: Bisq 1 and Haveno.
        case relay
        /// `POST /v1/apns/device/…` and `/v1/fcm/device/…`: Bisq 2 and bisqremote.
        case device(Magic)
    }

    var magic: Magic
    var deviceToken: Bytes
    /// The encrypted text for the phone.
    var text: [UInt8]
    var priority = DeliveryPriority.immediate
    var sound = true
    var contentAvailable: Bool?
    var mutableContent: Bool?
}

/// An HTTP request, matched to one of the endpoint's paths.
struct RelayRoute: Redacted {
    /// Why a request matches no path.
    enum NoRoute: Error, Equatable {
        case notFound
        case methodNotAllowed(allowed: String)
    }

    let dialect: RelayRequest.Dialect
    /// What the site has put into the path: its name and secret; `nil` for any other sender.
    let site: Bytes?
    private let request: HTTPRequest
    private let query: Bytes
    private let deviceToken: Bytes

    /// - Throws: ``NoRoute`` if the path is unknown, or does not accept the method.
    init(_ request: HTTPRequest) throws(NoRoute) {
        self.request = request
        let mark = request.target.firstIndex(of: UInt8(ascii: "?")) ?? request.target.endIndex
        var path = request.target[..<mark]
        query = request.target[mark...].dropFirst()
        // One existing client joins its base address, which ends in a slash, with a path that begins with one.
        while path.starts(with: "//".utf8) { path.removeFirst() }
        if path.starts(with: Site.pathPrefix.utf8) {
            let rest = path.dropFirst(Site.pathPrefix.utf8.count)
            site = rest.prefix { $0 != UInt8(ascii: "/") }
            path = rest.drop { $0 != UInt8(ascii: "/") }
            while path.starts(with: "//".utf8) { path.removeFirst() }
        } else {
            site = nil
        }
        let allowed: String
        if path.elementsEqual("/relay".utf8) {
            dialect = .relay
            deviceToken = []
            allowed = "GET"
        } else if let (magic, token) = Self.device(path) {
            dialect = .device(magic)
            deviceToken = token
            allowed = "POST"
        } else {
            throw .notFound
        }
        guard request.method == allowed else { throw .methodNotAllowed(allowed: allowed) }
    }

    private static func device(_ path: Bytes) -> (Magic, Bytes)? {
        // The path does not name Apple's environment: if one does not know the device token, Delivery tries the other.
        for (prefix, magic) in [("/v1/apns/device/", Magic.iOS), ("/v1/fcm/device/", .android)] {
            guard path.starts(with: prefix.utf8) else { continue }
            let token = path.dropFirst(prefix.utf8.count)
            return token.isEmpty || token.contains(UInt8(ascii: "/")) ? nil : (magic, token)
        }
        return nil
    }

    /// The requested notification.
    /// - Throws: `Rejection` with a text that names the parameter at fault.
    func relayRequest() throws(Rejection) -> RelayRequest {
        switch dialect {
        case .relay: try RelayQuery(query).relayRequest()
        case .device(let magic): try DevicePush.parse(deviceToken, magic, body: request.body)
        }
    }
}
