// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.PriorityQueue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** One thread that performs all I/O, timers and decisions of a client, so that none of them needs a lock. */
final class Loop {
    private final Selector selector;
    private final ConcurrentLinkedQueue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private final PriorityQueue<Timer> timers = new PriorityQueue<>();
    /** The number of timers after cancelled ones were last removed. */
    private int purgedTimers = 1024;

    private volatile boolean isStopped;

    /** A task at a time. */
    static final class Timer implements Comparable<Timer> {
        private final long time;
        /** {@code null} once cancelled, so that a distant timer keeps nothing in memory. */
        private Runnable task;

        private Timer(long time, Runnable task) {
            this.time = time;
            this.task = task;
        }

        /** Cancels the timer, on the loop's thread. */
        void cancel() {
            task = null;
        }

        @Override
        public int compareTo(Timer other) {
            return Long.compare(time - other.time, 0);
        }
    }

    Loop() {
        try {
            selector = Selector.open();
        } catch (IOException error) {
            throw new UncheckedIOException("cannot open a selector", error);
        }
        Thread thread = new Thread(this::run, "tocsin-client");
        thread.setDaemon(true);
        thread.start();
    }

    /** Runs a task on the loop's thread; from any thread. */
    void execute(Runnable task) {
        tasks.add(task);
        selector.wakeup();
    }

    /** Runs a task later; on the loop's thread. */
    Timer schedule(long nanoseconds, Runnable task) {
        Timer timer = new Timer(now() + nanoseconds, task);
        timers.add(timer);
        return timer;
    }

    /** Registers a channel, whose attachment is a {@link Connection}. */
    SelectionKey register(SocketChannel channel, int interest, Connection connection) throws IOException {
        return channel.register(selector, interest, connection);
    }

    /** Monotonic time in nanoseconds: a clock that jumps changes nothing. */
    static long now() {
        return System.nanoTime();
    }

    /** Ends the thread once the tasks before are done. */
    void stop() {
        execute(() -> isStopped = true);
    }

    private void run() {
        try {
            while (!isStopped) {
                selector.select(this::ready, untilNext(now()));
                for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
                    guarded(task);
                }
                runTimers(now());
            }
            for (SelectionKey key : selector.keys()) {
                key.channel().close();
            }
            selector.close();
        } catch (IOException error) {
            throw new UncheckedIOException("the selector failed", error);
        }
    }

    /** Runs a task. What it throws, e.g. from a callback of the app, must not end the thread. */
    private static void guarded(Runnable task) {
        try {
            task.run();
        } catch (RuntimeException | Error error) {
            Thread thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, error);
        }
    }

    private void ready(SelectionKey key) {
        guarded(() -> ((Connection) key.attachment()).ready(key));
    }

    /** Milliseconds until the next timer, rounded up; 0 waits without end. */
    private long untilNext(long now) {
        if (timers.size() > 2 * purgedTimers && timers.removeIf(timer -> timer.task == null)) {
            purgedTimers = Math.max(1024, timers.size());
        }
        while (!timers.isEmpty() && timers.peek().task == null) {
            timers.poll();
        }
        if (!tasks.isEmpty()) {
            return 1;
        }
        return timers.isEmpty() ? 0 : Math.max(1, (timers.peek().time - now + 999_999) / 1_000_000);
    }

    private void runTimers(long now) {
        while (!timers.isEmpty() && timers.peek().time - now <= 0) {
            Timer timer = timers.poll();
            if (timer.task != null) {
                guarded(timer.task);
            }
        }
    }
}
