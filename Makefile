# Every target installs what it needs: `make demo` and `make test` work on a fresh Debian 12 with Swift, git and make.

SHELL := /bin/bash
SWIFT ?= swift
LIBRARIES := libssl-dev libevent-dev libsodium-dev libnghttp2-dev node-llhttp libsqlite3-dev \
  libqrencode-dev libpng-dev libhiredis-dev liblua5.1-0-dev libseccomp-dev libjemalloc-dev pkg-config
RUNTIME := tor
# The engine of a cluster, for tests.
ENGINE := redis-tools
# Programs that the tests hold the node against, or that act as its users.
INDEPENDENT := nghttp2-server nghttp2-client nghttp2-proxy nginx-light socat curl openssl python3 python3-cryptography tinyproxy-bin microsocks \
  zbar-tools chromium iproute2 $(ENGINE)
# What only `make test-all` needs.
EXTENDED := twine prometheus onionbalance prosody prosody-modules python3-slixmpp
# For the clients in Java and Python: built and tested with Debian's packages, without a network.
JAVA := default-jdk-headless maven junit5 libbcprov-java libmaven-compiler-plugin-java libmaven-jar-plugin-java \
  libmaven-javadoc-plugin-java libmaven-resources-plugin-java libmaven-shade-plugin-java libsurefire-java \
  libmaven-source-plugin-java libmaven-install-plugin-java libmaven-deploy-plugin-java
PYTHON := python3 python3-jsonschema python3-cryptography python3-python-socks python3-async-timeout python3-build python3-wheel \
  python3-setuptools python3-pytest python3-mypy python3-pip python3-requests python3-six
# Independent implementations of Web Push, which Debian does not have.
ORACLES := http-ece==1.2.1 py-vapid==1.9.6 pywebpush==1.14.1
# Takes out of the program the directories in which the loader would look for libraries.
RELEASE := chrpath
PACKAGING := dpkg-dev lintian mandoc reprepro gpg systemd debootstrap systemd-container procps iproute2
IMAGING := dpkg-dev mmdebstrap
# What runs the image: podman with runc, and Prometheus beside it.
CONTAINERS := podman podman-compose runc netavark aardvark-dns iptables iproute2 curl openssl prometheus python3-cryptography
PREFIX ?= /usr/local
# What is released and measured: Swift's runtime linked statically, jemalloc as the allocator, and no checks for
# overlapping accesses at run time (debug builds, which the tests use, have them). Docs/benchmarks.md has each figure.
# No path of the machine that builds, so that every machine builds the same bytes.
PREFIX_MAP := -Xcc -ffile-prefix-map=$(CURDIR)=. -Xcxx -ffile-prefix-map=$(CURDIR)=. -Xswiftc -file-prefix-map -Xswiftc $(CURDIR)=.
OPTIMISED := $(PREFIX_MAP) -c release --static-swift-stdlib -Xswiftc -cross-module-optimization -Xswiftc -enforce-exclusivity=unchecked \
  -Xlinker --no-as-needed -Xlinker -ljemalloc -Xlinker --as-needed -Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now
FUZZ_SECONDS ?= 60
SIMULATE_MINUTES ?= 10
SOAK ?= 150000
KILLS ?= 20

# Suites that run the release build, which has no sanitizer.
MEASURED := 'SystemTests.(AllocationTests|MemoryTests)'

.PHONY: program program-static release-files test-release verify-release image test-image api-check release-notes fuzz-kept test-all packages-test-all simulate-kept simulate-attacks demo-cluster soak-cluster clients test-quick test-quick-sanitized build-all test-built build-sanitized build-asan build-tsan deb test-deb test-dependant test-publish published install packages-deb screenshots help demo test build release lint format bench bench-clients quota soak flood flood-long fuzz fuzz-fast fuzz-coverage simulate-years test-asan test-tsan docs clean swift packages packages-test packages-clients

