// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

// 6.2 because swift-subprocess, which runs tor for us, asks for it.
import PackageDescription

let ours: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "tocsin",
    products: [
        .library(name: "TNP", targets: ["TNP"]),
        .library(name: "TocsinClient", targets: ["TocsinClient", "EventLoop", "Tor"]),
        .executable(name: "tocsin", targets: ["tocsin"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.5.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.1.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.0.0"),
        .package(url: "https://github.com/LebJe/TOMLKit", from: "0.6.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.0", traits: []),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    ],
    targets: [
        // C libraries of the system, one room each.
        .systemLibrary(name: "CLibevent", pkgConfig: "libevent_openssl", providers: [.apt(["libevent-dev"])]),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CSodium", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev"])]),
        .systemLibrary(name: "CNGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .systemLibrary(name: "CHTTPParser", providers: [.apt(["libhttp-parser-dev"])]),
        .systemLibrary(name: "CQREncode", pkgConfig: "libqrencode", providers: [.apt(["libqrencode-dev"])]),
        .systemLibrary(name: "CPNG", pkgConfig: "libpng", providers: [.apt(["libpng-dev"])]),

        .target(name: "Cryptography", dependencies: ["CSodium", "COpenSSL"], swiftSettings: ours),
        .target(name: "EventLoop", dependencies: ["CLibevent", "COpenSSL"], swiftSettings: ours),
        .target(name: "TNP", dependencies: ["Cryptography"], swiftSettings: ours),
        .target(
            name: "HTTP2",
            dependencies: ["EventLoop", "CNGHTTP2", .product(name: "DequeModule", package: "swift-collections")],
            swiftSettings: ours),
        .target(name: "HTTP1", dependencies: ["EventLoop", "Cryptography", "CHTTPParser"], swiftSettings: ours),
        .target(
            name: "Prometheus", dependencies: [.product(name: "CoreMetrics", package: "swift-metrics")],
            swiftSettings: ours),
        .target(name: "QRCode", dependencies: ["CQREncode", "CPNG"], swiftSettings: ours),
        .target(
            name: "Providers", dependencies: ["TNP", "HTTP2", "EventLoop", "Cryptography"], swiftSettings: ours),
        .target(
            name: "Admission",
            dependencies: [
                "TNP", "EventLoop", "Cryptography",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: ours),
        .target(
            name: "Delivery",
            dependencies: [
                "TNP", "Providers", "Admission", "EventLoop", "Cryptography",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: ours),
        .target(
            name: "Tor",
            dependencies: [
                "EventLoop", "Cryptography", .product(name: "Subprocess", package: "swift-subprocess"),
            ],
            swiftSettings: ours),
        .target(
            name: "TocsinNode",
            dependencies: [
                "TNP", "EventLoop", "HTTP1", "HTTP2", "Providers", "Admission", "Delivery", "Cryptography",
                "Prometheus", "Tor", .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "TOMLKit", package: "TOMLKit"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
            ],
            swiftSettings: ours
        ),
        .target(name: "TocsinClient", dependencies: ["TNP", "EventLoop", "Cryptography"], swiftSettings: ours),
        .target(
            name: "Simulator", dependencies: ["EventLoop", "HTTP2", "TNP", "Tor", "Cryptography"], swiftSettings: ours
        ),
        .executableTarget(
            name: "tocsin",
            dependencies: [
                "TocsinNode", "TocsinClient", "Simulator", "Admission", "QRCode", "Tor",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Histogram", package: "hdrhistogram-swift"),
            ],
            swiftSettings: ours
        ),

        .target(name: "TestSupport", path: "Tests/TestSupport", swiftSettings: ours),
        .testTarget(name: "CryptographyTests", dependencies: ["Cryptography"], swiftSettings: ours),
        .testTarget(
            name: "EventLoopTests", dependencies: ["EventLoop", "Cryptography", "Simulator"], swiftSettings: ours),
        .testTarget(
            name: "HTTP2Tests", dependencies: ["HTTP2", "EventLoop", "Cryptography", "Simulator"], swiftSettings: ours),
        .testTarget(
            name: "HTTP1Tests", dependencies: ["HTTP1", "EventLoop", "Simulator", "TestSupport"], swiftSettings: ours),
        .testTarget(
            name: "PrometheusTests",
            dependencies: ["Prometheus", "TestSupport", .product(name: "CoreMetrics", package: "swift-metrics")],
            swiftSettings: ours),
        .testTarget(name: "QRCodeTests", dependencies: ["QRCode", "Simulator"], swiftSettings: ours),
        .testTarget(name: "TNPTests", dependencies: ["TNP", "Cryptography", "Simulator"], swiftSettings: ours),
        .testTarget(
            name: "ProvidersTests",
            dependencies: ["Providers", "Simulator", "HTTP2", "EventLoop", "TNP", "Cryptography"],
            swiftSettings: ours),
        .testTarget(
            name: "AdmissionTests",
            dependencies: [
                "Admission", "TestSupport", "TNP", "EventLoop", "Cryptography",
                .product(name: "GRDB", package: "GRDB.swift"),
            ], swiftSettings: ours),
        .testTarget(
            name: "DeliveryTests",
            dependencies: [
                "Delivery", "Admission", "TestSupport", "Providers", "EventLoop", "TNP", "Cryptography",
                .product(name: "GRDB", package: "GRDB.swift"),
            ], swiftSettings: ours),
        .testTarget(
            name: "SimulatorTests", dependencies: ["Simulator", "HTTP2", "TNP", "Cryptography"], swiftSettings: ours),
        .testTarget(
            name: "TorTests", dependencies: ["Tor", "TestSupport", "Simulator", "EventLoop", "Cryptography"],
            swiftSettings: ours),
        .testTarget(
            name: "TocsinNodeTests",
            dependencies: [
                "TocsinNode", "TocsinClient", "Simulator", "Admission", "Delivery", "TNP", "EventLoop", "Cryptography",
                "Prometheus", "HTTP1", "TestSupport", .product(name: "Logging", package: "swift-log"),
            ], swiftSettings: ours),
        .testTarget(
            name: "EndToEndTests",
            dependencies: [
                "tocsin", "TocsinNode", "TocsinClient", "Simulator", "Admission", "Tor", "TNP", "EventLoop",
                .product(name: "Logging", package: "swift-log"),
            ], swiftSettings: ours),
        .testTarget(
            name: "TocsinClientTests",
            dependencies: ["TocsinClient", "TestSupport", "TNP", "EventLoop", "Cryptography"],
            swiftSettings: ours),
    ]
)

// libFuzzer brings its own main and its own runtime, so this target is built by `make fuzz` only.
if Context.environment["TOCSIN_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(name: "tnp-fuzz", dependencies: ["TNP"], path: "Tests/Fuzz", swiftSettings: ours))
}
