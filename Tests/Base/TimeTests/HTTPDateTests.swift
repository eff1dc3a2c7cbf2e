// SPDX-License-Identifier: Apache-2.0

import Glibc
import TestSupport
import Testing

@testable import Providers
@testable import Time

@Suite(.tags(.computing)) struct HTTPDateTests {
    @Test(arguments: [
        ("Sun, 06 Nov 1994 08:49:37 GMT", Int64(784_111_777)),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
        ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
        ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199),
        ("Thu, 01 Mar 1900 00:00:00 GMT", -2_203_891_200),
        ("Tue, 19 Jan 2038 03:14:08 GMT", 2_147_483_648),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
    ])
    func `a date parses to seconds since 1970`(_ text: String, _ seconds: Int64) {
        #expect(HTTPDate.unixTime(text) == seconds)
    }

    @Test func `dates written by the C library from 1900 to 2400 parse back`() {
        // From 1900 to 2400, in steps that cover every day of the week and every hour.
        for seconds in stride(from: Int64(-2_208_988_800), to: 13_569_465_600, by: 10_000_019) {
            var time = time_t(seconds)
            var parts = tm()
            gmtime_r(&time, &parts)
            var text = [CChar](repeating: 0, count: 64)
            let length = strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
            let written = text.prefix(length).map { UInt8(bitPattern: $0) }
            #expect(HTTPDate.unixTime(String(decoding: written, as: UTF8.self)) == seconds)
        }
    }

    @Test(arguments: [
        "", "0", "120", "Sun", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 GMT ",
        " Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT",
        // Names: a wrong weekday, an unknown one, wrong case, an unknown month.
        "Mon, 06 Nov 1994 08:49:37 GMT", "Xyz, 06 Nov 1994 08:49:37 GMT", "SUN, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT",
        // Punctuation, digits and zone.
        "Sun; 06 Nov 1994 08:49:37 GMT", "Sun, 06-Nov-1994 08:49:37 GMT", "Sun, 06 Nov 1994 08.49.37 GMT",
        "Sun, +6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:3x GMT", "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 gmt",
        // Ranges.
        "Sun, 00 Nov 1994 08:49:37 GMT", "Thu, 31 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT", "Sat, 31 Dec 2016 23:59:60 GMT", "Thu, 01 Mar 1900 99:00:00 GMT",
        "Sun, 06 Nov 2147483647 08:49:37 GMT", "Sun, 06 Nov 1994 2147483647:49:37 GMT",
        // The obsolete forms.
        "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        // 29 bytes, but not ASCII.
        "Sun, 06 Nov 1994 08:49:37 G\u{E9}",
    ])
    func `any other text is rejected`(_ text: String) {
        #expect(HTTPDate.unixTime(text) == nil)
    }

    @Test func `29 February is valid only in leap years`() {
        // The weekday of 28 February or the one after it.
        #expect(HTTPDate.unixTime("Wed, 29 Feb 1900 00:00:00 GMT") == nil)
        #expect(HTTPDate.unixTime("Thu, 29 Feb 1900 00:00:00 GMT") == nil)
        #expect(HTTPDate.unixTime("Wed, 29 Feb 2023 00:00:00 GMT") == nil)
        #expect(HTTPDate.unixTime("Tue, 28 Feb 2023 00:00:00 GMT") == 1_677_542_400)
        #expect(HTTPDate.unixTime("Thu, 30 Feb 2024 00:00:00 GMT") == nil)
    }
}
