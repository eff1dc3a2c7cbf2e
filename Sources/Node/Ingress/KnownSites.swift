// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration
import TNP

/// Decides whether a connection belongs to a site that the operator knows (PROTOCOL §10).
package struct KnownSites: Equatable {
    /// What a request over HTTP is to the node.
    package enum Request: Equatable {
        /// It is refused.
        case refused
        /// It is served like any sender's.
        case ordinary
        /// It is served, and its connection counts as this site's.
        case of(Site)
    }

    package let mode: SiteMode
    package let sites: [Site]

    package init(mode: SiteMode, sites: [Site]) {
        self.mode = mode
        self.sites = sites
    }

    /// The site that an AUTH proves; `nil` if it proves none.
    /// - Parameters:
    ///   - seed: the seed of the connection's WELCOME.
    ///   - onions: the onions that the signature may name: a hostile node may pass on a signature that was made for the
    ///     hostile node's own onion.
    package func site(provedBy authentication: SiteAuthentication, seed: [UInt8], onions: [SignedOnion]) -> Site? {
        let site = sites.first { $0.key.map(authentication.key.elementsEqual) == true }
        return onions.contains { authentication.isValid(seed: seed, onion: $0) } ? site : nil
    }

    /// Decides about a request over HTTP.
    /// - Parameters:
    ///   - credential: what follows `/s/` in its path; `nil` without such a path.
    ///   - circuit: the circuit of its connection.
    ///   - right: the right that a site needs for the request.
    package func request(with credential: Bytes?, on circuit: CircuitID?, right: Site.Right) -> Request {
        guard let credential else {
            // A reverse proxy may carry requests of a site and of others on one connection: those of others must not
            // use the site's rate.
            return mode == .required || circuit?.site != nil ? .refused : .ordinary
        }
        guard mode != .off, let site = sites.first(where: { $0.isProved(byPath: credential) }),
            site.rights.contains(right)
        else { return .refused }
        return .of(site)
    }

    /// The sites that are not the same in `other`.
    package func changed(in other: KnownSites) -> [Site] { sites.filter { !other.sites.contains($0) } }
}
