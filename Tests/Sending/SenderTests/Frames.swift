// SPDX-License-Identifier: Apache-2.0

import TNP

// What a node sends, and envelopes to send to it.

func makeEnvelope(_ number: Int) throws -> Envelope {
    let iv = Array(String(1_000_000_000_000_000 + number).utf8)
    return try Envelope(
        magic: .iOS, deviceToken: Array("d45161df3d172837".utf8)[...], iv: iv[...],
        ciphertext: [UInt8](repeating: 0x41, count: 32)[...], format: .pipe)
}

func makePuzzle(_ effort: UInt32, seed: UInt8 = 7) -> Puzzle {
    Puzzle(seed: [UInt8](repeating: seed, count: 16), effort: effort, lifetime: 3600)
}

func makeWelcome(
    _ features: Welcome.Features = [], inFlight: UInt16 = 64, idleTimeout: UInt32 = 600, puzzle: Puzzle = makePuzzle(0)
) -> Welcome {
    Welcome(
        features: features, maximumFrame: 8192, maximumInFlight: inFlight, idleTimeout: idleTimeout,
        serverTime: 1_760_000_000_123,
        puzzle: puzzle, routes: ["bisq/iOS"])
}

func welcomeFrame(
    _ features: Welcome.Features = [], inFlight: UInt16 = 64, idleTimeout: UInt32 = 600, puzzle: Puzzle = makePuzzle(0)
) -> [UInt8] {
    var output: [UInt8] = []
    output.append(makeWelcome(features, inFlight: inFlight, idleTimeout: idleTimeout, puzzle: puzzle))
    return output
}

func puzzleFrame(_ puzzle: Puzzle) -> [UInt8] {
    var output: [UInt8] = []
    output.append(puzzle)
    return output
}

func resultFrame(_ request: UInt32, _ outcome: Outcome) -> [UInt8] {
    var output: [UInt8] = []
    output.append(SubmissionResult(request: request, outcome: outcome))
    return output
}

func goAwayFrame(_ goAway: GoAway) -> [UInt8] {
    var output: [UInt8] = []
    output.append(goAway)
    return output
}
