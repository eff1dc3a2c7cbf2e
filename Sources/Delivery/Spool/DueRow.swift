import EventLoop

/// When a row of the spool is to be tried again.
struct DueRow: Comparable {
    let time: MonotonicTime
    let row: Int64

    static func < (one: Self, other: Self) -> Bool { (one.time, one.row) < (other.time, other.row) }
}
