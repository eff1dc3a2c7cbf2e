// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

// 6.2 because swift-subprocess, which runs tor for us, asks for it.
import PackageDescription

let ours: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    // A file can use only what it imports itself.
    .enableUpcomingFeature("MemberImportVisibility"),
]

/// What the fuzz targets read with.
let fuzzed: [Target.Dependency] = [
    "Admission", "CSodium", "Cluster", "Cryptography", "Delivery", "EventLoop", "HTTP1", "HTTP2", "Handles", "Ingress",
    "Archive", "KeyHolder", "NodeConfiguration",
    "Providers", "Redis", "Sender", "TNP", "Time", "TocsinPhone", "Tor", "World",
]

/// The folders of Sources and Tests, from the lowest floor to the highest, with the targets in each.
let floors: KeyValuePairs = [
    "C": [
        "CAllocator", "CBuild", "CClock", "CHiredis", "CLLHTTP", "CLibevent", "CLinux", "CNGHTTP2", "COpenSSL", "CPNG",
        "CQREncode",
        "CSQLite", "CSeccomp", "CSodium", "CWorld", "CLua",
    ],
    "Base": ["Time", "Tables", "Cryptography", "Store", "EventLoop"],
    "Wire": ["TNP", "HTTP1", "HTTP2", "Redis", "Prometheus"],
    "Sending": ["Sender", "TocsinClient", "TocsinPhone"],
    "Node": [
        "Settings", "Archive", "Providers", "Admission", "Handles", "Cluster", "Delivery", "Ingress", "KeyHolder",
        "Confinement",
        "Tor",
        "NodeConfiguration", "AdminPort", "Diagnostics", "TocsinNode",
    ],
    "Commands": ["tocsin", "Console", "QRCode", "StandIns"],
    "Lab": ["World", "tocsin-bench"],
]

