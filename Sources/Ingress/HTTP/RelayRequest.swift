// SPDX-License-Identifier: Apache-2.0

import Cryptography
import HTTP1
import TNP

/// What a desktop of today asks the HTTP endpoint for: one notification. Says nothing yet of the app that it is for.
struct RelayRequest: Redacted {
    /// How it came, and so how it wants to be answered.
    enum Dialect: Equatable {
        /// `GET /relay`: Bisq 1 and Haveno.
        case relay
        /// `POST /v1/apns/device/…` and `/v1/fcm/device/…`: Bisq 2, and tools.
        case device(Magic)
    }

    var magic: Magic
    var deviceToken: [UInt8]
    /// What the phone is to get.
    var text: [UInt8]
    var priority = DeliveryPriority.immediate
    var sound = true
    var contentAvailable: Bool?
    var mutableContent: Bool?
}

/// A request in the endpoint's terms: where it goes, and what it asks for.
struct RelayRoute: Redacted {
    /// A request that is none of the endpoint's.
    enum Stray: Error, Equatable {
        case notFound
        case methodNotAllowed(allowed: String)
    }

    let dialect: RelayRequest.Dialect
    private let request: HTTPRequest
    private let query: Bytes
    private let deviceToken: Bytes

    /// - Throws: ``Stray`` where nothing is served under this path, or not by this method.
    init(_ request: HTTPRequest) throws(Stray) {
        self.request = request
        let mark = request.target.firstIndex(of: UInt8(ascii: "?")) ?? request.target.endIndex
        var path = request.target[..<mark]
        query = request.target[mark...].dropFirst()
        // One client of today joins its base address, which ends in a slash, with a path that begins with one.
        while path.starts(with: "//".utf8) { path.removeFirst() }
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
        // Apple's environment is not said; where the first does not know the device token, delivery asks the other.
        for (prefix, magic) in [("/v1/apns/device/", Magic.iOS), ("/v1/fcm/device/", .android)] {
            guard path.starts(with: prefix.utf8) else { continue }
            let token = path.dropFirst(prefix.utf8.count)
            return token.isEmpty || token.contains(UInt8(ascii: "/")) ? nil : (magic, token)
        }
        return nil
    }

    /// What is asked for.
    /// - Throws: `Rejection` with a sentence that names the parameter at fault.
    func senderProtocol() throws(Rejection) -> RelayRequest {
        switch dialect {
        case .relay: try RelayQuery(query).senderProtocol()
        case .device(let magic): try DevicePush.read(deviceToken, magic, body: request.body)
        }
    }
}
