// SPDX-License-Identifier: Apache-2.0

import Cryptography
import HTTP1
import NodeConfiguration
import TNP

/// The notification that a client requests at the HTTP endpoint. ``AppResolver`` finds the app that it is for.
struct APIRequest: Redacted {
    /// The API of the request, which decides the form of the response.
    enum Dialect: Equatable {
        /// `GET /relay`: Bisq 1, Haveno and early Bisq 2.
        case relay
        /// `POST /v1/apns/device/…` and `/v1/fcm/device/…`: Bisq 2 and bisqremote. `nil` for a phone whose platform the
        /// sender does not know: `POST /v1/handle/…`, or a handle in the place of the device token.
        case device(Magic?)
        /// `/v1/handles`: the phone's own requests; `origin` is that of a browser's page, or `nil`.
        case handles(origin: String?)
    }

    /// The phone that the request is for.
    enum Phone: Equatable {
        case device(Magic, token: Bytes)
        /// A desktop that knows nothing of handles sends the handle of a pairing token where the device token goes.
        case handle(Handle)

        /// - Throws: `Rejection` if `token` begins like a handle, but is none.
        init(_ magic: Magic, token: Bytes) throws(Rejection) {
            guard token.starts(with: Handle.prefix.utf8) else {
                self = .device(magic, token: token)
                return
            }
            guard let handle = Handle(text: String(decoding: token, as: UTF8.self)) else {
                throw Rejection(.malformed, "a handle is \(2 * Handle.length) hexadecimal digits")
            }
            self = .handle(handle)
        }
    }

    var phone: Phone
    /// The encrypted text for the phone.
    var text: [UInt8]
    var priority = DeliveryPriority.immediate
    var sound = true
    var contentAvailable: Bool?
    var mutableContent: Bool?
}

/// An HTTP request, matched to one of the endpoint's paths.
struct APIRoute: Redacted {
    /// Why a request matches no path.
    enum NoRoute: Error, Equatable {
        case notFound
        case methodNotAllowed(allowed: String)
    }

    let dialect: APIRequest.Dialect
    /// What a phone asks about a handle; `nil` if a sender requests a notification.
    let phoneRequest: PhoneRequest?
    /// What the site has put into the path: its name and secret; `nil` for any other sender.
    let site: Bytes?
    private let request: HTTPRequest
    private let query: Bytes
    /// The device token or the handle in the path, empty for `/relay`; `nil` if it cannot be decoded, or for a
    /// ``phoneRequest``.
    private let address: Bytes?

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
        phoneRequest = try PhoneRequest(request, path: path)
        if let phoneRequest {
            dialect = .handles(origin: phoneRequest.origin)
            address = nil
            return
        }
        let allowed: String
        if path.elementsEqual("/relay".utf8) {
            dialect = .relay
            address = []
            allowed = "GET"
        } else if let (magic, address) = Self.device(path) {
            self.address = PercentEncoding.decode(address)
            // A sender that puts a handle in place of the device token does not know the platform.
            dialect = .device(self.address?.starts(with: Handle.prefix.utf8) == true ? nil : magic)
            allowed = "POST"
        } else {
            throw .notFound
        }
        guard request.method == allowed else { throw .methodNotAllowed(allowed: allowed) }
    }

    private static func device(_ path: Bytes) -> (Magic?, Bytes)? {
        // The path does not name Apple's environment: if one environment does not know the device token, Delivery tries
        // the other.
        let paths: [(String, Magic?)] = [
            ("/v1/apns/device/", .iOS), ("/v1/fcm/device/", .android), ("/v1/handle/", nil),
        ]
        for (prefix, magic) in paths {
            guard path.starts(with: prefix.utf8) else { continue }
            let address = path.dropFirst(prefix.utf8.count)
            guard !address.isEmpty, !address.contains(UInt8(ascii: "/")) else { return nil }
            return (magic, address)
        }
        return nil
    }

    /// The requested notification, if ``phoneRequest`` is `nil`.
    /// - Throws: `Rejection` with a text that names the parameter at fault.
    func apiRequest() throws(Rejection) -> APIRequest {
        switch dialect {
        case .relay: return try APIQuery(query).apiRequest()
        case .device(let magic):
            guard let address else {
                throw Rejection(.malformed, "the path has a % that is not followed by two hexadecimal digits")
            }
            let phone: APIRequest.Phone
            if let magic {
                phone = try APIRequest.Phone(magic, token: address)
            } else if let handle = Handle(text: String(decoding: address, as: UTF8.self)) {
                phone = .handle(handle)
            } else {
                throw Rejection(.malformed, "a handle is \(2 * Handle.length) hexadecimal digits")
            }
            return try DevicePush.parse(body: request.body, for: phone)
        case .handles: throw Rejection(.malformed, "a request about a handle carries no notification")
        }
    }
}
