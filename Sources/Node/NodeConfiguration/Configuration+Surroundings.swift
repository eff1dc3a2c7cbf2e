// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import Tor

extension Configuration {
    /// What the providers need to know of the configuration, apart from their own tables.
    package var surroundings: ProviderWorkshop.Surroundings {
        ProviderWorkshop.Surroundings(
            file: file, state: state, outboundProxy: outboundProxy, copies: copies, socksPort: socksPort)
    }

    private var socksPort: Result<Endpoint, ProviderWorkshop.SOCKSProblem> {
        if tor.managed == true {
            guard tor.hasSOCKSPort else { return .failure(.runningTorHasNone) }
            return .success(tor.settings(state: state).socksSocket)
        }
        if case .socks5(let endpoint, _)? = outboundProxy { return .success(endpoint) }
        return .failure(.noTor)
    }
}
