// SPDX-License-Identifier: Apache-2.0

import CNGHTTP2
import EventLoop
import HTTP2

/// The server side of a session.
extension Session {
    /// A session that serves a client.
    /// - Parameter concurrentStreams: SETTINGS_MAX_CONCURRENT_STREAMS.
    convenience init(serving stream: ByteStream, concurrentStreams: UInt32, handler: SessionHandler) {
        self.init(stream, isServer: true, settings: [Self.setting(concurrentStreams)], handler: handler)
    }

    /// Assigns a slot to a stream; events of the stream then report the slot.
    func setSlot(_ slot: Int, of stream: Int32) {
        nghttp2_session_set_stream_user_data(handle, stream, Session.pointer(slot))
    }

    /// Sends response headers, then the body that the ``SessionHandler`` supplies for this slot.
    func respond(to stream: Int32, slot: Int, headers: HeaderBlock, hasBody: Bool) {
        _ = Session.withFields(headers, isFirst: false) { fields, count in
            withUnsafePointer(to: Session.bodySource(slot)) { source in
                nghttp2_submit_response(handle, stream, fields, count, hasBody ? source : nil)
            }
        }
        scheduleFlush()
    }

    /// Sends GOAWAY with NO_ERROR.
    /// - Parameter lastStream: the last stream that the server processes.
    func goAway(lastStream: Int32) {
        nghttp2_submit_goaway(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), lastStream, NGHTTP2_NO_ERROR.rawValue, nil, 0)
        scheduleFlush()
    }

    /// Sends SETTINGS with this MAX_CONCURRENT_STREAMS.
    func set(concurrentStreams: UInt32) {
        var entry = Self.setting(concurrentStreams)
        nghttp2_submit_settings(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), &entry, 1)
        scheduleFlush()
    }

    private static func setting(_ concurrentStreams: UInt32) -> nghttp2_settings_entry {
        nghttp2_settings_entry(
            settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue), value: concurrentStreams)
    }
}