help:
	@echo "make demo         a notification from a desktop to simulated phones on this machine, through Tor"
	@echo "make demo-cluster three nodes and their engine on this machine, killed at random while senders submit"
	@echo "make test         whether it works: twelve minutes, with a private Tor network, a browser and all clients"
	@echo "make test-quick   tests without tor, browser, JVM and running nodes"
	@echo "make test-all     also what takes long: the release build, kept seeds, OnionBalance, Prosody, desktops in Java"
	@echo "make build        debug build             make program   optimised and stripped: .build/tocsin"
	@echo "make clients      the clients in other languages: Clients/java/target/tocsin-client.jar, Clients/python/dist/*.whl"
	@echo "make release      what is published of a version: packages, image, clients, sums; KEY=... signs it: Docs/releasing.md"
	@echo "make test-release installs it from its apt repository and its tarball    make verify-release  builds it again"
	@echo "make test-publish what Maven Central and PyPI would take of the clients"
	@echo "make deb          Debian package          make test-deb  install, run and purge it in a container"
	@echo "make image        container image           make test-image  runs Docs/examples/container with it, and a node at home"
	@echo "make test-dependant  builds a program that uses TocsinClient in an empty Debian"
	@echo "make install      without dpkg: PREFIX=$(PREFIX), DESTDIR"
	@echo "make lint         formatting, licence headers, layers of the package      make format   formats the code"
	@echo "make docs         Docs/configuration.md from the decoder, and the libraries' API pages in .build/docs"
	@echo "make api-check    compares the public API of TNP and TocsinClient with the last release, or with BASE=COMMIT"
	@echo "make release-notes  the changelog of the version that Packaging/version prints"
	@echo "make screenshots  pictures of the demo and the dashboard, for Docs/images"
	@echo "make bench        compares the node with h2load and nghttpx"
	@echo "make bench-clients  compares it with aioapns and httpx, from PyPI"
	@echo "make soak         envelopes through misbehaving services and kill -9: SOAK=$(SOAK) KILLS=$(KILLS)"
	@echo "                  DURATION=6h: so long, through tor, with reloads and restarts"
	@echo "make soak-cluster three nodes with tors in network namespaces, killed, cut off and upgraded: OLD=program"
	@echo "make quota        how a node adapts to the quotas of Apple and Google: Docs/images/quota.png"
	@echo "make flood        honest senders beside hostile circuits"
	@echo "make flood-long   the same for ten minutes, with 2,000 circuits"
	@echo "make fuzz         what strangers send, under libFuzzer: FUZZ_SECONDS=$(FUZZ_SECONDS) for each target"
	@echo "make fuzz-kept    what the fuzzers have kept, once each, by the fuzzer itself"
	@echo "make fuzz-fast    four times as many inputs, without AddressSanitizer; adds what it finds to the kept inputs"
	@echo "make fuzz-coverage  the lines that the fuzzers' kept inputs run"
	@echo "make simulate-years  a node in virtual time and bad weather: SIMULATE_MINUTES=$(SIMULATE_MINUTES)"
	@echo "make test-asan    tests under AddressSanitizer    make test-tsan  under ThreadSanitizer"
	@echo "make test-quick-sanitized  those of test-quick with C or memory by hand under AddressSanitizer, with threads under ThreadSanitizer"

swift:
	@command -v $(SWIFT) >/dev/null || { \
	  echo "Swift is missing. Tocsin needs Swift 6.2 or newer: https://www.swift.org/install/linux/ (swiftly installs it)"; \
	  exit 1; }
	@version=$$($(SWIFT) --version 2>/dev/null | grep -oE 'Swift version [0-9]+\.[0-9]+' | grep -oE '[0-9.]+'); \
	  [ "$$(printf '%s\n' 6.2 "$$version" | sort -V | head -1)" = 6.2 ] || { \
	  echo "Swift $$version is too old: Tocsin needs 6.2 or newer, https://www.swift.org/install/linux/"; exit 1; }

# Installs the missing ones of a list of Debian packages; needs no root if none is missing.
define install
	@missing=$$(for package in $(1); do \
	    dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || echo $$package; done); \
	  if [ -n "$$missing" ]; then \
	    echo "installing" $$missing; \
	    sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	    $$sudo apt-get update -qq && \
	    $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	  fi
endef

packages: swift
	$(call install,$(LIBRARIES) $(RUNTIME))

packages-test: packages
	$(call install,$(INDEPENDENT) $(JAVA) $(PYTHON))
	@test -d .build/python/pywebpush || \
	    python3 -m pip install --quiet --root-user-action=ignore --no-deps --target .build/python $(ORACLES)