let package = Package(
    name: "tocsin",
    products: [
        .library(name: "TNP", targets: ["TNP"]),
        .library(name: "TocsinClient", targets: ["TocsinClient", "TNP", "EventLoop"]),
        .library(name: "TocsinPhone", targets: ["TocsinPhone"]),
        .executable(name: "tocsin", targets: ["tocsin"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.0.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.1.0"),
        .package(url: "https://github.com/LebJe/TOMLKit", from: "0.6.0"),
        .package(url: "https://github.com/apple/swift-system", from: "1.5.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.0", traits: []),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    ],
    targets: [
        // System C libraries, one module each.
        .systemLibrary(name: "CLibevent", pkgConfig: "libevent_pthreads", providers: [.apt(["libevent-dev"])]),
        .systemLibrary(name: "CSodium", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev"])]),
        .systemLibrary(name: "CQREncode", pkgConfig: "libqrencode", providers: [.apt(["libqrencode-dev"])]),
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(name: "CLua", providers: [.apt(["liblua5.1-0-dev"])]),
        .systemLibrary(name: "CPNG", pkgConfig: "libpng", providers: [.apt(["libpng-dev"])]),

        // Settings of the allocator, which C alone can define.
        .target(name: "CAllocator"),
        .target(name: "CBuild"),
        .target(name: "CClock"),
        // nghttp2 (libnghttp2-dev), and the memory of its sessions, which C alone can serve fast.
        .target(name: "CNGHTTP2", linkerSettings: [.linkedLibrary("nghttp2")]),
        // OpenSSL (libssl-dev), which must be told before it starts that it is not to clean up at exit.
        .target(name: "COpenSSL", linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        // What a program that simulates a world has in place of CClock and of Swift's executor.
        .target(name: "CWorld"),
        // llhttp, which Debian has as sources only (node-llhttp).
        .target(name: "CLLHTTP", cSettings: [.define("LLHTTP_STRICT_MODE", to: "1")]),
        // Linux's own interfaces, for which glibc has no wrapper that Swift can call.
        .systemLibrary(name: "CLinux"),
        .systemLibrary(name: "CSeccomp", pkgConfig: "libseccomp", providers: [.apt(["libseccomp-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),

        .target(
            name: "Time", dependencies: ["CClock", .product(name: "DequeModule", package: "swift-collections")],
            swiftSettings: ours),
        .target(name: "Tables", swiftSettings: ours),
        .target(name: "Cryptography", dependencies: ["CSodium", "COpenSSL"], swiftSettings: ours),
        .target(name: "Store", dependencies: ["Cryptography", "CSQLite"], swiftSettings: ours),
        .target(
            name: "EventLoop",
            dependencies: [
                "Cryptography", "Time", "CLibevent", "COpenSSL",
            ],
            swiftSettings: ours),
        .target(name: "TNP", dependencies: ["Cryptography"], swiftSettings: ours),
        .target(
            name: "HTTP2",
            dependencies: [
                "EventLoop", "Time", "Cryptography", "CNGHTTP2",
                .product(name: "DequeModule", package: "swift-collections"),
            ],
            swiftSettings: ours),
        .target(
            name: "HTTP1",
            dependencies: [
                "EventLoop", "Cryptography", "Time", "CLLHTTP",
                .product(name: "DequeModule", package: "swift-collections"),
            ],
            swiftSettings: ours),
        .target(
            name: "Redis",
            dependencies: [
                "EventLoop", "Cryptography", "Time", "CHiredis",
                .product(name: "DequeModule", package: "swift-collections"),
            ],
            swiftSettings: ours),
        .target(
            name: "Cluster",
            dependencies: ["Admission", "Handles", "Redis", "EventLoop", "TNP", "Cryptography", "Time"],
            resources: [.embedInCode("functions.lua")], swiftSettings: ours),
        .target(name: "Prometheus", swiftSettings: ours),
        .target(name: "QRCode", dependencies: ["CQREncode", "CPNG"], swiftSettings: ours),
        .target(
            name: "Settings",
            dependencies: ["EventLoop", "Cryptography", .product(name: "TOMLKit", package: "TOMLKit")],
            swiftSettings: ours),
        .target(
            name: "Providers",
            dependencies: [
                "TNP", "HTTP1", "HTTP2", "EventLoop", "Cryptography", "Sender", "Settings", "Tables", "Time", "Tor",
            ],
            swiftSettings: ours),
        .target(
            name: "Admission",
            dependencies: [
                "TNP", "Time", "Cryptography", "Tables",
                .product(name: "DequeModule", package: "swift-collections"),
                "Settings", "Store",
            ],
            swiftSettings: ours),
        .target(name: "Archive", dependencies: ["Cryptography"], swiftSettings: ours),
        .target(
            name: "Handles",
            dependencies: [
                "TNP", "Cryptography", "Store", "Time", .product(name: "DequeModule", package: "swift-collections"),
            ], swiftSettings: ours),
        .target(
            name: "Delivery",
            dependencies: [
                "TNP", "Providers", "EventLoop", "Cryptography", "Tables", "Time",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
                "Store",
            ],
            swiftSettings: ours),
        .target(
            name: "Tor",
            dependencies: [
                "EventLoop", "Cryptography", "Time", .product(name: "Subprocess", package: "swift-subprocess"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: ours),
        .target(
            name: "NodeConfiguration",
            dependencies: [
                "Settings",
                "TNP", "Admission", "Cluster", "Delivery", "Providers", "Tor", "EventLoop", "Cryptography",
                .product(name: "TOMLKit", package: "TOMLKit"), .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: ours),
        .target(name: "Confinement", dependencies: ["CLinux", "CSeccomp"], swiftSettings: ours),
        .target(
            name: "KeyHolder",
            dependencies: [
                "Settings",
                "NodeConfiguration", "Providers", "Confinement", "EventLoop", "Cryptography", "Time", "CLinux",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: ours),
        .target(
            name: "Ingress",
            dependencies: [
                "EventLoop", "TNP", "HTTP1", "Admission", "Providers", "NodeConfiguration", "Cryptography", "Time",
                .product(name: "DequeModule", package: "swift-collections"),
            ],
            swiftSettings: ours),
        .target(
            name: "AdminPort",
            dependencies: [
                "Settings",
                "TNP", "HTTP1", "EventLoop", "Prometheus", "Providers", "NodeConfiguration", "Time",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: ours),
        .target(
            name: "Diagnostics",
            dependencies: [
                "Settings",
                "NodeConfiguration", "Providers", "Tor", "Store", "TNP", "Admission", "Cluster", "Delivery",
                "EventLoop", "Handles", "Cryptography", "Time",
            ],
            swiftSettings: ours),
        .target(
            name: "TocsinNode",
            dependencies: [
                "CBuild", "Settings",
                .product(name: "DequeModule", package: "swift-collections"),
                "TNP", "EventLoop", "Providers", "Admission", "Delivery", "Cryptography", "Tables",
                "Time", "Prometheus", "Tor", "NodeConfiguration", "Ingress", "AdminPort", "Diagnostics",
                "Cluster", "Handles", "Redis", "Store", "KeyHolder", "Confinement",
                "TocsinClient", .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: ours),
        .target(
            name: "Sender", dependencies: ["TNP", "EventLoop", "Cryptography", "Tables", "Time"], swiftSettings: ours),
        .target(
            name: "TocsinClient", dependencies: ["Sender", "TNP", "EventLoop", "Cryptography", "Time"],
            swiftSettings: ours),
        // For phones: nothing of Linux, and no system library.
        .target(
            name: "TocsinPhone",
            dependencies: [
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ],
            swiftSettings: ours),
        .target(
            name: "StandIns",
            dependencies: [
                "EventLoop", "HTTP1", "HTTP2", "TNP", "Tor", "Cryptography", "Time", "CNGHTTP2", "COpenSSL",
            ],
            swiftSettings: ours),
        .target(
            name: "Console",
            dependencies: ["EventLoop", .product(name: "ArgumentParser", package: "swift-argument-parser")],
            swiftSettings: ours),
        .executableTarget(
            name: "tocsin",
            dependencies: [
                "Archive",
                "Providers",
                "Settings",
                "CAllocator",
                "TocsinNode", "TocsinClient", "StandIns", "QRCode", "Store", "Tor", "Console", "Admission",
                "KeyHolder",
                "Confinement",
                "NodeConfiguration", "Diagnostics", "EventLoop", "TNP", "Cryptography", "Time",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: ours),
        .target(
            name: "World",
            dependencies: [
                "CWorld", "CLua", "StandIns", "EventLoop", "Redis", "Store", "Time", "COpenSSL", "CSQLite", "CSodium",
                .product(name: "HeapModule", package: "swift-collections"),
            ],
            swiftSettings: ours),
        .executableTarget(
            name: "tocsin-bench",
            dependencies: [
                "World", "TocsinClient", "TocsinPhone", "TocsinNode", "NodeConfiguration", "Tor", "StandIns",
                "Admission", "Delivery", "KeyHolder", "Providers",
                "HTTP2",
                "Console", "EventLoop", "TNP", "Cryptography", "Store", "Time",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Histogram", package: "hdrhistogram-swift"),
            ],
            resources: [.embedInCode("Compare/apns_clients.py")], swiftSettings: ours),

        .target(
            name: "TestSupport", dependencies: ["Cryptography", "Prometheus"], path: "Tests/TestSupport",
            swiftSettings: ours),
        .testTarget(
            name: "AdminPortTests",
            dependencies: [
                "Settings",
                "TestSupport", "AdminPort", "Cryptography", "HTTP1", "NodeConfiguration", "StandIns", "TNP",
                "TocsinNode",
                .product(name: "Logging", package: "swift-log"),
            ], swiftSettings: ours),
        .testTarget(
            name: "AdmissionTests",
            dependencies: [
                "TestSupport", "Admission", "Cryptography", "EventLoop", "StandIns", "Store", "TNP", "Time",
            ],
            swiftSettings: ours),
        .testTarget(
            name: "ClusterTests",
            dependencies: [
                "TestSupport", "Admission", "Cluster", "Cryptography", "EventLoop", "Handles", "Redis", "StandIns",
                "TNP",
                "Time",
            ],
            swiftSettings: ours),
        .testTarget(
            name: "ConfinementTests", dependencies: ["TestSupport", "CLinux", "CSeccomp", "Confinement", "StandIns"],
            swiftSettings: ours),
        .testTarget(name: "ConsoleTests", dependencies: ["TestSupport", "Console", "tocsin"], swiftSettings: ours),
        .testTarget(
            name: "CryptographyTests", dependencies: ["TestSupport", "COpenSSL", "Cryptography", "StandIns"],
            swiftSettings: ours),
        .testTarget(
            name: "DeliveryTests",
            dependencies: [
                "TestSupport", "Admission", "Cryptography", "Delivery", "EventLoop", "Providers", "StandIns", "Store",
                "TNP",
                "Tables", "Time", .product(name: "DequeModule", package: "swift-collections"),
            ], swiftSettings: ours),
        .testTarget(
            name: "DiagnosticsTests",
            dependencies: [
                "Settings",
                "TestSupport", "Admission", "Cluster", "Cryptography", "Delivery", "Diagnostics", "EventLoop", "HTTP2",
                "Handles",
                "NodeConfiguration", "Providers", "Redis", "StandIns", "TNP", "TocsinNode", "Tor",
            ], swiftSettings: ours),
        .testTarget(
            name: "EventLoopTests",
            dependencies: ["COpenSSL", "TestSupport", "Cryptography", "EventLoop", "StandIns", "Time", "Tor"],
            exclude: ["Certificates"], swiftSettings: ours),
        .testTarget(
            name: "FuzzTests", dependencies: fuzzed + ["TestSupport"], path: "Tests/Fuzz",
            exclude: ["Corpus", "fuzz.py", "main.swift"], swiftSettings: ours),
        .testTarget(
            name: "ArchiveTests", dependencies: ["TestSupport", "Archive", "Cryptography"], swiftSettings: ours),
        .testTarget(
            name: "HandlesTests", dependencies: ["TestSupport", "Cryptography", "Handles", "Store", "TNP", "Time"],
            swiftSettings: ours),
        .testTarget(
            name: "HTTP1Tests", dependencies: ["TestSupport", "EventLoop", "HTTP1", "StandIns", "Time", "Tor"],
            swiftSettings: ours),
        .testTarget(
            name: "HTTP2Tests",
            dependencies: [
                "TestSupport", "CNGHTTP2", "Cryptography", "EventLoop", "HTTP2", "StandIns", "Time", "Tor",
            ],
            swiftSettings: ours),
        .testTarget(
            name: "IngressTests",
            dependencies: [
                "TestSupport", "Admission", "Cryptography", "EventLoop", "HTTP1", "Ingress", "NodeConfiguration",
                "StandIns", "TNP", "Time", "TocsinNode",
            ], swiftSettings: ours),
        .testTarget(
            name: "KeyHolderTests",
            dependencies: [
                "Settings",
                "TestSupport", "Confinement", "Cryptography", "EventLoop", "KeyHolder", "NodeConfiguration",
                "Providers", "StandIns",
                "Time",
            ], swiftSettings: ours),
        .testTarget(
            name: "NodeConfigurationTests",
            dependencies: [
                "Settings",
                "TestSupport", "Admission", "Cluster", "Cryptography", "Delivery", "EventLoop", "NodeConfiguration",
                "Providers", "StandIns",
                "TNP",
                "TocsinNode", "Tor",
                .product(name: "Logging", package: "swift-log"),
            ], swiftSettings: ours),
        .testTarget(
            name: "PrometheusTests", dependencies: ["Prometheus", "StandIns", "TestSupport"], swiftSettings: ours),
        .testTarget(
            name: "ProvidersTests",
            dependencies: [
                "TestSupport", "Cryptography", "EventLoop", "HTTP1", "HTTP2", "Providers", "Sender", "Settings",
                "StandIns", "TNP",
                "Time",
            ],
            swiftSettings: ours),
        .testTarget(
            name: "QRCodeTests", dependencies: ["TestSupport", "QRCode", "StandIns", "Tor"], swiftSettings: ours),
        .testTarget(
            name: "SenderTests",
            dependencies: [
                "Cryptography", "EventLoop", "Sender", "StandIns", "TNP", "Time", "TocsinClient", "TestSupport",
            ], swiftSettings: ours),
        .testTarget(
            name: "RedisTests", dependencies: ["TestSupport", "EventLoop", "Redis", "StandIns", "Time"],
            swiftSettings: ours),
        .testTarget(
            name: "StandInsTests",
            dependencies: ["TestSupport", "Cryptography", "EventLoop", "HTTP2", "StandIns", "TNP", "Time"],
            swiftSettings: ours),
        .testTarget(name: "StoreTests", dependencies: ["TestSupport", "Cryptography", "Store"], swiftSettings: ours),
        .testTarget(
            name: "TablesTests", dependencies: ["StandIns", "TestSupport", "Tables"], swiftSettings: ours),
        .testTarget(
            name: "TNPTests", dependencies: ["Cryptography", "StandIns", "TNP", "Tor", "TestSupport"],
            swiftSettings: ours),
        .testTarget(
            name: "TimeTests", dependencies: ["TestSupport", "Admission", "EventLoop", "Providers", "Time"],
            swiftSettings: ours),
        .testTarget(
            name: "TocsinClientTests",
            dependencies: [
                "Cryptography", "EventLoop", "Sender", "StandIns", "TNP", "Time", "TocsinClient", "TestSupport",
            ],
            swiftSettings: ours),
        .testTarget(
            name: "TocsinPhoneTests",
            dependencies: ["Cryptography", "TNP", "TestSupport", "TocsinClient", "TocsinPhone"],
            swiftSettings: ours),
        .testTarget(
            name: "TocsinNodeTests",
            dependencies: [
                "Settings", "AdminPort",
                "Admission", "Cluster", "Confinement", "Cryptography", "Delivery", "EventLoop", "Handles",
                "NodeConfiguration", "Prometheus", "Providers", "Redis", "StandIns", "TNP", "TestSupport", "Time",
                "TocsinNode", "Tor",
                .product(name: "Logging", package: "swift-log"),
            ], swiftSettings: ours),
        .testTarget(
            name: "TorTests", dependencies: ["TestSupport", "Cryptography", "EventLoop", "StandIns", "Time", "Tor"],
            swiftSettings: ours),
        .testTarget(
            name: "tocsinTests",
            dependencies: [
                "TestSupport", "AdminPort", "Console", "Cryptography", "Diagnostics", "EventLoop", "Settings",
                "NodeConfiguration",
                "Providers", "StandIns", "TNP", "Time", "TocsinNode", "Tor", "tocsin",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ], swiftSettings: ours),
        .testTarget(
            name: "SystemTests",
            dependencies: [
                "Settings",
                "TestSupport", "AdminPort", "Admission", "Cluster", "Console", "Cryptography", "Diagnostics",
                "EventLoop", "Handles", "Ingress",
                "NodeConfiguration", "Providers", "Redis", "StandIns", "Store", "TNP", "Time", "TocsinClient",
                "TocsinNode", "TocsinPhone",
                "Confinement", "Tor", "World", "tocsin",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"), "tocsin-bench",
            ], path: "Tests/System",
            exclude: [
                "Allocations/counter.c", "Isolation/attacker.c", "Isolation/name-service.py", "Browser/browse.py",
                "Browser/push_page.py",
                "Browser/terminal.py", "Desktop/BisqDesktop.java", "Operations", "Package/debian-root.sh",
                "Package/install-test", "Package/dependant-test", "Package/quickstart-test", "WebPush/check_vectors.py",
                "WebPush/common.py",
                "WebPush/prosody.py", "WebPush/push_server.py", "WebPush/pywebpush_send.py",
            ], swiftSettings: ours),
    ]
)

for (floor, rooms) in floors {
    for target in package.targets where rooms.contains(target.name) {
        target.path = "Sources/\(floor)/\(target.name)"
    }
    for target in package.targets where target.path == nil && rooms.contains(where: { "\($0)Tests" == target.name }) {
        target.path = "Tests/\(floor)/\(target.name)"
    }
}

// For `make docs` only: a plugin would be compiled with each build.
if Context.environment["TOCSIN_DOCS"] != nil {
    package.dependencies.append(.package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.4.0"))
}

// `make test-quick-sanitized` builds and runs what a sanitizer can find something in. AddressSanitizer does not need the
// tests of Swift that handles no memory by hand and calls no C, ThreadSanitizer only those in which threads meet, and
// neither needs phones, whose cryptography is a fifth of a build.
let sanitized: [String: (leftOut: Set<String>, only: [String: [String]])] = [
    "memory": (
        leftOut: [
            "AdminPortTests", "NodeConfigurationTests", "PrometheusTests", "ProvidersTests", "TimeTests",
        ],
        only: [
            "AdmissionTests": ["AdmissionHarness.swift", "StandingStoreTests.swift", "TokenTableTests.swift"],
            "ClusterTests": [
                "EngineStateTests.swift", "EngineTests.swift", "HostileEngineTests.swift",
                "SharedAdmissionTests.swift", "SharedHandleTests.swift",
            ],
            "DeliveryTests": ["SpoolTests.swift"],
            "TocsinClientTests": ["BisqNotificationTests.swift", "ClientPuzzleTests.swift", "FakeNode.swift"],
        ]
    ),
    "threads": (
        leftOut: [
            "AdminPortTests", "ArchiveTests", "ConfinementTests", "CryptographyTests",
            "DiagnosticsTests", "FuzzTests", "NodeConfigurationTests", "PrometheusTests", "ProvidersTests",
            "QRCodeTests", "TNPTests", "TablesTests", "TimeTests",
        ],
        only: [
            "AdmissionTests": ["AdmissionHarness.swift", "StandingStoreTests.swift"],
            "ClusterTests": ["EngineTests.swift", "SharedAdmissionTests.swift", "SharedHandleTests.swift"],
            "DeliveryTests": ["SpoolTests.swift"],
            "EventLoopTests": [
                "HTTPConnectTests.swift", "HandshakeThreadsTests.swift", "NameLookupsTests.swift",
                "StreamTests.swift",
            ],
            "HTTP1Tests": ["Client.swift", "HTTPConnectionTests.swift"],
            "HTTP2Tests": ["ConnectionWatchTests.swift", "FrameBudgetTests.swift", "HTTP2Tests.swift"],
            "HandlesTests": ["HandleStoreTests.swift"],
            "IngressTests": ["IngressConnectionTests.swift"],
            "KeyHolderTests": ["HeldKeysTests.swift", "HolderRecoveryTests.swift", "LocalSocketTests.swift"],
            "RedisTests": ["RedisConnectionTests.swift"],
            "SenderTests": ["PuzzleSolverTests.swift"],
            "StandInsTests": ["FaultTests.swift"],
            "TocsinClientTests": ["ClientPuzzleTests.swift", "FakeNode.swift"],
            "TorTests": ["TemporaryDirectory.swift", "TorSupervisionTests.swift"],
        ]
    ),
]
if let chosen = Context.environment["TOCSIN_TESTS"].flatMap({ sanitized[$0] }) {
    let leftOut = chosen.leftOut.union([
        "ConsoleTests", "SystemTests", "TocsinPhone", "TocsinPhoneTests", "tocsin", "tocsin-bench", "tocsinTests",
    ])
    package.targets.removeAll { leftOut.contains($0.name) }
    package.products.removeAll { leftOut.contains($0.name) }
    for target in package.targets {
        target.dependencies.removeAll {
            if case .byNameItem(let name, _) = $0 { leftOut.contains(name) } else { false }
        }
        if let files = chosen.only[target.name] { target.sources = files }
        if target.name == "FuzzTests" { target.swiftSettings?.append(.define("WITHOUT_PHONES")) }
    }
}

// libFuzzer brings its own main and its own runtime, so this program is built by `make fuzz` only, from the sources of
// FuzzTests.
if let chosen = Context.environment["TOCSIN_FUZZ"] {
    let sanitizers = ["-sanitize=\(chosen)"]
    package.targets.removeAll { $0.name == "FuzzTests" }
    package.targets.append(
        .executableTarget(
            name: "tocsin-fuzz", dependencies: fuzzed, path: "Tests/Fuzz",
            exclude: ["Corpus", "KeptInputsTests.swift", "fuzz.py"], swiftSettings: ours,
            linkerSettings: [.unsafeFlags(sanitizers)]))
    // libFuzzer reads every counter after each input, so only the modules that read an input have counters.
    let counted: Set = [
        "Admission", "Archive", "Cluster", "Cryptography", "Delivery", "EventLoop", "HTTP1", "HTTP2", "Handles",
        "Ingress",
        "KeyHolder", "NodeConfiguration", "Providers", "Redis", "Sender",
        "Settings", "TNP", "TocsinPhone", "Tor",
    ]
    for target in package.targets where counted.contains(target.name) {
        target.swiftSettings?.append(.unsafeFlags(sanitizers))
    }
}
