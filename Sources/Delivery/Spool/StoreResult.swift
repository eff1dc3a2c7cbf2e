import TNP

/// What came of storing an envelope.
public enum StoreResult: Equatable, Sendable {
    /// It is on disk, under this id, and survives a crash: QUEUED may be answered.
    case stored(id: Int64)
    /// An envelope of the same digest waits already, under this id.
    case alreadyStored(id: Int64)
    /// An envelope of the same digest has had this outcome.
    case alreadyFinal(Outcome)
    /// The spool is as large as it may become, or the disk nearly full, and nothing in it has expired.
    case full
    /// The disk could not take it; the text says why and holds nothing of the envelope.
    case failed(String)
}
