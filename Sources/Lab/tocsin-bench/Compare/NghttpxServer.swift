// SPDX-License-Identifier: Apache-2.0

import StandIns

/// nghttpx with one worker thread, which passes all requests on over one connection.
enum NghttpxServer {
    /// Starts nghttpx in front of a sink.
    /// - Parameter readsProxyLine: whether each connection begins with a PROXY line, as from tor with circuit ids.
    static func start(
        on servers: ServerProcesses, sink: LocalServer, readsProxyLine: Bool = false
    ) throws -> LocalServer {
        let port = try servers.ports.reserve()
        return try servers.start(
            [
                "nghttpx", "--workers=1", "--frontend=127.0.0.1,\(port);no-tls\(readsProxyLine ? ";proxyproto" : "")",
                "--backend=127.0.0.1,\(sink.port);;proto=h2;tls", "--insecure", "--accesslog-file=/dev/null",
                "--errorlog-file=/dev/null", "--backend-connections-per-host=1", "--conf=/dev/null",
            ], port: port)
    }
}
