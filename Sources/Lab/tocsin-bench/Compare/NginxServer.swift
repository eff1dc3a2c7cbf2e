// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import FoundationEssentials
import StandIns
import Time

/// nginx as a single process, whose usage is that of the whole server.
enum NginxServer {
    private static let program = "/usr/sbin/nginx"
    private static let echoModule = "/usr/lib/nginx/modules/ngx_http_echo_module.so"

    /// Starts the sink, which speaks HTTP/2 over TLS, reads each body and answers 200 to any path. Writes its
    /// certificate authority to `ca.pem`.
    /// - Parameter delay: the time after which the sink answers a request.
    static func startSink(on servers: ServerProcesses, answerAfter delay: Duration = .zero) throws -> LocalServer {
        guard FileManager.default.fileExists(atPath: echoModule) else {
            throw fail("\(echoModule) does not exist: install the package nginx-light", .failure)
        }
        let directory = servers.directory
        let authority = CertificateAuthority(name: "Tocsin sink")
        let identity = authority.issue(subject: "sink", purpose: .server(names: ["127.0.0.1"]))
        try Data(authority.pem).write(to: URL(filePath: "\(directory)/ca.pem"))
        try Data(identity.certificates).write(to: URL(filePath: "\(directory)/sink.pem"))
        try PrivateFile.create(
            "\(directory)/sink.key",
            holding: identity.pem?.withBytes { span in span.withUnsafeBytes { Array($0) } } ?? [])
        // nginx 1.22 counts the closed streams of a connection in 8 bits. With more than 255 in flight, the count
        // overflows, and the table of streams grows with every request: a large index keeps its chains short. Only the
        // echo module reads the body before the answer; `return` writes the answer without a DATA frame, as APNs does.
        let wait = delay > .zero ? "echo_sleep \(delay.milliseconds / 1000);" : ""
        return try start(
            "sink", on: servers, modules: "load_module \(echoModule);",
            listen: "ssl http2",
            """
            ssl_certificate \(directory)/sink.pem;
            ssl_certificate_key \(directory)/sink.key;
            http2_max_concurrent_streams 4096;
            http2_streams_index_size 65536;
            location / { echo_read_request_body; \(wait) echo_exec @answer; }
            location @answer { add_header apns-id $http_apns_id; return 200; }
            """)
    }

    /// Starts a server for HTTP/1.1 that answers 200 with a short body, as the node does.
    static func startPlain(on servers: ServerProcesses) throws -> LocalServer {
        try start("plain", on: servers, modules: "", listen: "", "location / { return 200 success; }")
    }

    private static func start(
        _ name: String, on servers: ServerProcesses, modules: String, listen: String, _ rules: String
    ) throws -> LocalServer {
        let directory = servers.directory
        let port = try servers.ports.reserve()
        let configuration = """
            \(modules)
            daemon off;
            master_process off;
            pid \(directory)/\(name).pid;
            events { worker_connections 1024; }
            http {
                access_log off;
                client_body_temp_path \(directory);
                proxy_temp_path \(directory);
                fastcgi_temp_path \(directory);
                uwsgi_temp_path \(directory);
                scgi_temp_path \(directory);
                client_body_buffer_size 2k;
                keepalive_requests 1000000000;
                keepalive_time 1d;
                keepalive_timeout 1d;
                server {
                    listen 127.0.0.1:\(port) \(listen);
                    \(rules)
                }
            }
            """
        let file = "\(directory)/\(name).conf"
        try Data(configuration.utf8).write(to: URL(filePath: file))
        return try servers.start([program, "-p", directory, "-e", "stderr", "-c", file], port: port)
    }
}
