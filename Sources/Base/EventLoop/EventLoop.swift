// SPDX-License-Identifier: Apache-2.0

import CLibevent
import Glibc
import Synchronization
import Time

/// A thread that runs libevent and, between its events, the jobs of the actors that use it as their executor.
///
/// The loop is also a task executor. A task that awaits a continuation is resumed on one of the system's threads and
/// only then returns to the loop, unless it was started with `Task(executorPreference: loop)`.
///
/// Each turn waits for events and runs their callbacks, runs jobs, then calls the handlers registered with
/// ``atEndOfTurn(_:)``. Members belong to the loop's own thread unless they are marked as callable from any thread.
public final class EventLoop: SerialExecutor, TaskExecutor, @unchecked Sendable {
    // Unchecked: `inbox` and `stopping` are synchronised; libevent's locks (evthread) protect `base` for event_active;
    // everything else is used on the loop's thread only, which `preconditionOnLoop` checks at the entry points.

    /// Number of jobs in one turn after which the loop polls its sockets again.
    private static let jobsPerTurn = 4096

    /// libevent's state; `nil` for a loop of a ``LoopWorld``.
    let base: OpaquePointer?
    private let name: String
    private let threads: any TaskExecutor
    private let inbox = Mutex<[UnownedJob]>([])
    private let stopping = Atomic<Bool>(false)
    private let threadIdentity = Atomic<UInt>(0)
    private var wakeUp: OpaquePointer?
    private var thread = pthread_t()
    private var local: [UnownedJob] = []
    private var batch: [UnownedJob] = []
    private var endOfTurn: [any TurnEndHandler] = []
    /// The objects that ``keep(_:)`` retains.
    private var kept: [ObjectIdentifier: AnyObject] = [:]
    private var endingTurn: [any TurnEndHandler] = []
    /// The number of the current turn, for limits on work per turn. Loop only.
    package private(set) var turn: UInt64 = 0
    /// The last reading of the clock during the present event; `nil` if there was none, and always in a ``LoopWorld``,
    /// whose clock costs nothing.
    private var reading: MonotonicTime?
    /// For bytes that a stream reads and its handler consumes in the same call. Loop only.
    let readBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: ByteStream.maximumRead, alignment: 16)
    /// For the same bytes after TLS has decrypted them. Loop only.
    let decryptionBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: ByteStream.maximumRead, alignment: 16)
    /// The lookups of names under each policy; the first lookup under a policy makes them.
    var lookups: [AddressPolicy: NameLookups] = [:]
    /// Looks names up, by default in this process. A confined process sets a service that asks another process. Loop
    /// only.
    package lazy var nameService: any NameService = SystemNameService(on: self)

    /// What the loop runs on; `nil` for a loop with a thread.
    package let world: (any LoopWorld)?
    /// What ``inNextTurn(_:)`` was given.
    private var ready: [() -> Void] = []
    /// Whether the world knows that the loop needs a turn.
    private var isTurnScheduled = false

    private static let processSetUp: Void = {
        evthread_use_pthreads()
        // A write to a closed socket must return an error, not terminate the process.
        signal(SIGPIPE, SIG_IGN)
    }()

    /// Starts the thread.
    /// - Parameters:
    ///   - name: its first 15 bytes show in `top -H`.
    ///   - workers: executes work that would hold up the loop; `nil` for the system's threads.
    public init(name: String = "loop", workers: (any TaskExecutor)? = nil) {
        EventLoop.processSetUp
        guard let base = event_base_new() else { fatalError("libevent could not start: out of memory or descriptors") }
        self.base = base
        self.name = name
        threads = workers ?? globalConcurrentExecutor
        world = nil
        wakeUp = event_new(base, -1, Int16(EV_PERSIST), { _, _, _ in }, nil)
        let result = pthread_create(
            &thread, nil,
            { argument in
                let loop = Unmanaged<EventLoop>.fromOpaque(argument!).takeRetainedValue()
                clibevent_name_thread(loop.name)
                // A thread inherits the signal mask of its creator, and Swift's own threads block all signals.
                var none = sigset_t()
                sigemptyset(&none)
                pthread_sigmask(SIG_SETMASK, &none, nil)
                loop.threadIdentity.store(UInt(pthread_self()), ordering: .releasing)
                loop.run()
                return nil
            }, Unmanaged.passRetained(self).toOpaque())
        guard result == 0 else { fatalError("cannot start event loop thread: \(String(cString: strerror(result)))") }
    }

    /// A loop without a thread: `world` gives it turns.
    package init(in world: any LoopWorld, name: String) {
        base = nil
        self.name = name
        threads = globalConcurrentExecutor
        self.world = world
        threadIdentity.store(UInt(pthread_self()), ordering: .releasing)
    }

    /// Stops the loop after its current turn and waits for its thread; jobs that are still queued never run. Callable
    /// from any thread except the loop's own. A loop that is never stopped runs as long as the process.
    public func stop() {
        precondition(!isOnLoop, "an event loop cannot be stopped from its own thread")
        guard !stopping.exchange(true, ordering: .acquiringAndReleasing) else { return }
        event_active(wakeUp, 0, 0)
        pthread_join(thread, nil)
    }

    deinit {
        // Every object that uses the base retains the loop, so none is left here.
        readBuffer.deallocate()
        decryptionBuffer.deallocate()
        guard let base else { return }
        event_free(wakeUp)
        event_base_free(base)
    }

    /// Whether the calling thread is the loop's. Callable from any thread.
    package var isOnLoop: Bool { threadIdentity.load(ordering: .acquiring) == UInt(pthread_self()) }

    /// Traps unless the calling thread is the loop's.
    package func preconditionOnLoop() { precondition(isOnLoop, "called outside the event loop's thread") }

    // MARK: SerialExecutor

    /// Queues a job of an actor that runs on this loop. Callable from any thread.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if isOnLoop {
            local.append(job)
            if world != nil { requestTurn() }
            return
        }
        let wasEmpty = inbox.withLock { jobs in
            jobs.append(job)
            return jobs.count == 1
        }
        if wasEmpty { event_active(wakeUp, 0, 0) }
    }

    /// Traps unless the caller is on the loop's thread.
    public func checkIsolated() { preconditionOnLoop() }

    /// The loop as a serial executor.
    public func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

    /// The loop as a task executor.
    public func asUnownedTaskExecutor() -> UnownedTaskExecutor { UnownedTaskExecutor(ordinary: self) }

    // MARK: Objects

    /// Keeps an object alive until ``letGo(of:)``, also if nobody else holds it: resources of the loop must be released on
    /// its thread. Keeping it again changes nothing. Loop only.
    package func keep(_ object: AnyObject) {
        preconditionOnLoop()
        kept[ObjectIdentifier(object)] = object
    }

    /// Releases an object that ``keep(_:)`` retains. Loop only.
    package func letGo(of object: AnyObject) {
        preconditionOnLoop()
        kept[ObjectIdentifier(object)] = nil
    }

    /// Whether the loop keeps an object alive. Loop only.
    package func keeps(_ object: AnyObject) -> Bool { kept[ObjectIdentifier(object)] != nil }

    // MARK: Turns

    /// Calls `handler` once at the end of the current turn, for example to flush many writes to a socket at once.
    package func atEndOfTurn(_ handler: any TurnEndHandler) {
        preconditionOnLoop()
        endOfTurn.append(handler)
        if world != nil { requestTurn() }
    }

    /// The time of the event that the loop is handling, by the monotonic clock: of a connection or bytes that arrived,
    /// a timer, or a job. Reads the clock at the first use during an event only, because an envelope would otherwise
    /// take nine readings of 50 cycles. Loop only.
    package var now: MonotonicTime { reading ?? readClock() }

    /// Reads the clock again during an event. ``now`` is this time until the next event. Loop only.
    @discardableResult package func readClock() -> MonotonicTime {
        let time = MonotonicTime.now
        if world == nil { reading = time }
        return time
    }

    /// Another event begins. Loop only.
    func eventBegins() { reading = nil }

    private func run() {
        while !stopping.load(ordering: .acquiring) {
            let busy = !local.isEmpty || !endOfTurn.isEmpty
            turn &+= 1
            eventBegins()
            event_base_loop(base, EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY | (busy ? EVLOOP_NONBLOCK : 0))
            finishTurn()
        }
    }

    /// Runs jobs, then the handlers of the turn's end.
    private func finishTurn() {
        runJobs()
        while !endOfTurn.isEmpty {
            swap(&endOfTurn, &endingTurn)
            eventBegins()
            for handler in endingTurn { handler.turnEnded() }
            endingTurn.removeAll(keepingCapacity: true)
        }
    }

    private func runJobs() {
        let (executor, taskExecutor) = (asUnownedSerialExecutor(), asUnownedTaskExecutor())
        var budget = Self.jobsPerTurn
        moveInbox()
        while !local.isEmpty, budget > 0 {
            swap(&local, &batch)
            budget -= batch.count
            for job in batch {
                eventBegins()
                job.runSynchronously(isolatedTo: executor, taskExecutor: taskExecutor)
            }
            batch.removeAll(keepingCapacity: true)
            moveInbox()
        }
    }

    private func moveInbox() {
        inbox.withLock { jobs in
            guard !jobs.isEmpty else { return }
            local.append(contentsOf: jobs)
            jobs.removeAll(keepingCapacity: true)
        }
    }
}

// MARK: In a world

extension EventLoop {
    /// Asks the world to run a turn, unless one is scheduled already.
    private func requestTurn() {
        guard !isTurnScheduled else { return }
        isTurnScheduled = true
        world?.needsTurn(self)
    }

    /// Calls `body` in the next turn.
    package func inNextTurn(_ body: @escaping () -> Void) {
        ready.append(body)
        requestTurn()
    }

    /// One turn of a loop without a thread.
    package func runTurn() {
        turn &+= 1
        let bodies = ready
        ready = []
        for body in bodies { body() }
        finishTurn()
        isTurnScheduled = false
        if !ready.isEmpty || !local.isEmpty { requestTurn() }
    }

    /// The executor for work that would hold up the loop; in a ``LoopWorld``, the loop itself.
    package var workers: any TaskExecutor { world == nil ? threads : self }
}

/// An object with work to finish at the end of a turn of the loop.
package protocol TurnEndHandler: AnyObject {
    /// The turn is ending: write the gathered output.
    func turnEnded()
}
