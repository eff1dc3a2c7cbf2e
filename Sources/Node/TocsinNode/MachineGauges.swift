// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Prometheus
import Time

/// What the node uses of the machine. Reads it at most once in ten seconds: counting descriptors takes a moment if
/// there are many.
struct MachineGauges {
    private static let interval = Duration.seconds(10)
    private var last: (gauges: [NodeSnapshot.Gauge], time: MonotonicTime)?

    /// - Parameter state: the state directory.
    mutating func gauges(of state: String, at now: MonotonicTime) -> [NodeSnapshot.Gauge] {
        if let last, now - last.time < Self.interval { return last.gauges }
        var gauges: [NodeSnapshot.Gauge] = []
        if let memory = ProcessCollector.residentBytes {
            // `memoryLimit` is the machine's memory, or the lower limit of the unit or container.
            gauges.append(
                NodeSnapshot.Gauge("memory, of the machine's", memory, of: ProcessCollector.memoryLimit, isBytes: true))
        }
        if let open = ProcessCollector.openFiles {
            gauges.append(NodeSnapshot.Gauge("file descriptors", open, of: ProcessCollector.fileLimit, isBytes: false))
        }
        if let (free, size) = ProcessCollector.space(at: state) {
            gauges.append(NodeSnapshot.Gauge("disk of the state directory", size - free, of: size, isBytes: true))
        }
        last = (gauges, now)
        return gauges
    }
}
