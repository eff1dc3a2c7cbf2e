// SPDX-License-Identifier: Apache-2.0

import CLibevent
import Glibc
import Synchronization

/// A thread that runs libevent and, between its events, the jobs of the actors that name it as their executor.
///
/// It is a task executor, too: a task that awaits a continuation is resumed on a thread of the system's, and comes back
/// here only then, unless it was started with `Task(executorPreference: loop)`.
///
/// One turn: wait for events and run their callbacks, run jobs, tell those who asked (``atEndOfTurn(_:)``) that the
/// turn ends. Everything that is not marked as callable from anywhere belongs to the loop's own thread.
public final class EventLoop: SerialExecutor, TaskExecutor, @unchecked Sendable {
    // Unchecked: `inbox` and `stopping` are synchronised; `base` has libevent's locks (evthread) for event_active;
    // everything else is touched by the loop's thread only, which `preconditionOnLoop` checks at the endpoints.

    /// Jobs taken in one turn before sockets are looked at again.
    private static let jobsPerTurn = 4096

    let base: OpaquePointer
    private let inbox = Mutex<[UnownedJob]>([])
    private let stopping = Atomic<Bool>(false)
    private let threadIdentity = Atomic<UInt>(0)
    private var wakeUp: OpaquePointer?
    private var thread = pthread_t()
    private var local: [UnownedJob] = []
    private var batch: [UnownedJob] = []
    private var endOfTurn: [any TurnEndHandler] = []
    private var endingTurn: [any TurnEndHandler] = []
    /// Counts turns: work that is bounded per turn is counted against it. Loop only.
    package private(set) var turn: UInt64 = 0
    /// One DNS client a loop, made at the first name.
    var resolver: Resolver?

    private static let processSetUp: Void = {
        evthread_use_pthreads()
        // A write to a closed socket is an error to handle where it happens, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
    }()

    /// Starts the thread. `name` (its first 15 bytes) shows in `top -H`.
    package init(name: String = "loop") {
        EventLoop.processSetUp
        guard let base = event_base_new() else { fatalError("libevent could not start: out of memory or descriptors") }
        self.base = base
        wakeUp = event_new(base, -1, Int16(EV_PERSIST), { _, _, _ in }, nil)
        let box = Unmanaged.passRetained(StartBox(loop: self, name: name))
        let result = pthread_create(
            &thread, nil,
            { argument in
                let box = Unmanaged<StartBox>.fromOpaque(argument!).takeRetainedValue()
                clibevent_name_thread(box.name)
                // A thread begins with its maker's mask, and Swift's own threads block everything.
                var none = sigset_t()
                sigemptyset(&none)
                pthread_sigmask(SIG_SETMASK, &none, nil)
                box.loop.threadIdentity.store(UInt(pthread_self()), ordering: .releasing)
                box.loop.run()
                return nil
            }, box.toOpaque())
        guard result == 0 else { fatalError("no thread for an event loop: \(String(cString: strerror(result)))") }
    }

    private final class StartBox {
        let loop: EventLoop
        let name: String
        init(loop: EventLoop, name: String) {
            self.loop = loop
            self.name = name
        }
    }

    /// Ends the loop after its present turn and waits for its thread; jobs that are queued then never run. Callable from
    /// any thread but its own. A loop that is never stopped runs as long as the process.
    package func stop() {
        precondition(!isOnLoop, "a loop cannot wait for its own end")
        guard !stopping.exchange(true, ordering: .acquiringAndReleasing) else { return }
        event_active(wakeUp, 0, 0)
        pthread_join(thread, nil)
    }

    deinit {
        // Whatever is still tied to the base holds the loop, so that nothing is left when it goes.
        resolver = nil
        event_free(wakeUp)
        event_base_free(base)
    }

    /// Whether the caller is the loop's thread. Callable from anywhere.
    package var isOnLoop: Bool { threadIdentity.load(ordering: .acquiring) == UInt(pthread_self()) }

    func preconditionOnLoop() { precondition(isOnLoop, "called from outside the event loop it belongs to") }

    // MARK: SerialExecutor

    /// Takes a job of an actor that runs here. Callable from anywhere.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if isOnLoop {
            local.append(job)
            return
        }
        let wasEmpty = inbox.withLock { jobs in
            jobs.append(job)
            return jobs.count == 1
        }
        if wasEmpty { event_active(wakeUp, 0, 0) }
    }

    public func checkIsolated() { preconditionOnLoop() }

    public func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

    public func asUnownedTaskExecutor() -> UnownedTaskExecutor { UnownedTaskExecutor(ordinary: self) }

    // MARK: Turns

    /// Has `handler` called once, at the end of the present turn: whoever writes to a socket many times a turn flushes
    /// once there.
    package func atEndOfTurn(_ handler: any TurnEndHandler) {
        preconditionOnLoop()
        endOfTurn.append(handler)
    }

    private func run() {
        while !stopping.load(ordering: .acquiring) {
            let busy = !local.isEmpty || !endOfTurn.isEmpty
            turn &+= 1
            event_base_loop(base, EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY | (busy ? EVLOOP_NONBLOCK : 0))
            runJobs()
            while !endOfTurn.isEmpty {
                swap(&endOfTurn, &endingTurn)
                for handler in endingTurn { handler.turnEnded() }
                endingTurn.removeAll(keepingCapacity: true)
            }
        }
    }

    private func runJobs() {
        let (executor, taskExecutor) = (asUnownedSerialExecutor(), asUnownedTaskExecutor())
        var budget = Self.jobsPerTurn
        takeInbox()
        while !local.isEmpty, budget > 0 {
            swap(&local, &batch)
            budget -= batch.count
            for job in batch { job.runSynchronously(isolatedTo: executor, taskExecutor: taskExecutor) }
            batch.removeAll(keepingCapacity: true)
            takeInbox()
        }
    }

    private func takeInbox() {
        inbox.withLock { jobs in
            guard !jobs.isEmpty else { return }
            local.append(contentsOf: jobs)
            jobs.removeAll(keepingCapacity: true)
        }
    }
}

/// Someone who has something to finish when the loop's turn ends.
package protocol TurnEndHandler: AnyObject {
    /// The turn ends: write what has been gathered.
    func turnEnded()
}
