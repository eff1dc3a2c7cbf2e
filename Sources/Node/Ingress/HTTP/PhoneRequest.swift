// SPDX-License-Identifier: Apache-2.0

import Cryptography
import HTTP1
import TNP

/// A request of a phone to `/v1/handles…` (PROTOCOL §11, over HTTP).
struct PhoneRequest: Redacted {
    /// What the phone asks for.
    enum Action: Equatable {
        /// The puzzle of a REGISTER, and the onion that a signature names.
        case challenge
        case register
        case rotate(Handle)
        case forget(Handle)
        /// A browser asks whether a page may make such requests (Fetch Standard, "CORS-preflight request").
        case preflight
    }

    /// The longest body, in bytes.
    static let maximumBody = 1024
    private static let (path, challengePath) = ("/v1/handles", "/v1/handles/challenge")
    private static let contentType = "application/octet-stream"

    let action: Action
    /// The origin of the page that makes the request; `nil` if no browser's page does.
    let origin: String?
    private let request: HTTPRequest

    /// - Returns: `nil` if the path is none of `/v1/handles…`.
    /// - Throws: `APIRoute.NoRoute` if the path names no valid handle, or does not accept the method.
    init?(_ request: HTTPRequest, path: Bytes) throws(APIRoute.NoRoute) {
        // Most requests carry a notification, and end here: before anything is allocated.
        guard path.starts(with: Self.path.utf8) else { return nil }
        let actions: [String: Action]
        if path.elementsEqual(Self.path.utf8) {
            actions = ["POST": .register]
        } else if path.elementsEqual(Self.challengePath.utf8) {
            actions = ["GET": .challenge]
        } else if path.starts(with: "\(Self.path)/".utf8) {
            let digits = path.dropFirst(Self.path.utf8.count + 1)
            guard let handle = Handle(text: String(decoding: digits, as: UTF8.self)) else { throw .notFound }
            actions = ["PUT": .rotate(handle), "DELETE": .forget(handle)]
        } else {
            return nil
        }
        self.request = request
        origin = request.header("origin")
        if request.method == "OPTIONS", origin != nil {
            action = .preflight
        } else if let action = actions[request.method] {
            self.action = action
        } else {
            throw .methodNotAllowed(allowed: actions.keys.sorted(by: >).joined(separator: ", "))
        }
    }

    /// What the endpoint does with a request before it asks the node.
    enum Verdict {
        /// It answers. A request to a node that keeps no handles is a violation, as over TNP.
        case answer(HTTPResponse, isViolation: Bool)
        case ask
    }

    /// Decides whether the node is asked.
    /// - Parameters:
    ///   - keepsHandles: whether the node keeps handles.
    ///   - origins: the pages that may make such requests.
    func verdict(keepsHandles: Bool, origins: [String]) -> Verdict {
        guard keepsHandles else {
            return .answer(APIResponse.error(404, "this node keeps no handles (handles.enabled)"), isViolation: true)
        }
        // No violation: a page makes such a request without its user's knowledge.
        guard origin.map(origins.contains) ?? true else {
            return .answer(
                APIResponse.error(403, "the page's origin is not one of handles.origins"), isViolation: false)
        }
        return action == .preflight ? .answer(APIResponse.preflight(for: origin), isViolation: false) : .ask
    }

    /// What the owner of a handle asks of the node; its request number is not set yet.
    /// - Parameter onions: the onions that the signature may name.
    /// - Returns: `nil` for requests without a signature.
    /// - Throws: `Rejection` with the first rule that the request breaks.
    func handleRequest(at onions: [SignedOnion]) throws(Rejection) -> HandleRequest? {
        let (type, named): (FrameType, Handle?)
        switch action {
        case .challenge, .preflight: return nil
        case .register: (type, named) = (.register, nil)
        case .rotate(let handle): (type, named) = (.rotate, handle)
        case .forget(let handle): (type, named) = (.forget, handle)
        }
        guard request.header("content-type") == Self.contentType else {
            throw Rejection(.malformed, "the body must be \(Self.contentType)")
        }
        guard request.body.count <= Self.maximumBody else {
            throw Rejection(.malformed, "the body must be at most \(Self.maximumBody) bytes")
        }
        let asked = try HandleRequestFields(type, body: request.body[...]).checked(at: onions)
        guard asked.handle == named else {
            throw Rejection(.malformed, "the handle in the path is not the one in the body")
        }
        return asked
    }

    /// The answer to ``Action/challenge``. It names the onion in the request's `Host` and no other: a stranger who
    /// knows one onion of a node must not learn of the rest.
    /// - Parameter onions: the onions that the signature may name.
    /// - Throws: `Rejection` if the phone asked for none of them.
    func response(_ puzzle: Puzzle, onions: [SignedOnion]) throws(Rejection) -> HTTPResponse {
        let host = request.header("host").flatMap { OnionAddress(host: $0.prefix { $0 != ":" }) }
        let onion = host.flatMap { SignedOnion(publicKey: $0.publicKey) } ?? .none
        guard onions.contains(onion) else {
            throw Rejection(.malformed, "the Host field must name the onion by which the phone reaches the node")
        }
        return APIResponse.json(
            200,
            "{\"seed\":\"\(Hex.encode(puzzle.seed))\",\"effort\":\(puzzle.effort),\"lifetime\":\(puzzle.lifetime),"
                + "\"onion\":\"\(Hex.encode(onion.bytes))\"}",
            headers: [("cache-control", "no-store")] + APIResponse.allowing(origin))
    }
}
