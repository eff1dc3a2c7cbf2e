// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import FoundationEssentials
import StandIns

/// Clients of PyPI that people use in place of a node: they send requests like the node's to the sink.
struct PythonClient {
    /// Requests in flight.
    static let inFlight = 500
    /// The most requests of a run: the clients send only some hundreds a second.
    static let maximumRequests = 20_000

    private let python: String
    private let directory: String
    private let script: String

    /// - Parameter python: an interpreter that has the clients, as `make bench-clients` makes it.
    init(_ python: String, directory: String) throws {
        self.python = python
        self.directory = directory
        script = "\(directory)/apns_clients.py"
        try Data(PackageResources.apns_clients_py).write(to: URL(filePath: script))
        try PrivateFile.create("\(directory)/client.p8", holding: SigningKey.generate(.es256).pem)
    }

    /// Sends requests with one of the clients of apns_clients.py.
    /// - Parameter pids: the processes to measure in addition to the client.
    func run(_ client: String, _ requests: Int, to server: LocalServer, measuring pids: [Int32]) throws -> Measurement {
        let meter = UsageMeter(pids.map { Optional($0) })
        let log = "\(directory)/client.log"
        let arguments = [
            python, script, client, server.address, "\(directory)/ca.pem", "\(directory)/client.p8", "\(requests)",
            "\(Self.inFlight)", "\(PushRequestGenerator.bodyLength)",
        ]
        let result = try MeasuredProcess(arguments, directory: directory, errors: log).wait()
        guard result.status == 0,
            var measurement = try? JSONDecoder().decode(Measurement.self, from: Data(result.output.utf8))
        else {
            let errors = FileManager.default.contents(atPath: log).map { String(decoding: $0, as: UTF8.self) } ?? ""
            throw fail("\(client) failed: \(result.output)\(errors.suffix(2000))", .failure)
        }
        measurement.others = meter.usage
        return measurement
    }
}