packages-test-all: packages-test
	$(call install,$(EXTENDED))

packages-clients:
	$(call install,$(JAVA) $(PYTHON))

build: packages
	$(SWIFT) build

program: packages
	$(call install,$(RELEASE))
	$(SWIFT) build $(OPTIMISED) --product tocsin
	Packaging/strip .build/release/tocsin .build/tocsin
	@ls -l .build/tocsin

# The program of the tarball: with the libraries that other distributions have in other versions.
program-static: program
	Packaging/static-libraries $(CURDIR)/.build/static
	PKG_CONFIG_PATH=$(CURDIR)/.build/static $(SWIFT) build $(OPTIMISED) -Xlinker -L$(CURDIR)/.build/static -Xlinker -lz -Xlinker -rpath -Xlinker '$$ORIGIN/../lib/tocsin' \
	  --product tocsin
	Packaging/strip .build/release/tocsin .build/tocsin-static '$$ORIGIN/../lib/tocsin'
	@ls -l .build/tocsin-static

# The time of the commit, so that everybody builds the same jars.
JAR_TIME = -Dproject.build.outputTimestamp=$(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)

# For senders, the jar with the library, the jar with the command line, the API pages in target/site, and the wheel; for
# phones, a jar.
clients: packages-clients
	@# Archives keep the modes of files, which depend on the user's umask.
	chmod -R u=rwX,go=rX Clients
	umask 022 && cd Clients/java && mvn -q -B -s debian-settings.xml $(JAR_TIME) package
	umask 022 && cd Clients/java-phone && mvn -q -B -s debian-settings.xml $(JAR_TIME) package
	rm -rf Clients/python/dist
	umask 022 && cd Clients/python && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) /usr/bin/python3 -m build --no-isolation >/dev/null
	@ls -l Clients/java/target/tocsin-client*.jar Clients/java-phone/target/tocsin-phone.jar Clients/python/dist/*

# What Maven Central and PyPI would take: published into .build/published, and checked there.
test-publish: clients published

published:
	$(call install,twine)
	rm -rf .build/published
	for client in java java-phone; do (cd Clients/$$client && mvn -q -B -s debian-settings.xml -DskipTests \
	  -DaltDeploymentRepository=local::default::file://$(CURDIR)/.build/published deploy) || exit 1; done
	python3 Tests/Lint/published.py .build/published
	/usr/bin/twine check --strict Clients/python/dist/*

packages-deb: packages
	$(call install,$(PACKAGING))

deb: packages-deb program
	mandoc -Tlint -W warning Docs/man/*
	rm -f .build/*.deb; Packaging/build .build/tocsin .build
	lintian --pedantic --fail-on error,warning --allow-root .build/tocsin_*.deb
	@ls -l .build/*.deb

# Needs root and debootstrap: installs, runs, upgrades, removes and purges the package in a container, and runs the
# commands of Docs/quickstart.md as written.
test-deb: deb
	$$([ "$$(id -u)" = 0 ] || echo sudo) Tests/System/Package/install-test "$$(ls $(CURDIR)/.build/tocsin_*.deb)" \
	  "$$(Packaging/last-release-package)"
	$$([ "$$(id -u)" = 0 ] || echo sudo) Tests/System/Package/quickstart-test "$$(ls $(CURDIR)/.build/tocsin_*.deb)"

# Needs root: an OCI image of the package, for podman and docker.
image: deb
	$(call install,$(IMAGING))
	rm -f .build/tocsin-image_*.tar
	$$([ "$$(id -u)" = 0 ] || echo sudo) Packaging/image "$$(ls $(CURDIR)/.build/tocsin_*.deb)" .build
	@ls -l .build/tocsin-image_*.tar

# Needs root, for namespaces: runs the image with podman.
test-image: image
	$(call install,$(CONTAINERS))
	$$([ "$$(id -u)" = 0 ] || echo sudo) Tests/System/Package/image-test "$$(ls $(CURDIR)/.build/tocsin-image_*.tar)"
	$$([ "$$(id -u)" = 0 ] || echo sudo) Tests/System/Package/home-test "$$(ls $(CURDIR)/.build/tocsin-image_*.tar)"

# The files of a release that anybody can make, the same byte for byte: see verify-release.
release-files: deb program-static
	rm -rf .build/release-files Clients/java/target/*.jar Clients/java-phone/target/*.jar
	$(MAKE) clients
	Packaging/release .build/release-files

# With KEY, a key of gpg: also the signed apt repository, and signed sums. APT, the repository of the last release, is continued.
release: release-files image
	cp .build/tocsin-image_*.tar .build/release-files/
ifdef KEY
	$(if $(APT),cp -r $(APT) .build/release-files/apt)
	Packaging/publish .build/release-files $(KEY)
else
	@echo "not signed: make release KEY=..., with a key that gpg lists (Docs/releasing.md)"
endif
	@ls -l .build/release-files

# Needs root and debootstrap. Signs a copy with a key of its own.
test-release: release
	$$([ "$$(id -u)" = 0 ] || echo sudo) Tests/System/Package/release-test $(CURDIR)/.build/release-files

# Builds the commit in a directory of its own, and compares it with the release in DIRECTORY, or else with a second build.
verify-release: swift
	Packaging/verify $(DIRECTORY)

# Needs root and debootstrap: builds a program that depends on TocsinClient with three libraries and Swift, nothing else.
test-dependant: packages-deb swift
	$$([ "$$(id -u)" = 0 ] || echo sudo) Tests/System/Package/dependant-test

# For systems without dpkg. Afterwards run: systemd-sysusers && systemd-tmpfiles --create
install: program
	Packaging/install .build/tocsin "$(DESTDIR)" "$(PREFIX)"

demo: packages
	$(SWIFT) build --product tocsin
	.build/debug/tocsin demo

demo-cluster: packages
	$(call install,$(ENGINE))
	$(SWIFT) build --product tocsin
	$(SWIFT) build --product tocsin-bench
	.build/debug/tocsin-bench cluster --kills 5 --engine-kills 1

# Twelve minutes on two cores from a bare Debian 12: whether the product works, over real tor, with every client.
test: packages-test clients
	$(SWIFT) build --build-tests
	Tests/run

# Also what takes long: the allocation and memory tests, which measure the node as it is released, kept seeds of the
# simulation, OnionBalance, Prosody, Prometheus, desktops in Java.
test-all: build-all
	$(MAKE) test-built

# Runs what build-all built.
test-built:
	Tests/run all
	$(MAKE) published
	$(MAKE) simulate-kept

# Without tor, browser, JVM and running nodes: quick, for use while developing.
test-quick: packages
	$(call install,$(ENGINE))
	$(SWIFT) build --build-tests
	Tests/run quick

test-asan: packages-test
	LSAN_OPTIONS=suppressions=$(CURDIR)/Tests/leaks.supp $(SWIFT) test --no-parallel --sanitize=address --scratch-path .build-asan --skip $(MEASURED)

TSAN := TSAN_OPTIONS=suppressions=$(CURDIR)/Tests/races.supp LD_PRELOAD=$(CURDIR)/.build-tsan/mutexes.so
# Swift's own clang: gcc does not know Swift's calling convention.
.build-tsan/mutexes.so: Tests/mutexes.c
	mkdir -p $(@D)
	"$$(dirname "$$(readlink -f "$$(command -v $(SWIFT))")")/clang" -O1 -Wall -Werror -shared -fPIC -o $@ $<

test-tsan: packages-test .build-tsan/mutexes.so
	$(TSAN) $(SWIFT) test --no-parallel --sanitize=thread --scratch-path .build-tsan --skip $(MEASURED)

# Installs and builds what test-all runs.
build-all: packages-test-all clients
	$(SWIFT) build --build-tests
	$(SWIFT) build $(OPTIMISED) --product tocsin

# Builds what test-quick-sanitized runs: both at once, because parts of a build leave a processor idle.
build-sanitized: packages
	$(MAKE) -j2 build-asan build-tsan

build-asan:
	TOCSIN_TESTS=memory $(SWIFT) build --build-tests --sanitize=address --scratch-path .build-asan

build-tsan: .build-tsan/mutexes.so
	TOCSIN_TESTS=threads $(SWIFT) build --build-tests --sanitize=thread --scratch-path .build-tsan

# The suites of test-quick that handle memory by hand or call C under AddressSanitizer, those that start threads under
# ThreadSanitizer: Package.swift says which. test-asan and test-tsan run all.
test-quick-sanitized: build-sanitized
	$(call install,$(ENGINE))
	LSAN_OPTIONS=suppressions=$(CURDIR)/Tests/leaks.supp BUILD=.build-asan Tests/run quick
	$(TSAN) BUILD=.build-tsan Tests/run --group sockets

lint: swift
	$(call install,lua-check)
	$(SWIFT) format lint --strict --recursive Package.swift Sources Tests
	@bare=$$(grep -rL --include='*.swift' --include='*.h' --include='*.lua' --include=module.modulemap --include='*.py' --include='*.sh' \
	  --include='*.java' --include=pom.xml --include=pyproject.toml 'SPDX-License-Identifier: Apache-2.0' Package.swift Sources Tests Clients --exclude-dir=target); \
	  [ -z "$$bare" ] || { echo "these files lack the line 'SPDX-License-Identifier: Apache-2.0':"; echo "$$bare"; exit 1; }
	python3 Tests/Lint/rooms.py
	python3 Tests/Lint/groups.py
	python3 Tests/Lint/numbers.py
	python3 Tests/Lint/platforms.py
	Packaging/version --check
	python3 Tests/Simulation/mutate.py --list >/dev/null
	luacheck --quiet --std lua51 --read-globals redis library --max-line-length 120 Sources/Node/Cluster/functions.lua

format: swift
	$(SWIFT) format --in-place --recursive Package.swift Sources Tests

# Benchmarks run the node as a separate process, so both programs are needed.
define release-bench
	$(SWIFT) build $(OPTIMISED) --product tocsin
	$(SWIFT) build $(OPTIMISED) --product tocsin-bench
endef

bench: packages-test
	$(release-bench)
	.build/release/tocsin-bench
	.build/release/tocsin-bench admission

# What people run in place of a node, from PyPI.
bench-clients: packages-test
	$(release-bench)
	$(call install,python3-venv)
	test -x .build/apns-clients/bin/pip || /usr/bin/python3 -m venv .build/apns-clients
	.build/apns-clients/bin/pip install --quiet aioapns==4.0 'httpx[http2]==0.28.1'
	.build/release/tocsin-bench compare --rows b,d,p,q --rounds 3 --requests 100000 --python .build/apns-clients/bin/python

# With DURATION, e.g. DURATION=6h, a soak for so long, through tor.
soak: packages
	$(release-bench)
ifdef DURATION
	.build/release/tocsin-bench day --duration $(DURATION)
else
	.build/release/tocsin-bench soak --envelopes $(SOAK)
	.build/release/tocsin-bench crash --kills $(KILLS)
	.build/release/tocsin-bench bulkhead
endif

# The nodes start with the program OLD, if it is set, and are upgraded.
soak-cluster: packages
	$(call install,$(ENGINE) iproute2 procps)
	$(release-bench)
	sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	$$sudo .build/release/tocsin-bench cluster --namespaces --envelopes $(SOAK) --kills $(KILLS) \
	  $(if $(OLD),--old $(OLD))

# The picture needs matplotlib.
quota: packages
	$(call install,python3-matplotlib)
	$(SWIFT) build $(OPTIMISED) --product tocsin-bench
	.build/release/tocsin-bench quota --service fcm --samples .build/quota-fcm.csv
	.build/release/tocsin-bench quota --service apns --samples .build/quota-apns.csv
	/usr/bin/python3 Tests/Plots/quota.py Docs/images/quota.png \
	  "Google: 429 QUOTA_EXCEEDED with retry-after=.build/quota-fcm.csv" \
	  "Apple: 429 TooManyRequests=.build/quota-apns.csv"

flood: packages
	$(release-bench)
	.build/release/tocsin-bench flood --check --max-megabytes 400

# Eleven minutes: 2,000 circuits and a thousand hostile submissions for each honest one.
flood-long: packages
	$(release-bench)
	.build/release/tocsin-bench flood --seconds 600 --calm-seconds 60 --hostile 2000 --pause-factor 8 --check \
	  --max-megabytes 400

# Kept seeds: those that once broke a rule, and those of every run of the tests.
simulate-kept: packages
	$(SWIFT) build $(OPTIMISED) --product tocsin-bench
	.build/release/tocsin-bench simulate-many --kept Tests/Simulation/seeds --minutes 0
	.build/release/tocsin-bench simulate-many --nodes 3 --kept Tests/Simulation/seeds-cluster --minutes 0
	.build/release/tocsin-bench simulate-many --nodes 3 --flood --kept Tests/Simulation/seeds-flood --minutes 0
	.build/release/tocsin-bench simulate-many --chain --kept Tests/Simulation/seeds-chain --minutes 0
	.build/release/tocsin-bench simulate-many --attacks --kept Tests/Simulation/attacks --minutes 0

# Attackers' programs until the time is up; one that harms an honest user is shortened and printed.
simulate-attacks: packages
	$(SWIFT) build $(OPTIMISED) --product tocsin-bench
	.build/release/tocsin-bench simulate-many --attacks --minutes $(SIMULATE_MINUTES)

# Kept seeds, then fresh ones until the time is up; a failure prints the command that repeats it.
simulate-years: packages
	$(SWIFT) build $(OPTIMISED) --product tocsin-bench
	.build/release/tocsin-bench simulate-many --kept Tests/Simulation/seeds --minutes $(SIMULATE_MINUTES)

FUZZER := $(SWIFT) build -c release --product tocsin-fuzz -Xswiftc -use-ld=lld -Xswiftc -enable-testing

fuzz: packages
	TOCSIN_FUZZ=fuzzer,address $(FUZZER) --scratch-path .build-fuzz --sanitize=address
	Tests/Fuzz/fuzz.py --seconds $(FUZZ_SECONDS)

# What the fuzzers have kept, once each: the same every time.
fuzz-kept: packages
	TOCSIN_FUZZ=fuzzer,address $(FUZZER) --scratch-path .build-fuzz --sanitize=address
	Tests/Fuzz/fuzz.py --kept

# Without AddressSanitizer, which takes three quarters of the time. `make fuzz` then runs with it what this keeps.
fuzz-fast: packages
	TOCSIN_FUZZ=fuzzer $(FUZZER) --scratch-path .build-fuzz-fast
	Tests/Fuzz/fuzz.py --fast --keep --seconds $(FUZZ_SECONDS)

fuzz-coverage: packages
	TOCSIN_FUZZ=fuzzer,address $(FUZZER) --scratch-path .build-fuzz-coverage -Xswiftc -sanitize=fuzzer \
	  -Xswiftc -profile-generate -Xswiftc -profile-coverage-mapping
	Tests/Fuzz/fuzz.py --coverage

# What has changed for the users of the version in Packaging/version.
release-notes:
	@Packaging/version --notes

# Whether the libraries still offer what those of the last release do, or of the commit BASE.
api-check: packages
	Packaging/api-check $(BASE)

# Pictures for Docs/images: of the dashboard and of what `tocsin demo` prints.
screenshots: packages-test
	$(SWIFT) build --build-tests
	TOCSIN_SCREENSHOTS=Docs/images Tests/run --only 'the page renders in light and in dark mode, and on a phone'
	python3 Tests/System/Browser/terminal.py Docs/images/demo.png .build/debug/tocsin demo

# The reference below the marker comes from the decoder; a test compares them. The libraries' API pages come from their
# doc comments.
docs: packages
	$(SWIFT) build --product tocsin
	sed -i '/^<!-- keys:/q' Docs/configuration.md
	{ echo; .build/debug/tocsin keys; } >> Docs/configuration.md
	.build/debug/tocsin keys --format schema > Docs/tocsin.schema.json
	mkdir -p .build/docs
	for target in TNP TocsinClient; do \
	  TOCSIN_DOCS=1 $(SWIFT) package --allow-writing-to-directory .build/docs generate-documentation --target $$target \
	    --warnings-as-errors --disable-indexing --output-path .build/docs/$$target || exit 1; done

clean:
	rm -rf .build .build-asan .build-tsan .build-fuzz .build-fuzz-fast .build-fuzz-coverage
