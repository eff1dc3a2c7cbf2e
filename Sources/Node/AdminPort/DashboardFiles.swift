// SPDX-License-Identifier: Apache-2.0

/// The files that the dashboard page loads.
enum DashboardFiles {
    /// The icon, a bell, as the contents of a data URL.
    static let icon = """
        %3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Cpath fill='%231f7a6d' d='M12 2a7 7 0 0 0-7 \
        7v5l-2 4h18l-2-4V9a7 7 0 0 0-7-7zM9 20a3 3 0 0 0 6 0z'/%3E%3C/svg%3E
        """

    /// The script. It replaces each section that has changed and reports when the node cannot be reached.
    static let script = """
        "use strict";
        const main = document.querySelector("main");
        const link = document.getElementById("link");
        // The node sends an event each second: after this many milliseconds without one, the connection counts as lost.
        const silence = 10000;
        let source, asked, heard = Date.now();

        function show(html) {
          const fresh = new DOMParser().parseFromString(html, "text/html").body;
          for (const section of fresh.children) {
            const old = document.getElementById(section.id);
            if (!old) return main.replaceChildren(...document.adoptNode(fresh).childNodes);
            // An unchanged section stays in place and keeps the text selection.
            if (!old.isEqualNode(section)) old.replaceWith(document.importNode(section, true));
          }
          document.title = document.querySelector("h1").textContent.trim() + ": " +
            document.querySelector("#attemptResult h2").textContent;
        }

        function lose() {
          // Set only once: screen readers announce every change.
          if (link.textContent) return;
          link.textContent = "No connection to the node since " + new Date(heard).toISOString().slice(11, 19) +
            " UTC. All values are from that time. Reconnecting.";
          document.title = document.querySelector("h1").textContent.trim() + ": no connection";
          document.body.className = "lost";
        }

        function connect() {
          asked = Date.now();
          if (source) source.close();
          source = new EventSource("/events");
          source.addEventListener("error", lose);
          source.addEventListener("main", (event) => {
            heard = Date.now();
            link.textContent = "";
            document.body.className = "";
            show(event.data);
          });
        }

        // The browser reconnects by itself only after a broken connection, not after an error status or if no answer comes.
        setInterval(() => {
          const now = Date.now();
          if (now - heard < silence) return;
          lose();
          if (now - asked >= silence) connect();
        }, 2000);
        connect();

        """

    /// The style sheet: system fonts, a grid of cards, light and dark colours.
    static let style = """
        :root {
          --page: #f5f4f0; --card: #ffffff; --ink: #1c2227; --quiet: #565f68; --line: #dcd9d1;
          --delivered: #1f7a6d; --retry: #d39a1c; --rejected: #b8402f; --gone: #7b8490;
          --good: #1a6e5f; --warning: #8a5a00; --bad: #a8281d; --mark: #00000066;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --page: #12161a; --card: #1a2026; --ink: #e6e9ec; --quiet: #a4aeb8; --line: #313a43;
            --delivered: #4cb8a4; --retry: #e0b04a; --rejected: #ee7466; --gone: #939eaa;
            --good: #63cdb8; --warning: #eabf63; --bad: #ff8c7f; --mark: #00000080;
          }
        }
        * { box-sizing: border-box; }
        body {
          margin: 0 auto; padding: 1rem; max-width: 78rem; background: var(--page); color: var(--ink);
          font: 1rem/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
        }
        header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1rem; }
        header p { margin: 0; color: var(--quiet); }
        h1 { margin: 0 0 .75rem; font-size: 1.35rem; }
        h2 { margin: 0 0 .6rem; font-size: 1.05rem; }
        .bell { width: 1.2em; height: 1.2em; vertical-align: -.2em; fill: var(--delivered); }
        a { color: inherit; }
        .quiet, caption { color: var(--quiet); }
        .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
        /* Always present, without height while empty: screen readers announce only changes of an existing element. */
        #link { margin: 0; }
        #link:not(:empty) { margin: 0 0 1rem; padding: .6rem 1rem; border: 2px solid var(--bad); border-radius: .6rem; }

        /* What the page shows may be wrong by now. */
        .lost #link { position: sticky; top: 0; z-index: 1; background: var(--card); font-weight: 600; }
        .lost main { opacity: .45; filter: grayscale(1); }

        main { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem; }
        section { padding: 1rem 1.1rem; background: var(--card); border: 1px solid var(--line); border-radius: .8rem; }
        .wide { grid-column: 1 / -1; }

        #attemptResult { display: flex; gap: 1rem; align-items: flex-start; border-left-width: .5rem; }
        #attemptResult h2 { font-size: 1.35rem; margin: 0; }
        #attemptResult p, #attemptResult ul { margin: .2rem 0 0; }
        #attemptResult ul { padding-left: 1.2rem; }
        #attemptResult.good { border-left-color: var(--good); }
        #attemptResult.untried { border-left-color: var(--quiet); }
        #attemptResult.warning { border-left-color: var(--warning); }
        #attemptResult.bad { border-left-color: var(--bad); }
        .mark {
          flex: none; width: 2.4rem; height: 2.4rem; fill: none; stroke: currentColor; stroke-width: 2.6;
          stroke-linecap: round; stroke-linejoin: round;
        }
        .good > .mark { color: var(--good); } .warning > .mark { color: var(--warning); }
        .bad > .mark { color: var(--bad); } .untried > .mark { color: var(--quiet); }

        #flow { padding: 0; background: none; border: 0; }
        #flow ol { display: flex; flex-wrap: wrap; gap: 1.6rem; margin: 0; padding: 0; list-style: none; }
        #flow li {
          position: relative; flex: 1 1 10rem; padding: .8rem 1.1rem; background: var(--card);
          border: 1px solid var(--line); border-radius: .8rem;
        }
        #flow li + li::before {
          content: "→" / ""; position: absolute; left: -1.3rem; top: 50%; translate: 0 -50%; color: var(--quiet);
        }
        #flow span { display: block; }
        #flow strong { font-size: 1.9rem; line-height: 1.2; font-variant-numeric: tabular-nums; }

        figure { margin: 0; }
        figure > svg { display: block; width: 100%; height: auto; }
        svg text { fill: var(--quiet); font-size: 12px; font-family: inherit; }
        .grid { stroke: var(--line); stroke-width: 1; }
        .delivered { fill: var(--delivered); } .retry { fill: var(--retry); }
        .rejected { fill: var(--rejected); } .gone { fill: var(--gone); }
        .ink { stroke: var(--mark); stroke-width: 1; fill: none; } .dot { fill: var(--mark); }
        .start { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 3 3; }
        svg.route { display: block; width: 7.5rem; height: 2.25rem; margin-top: .2rem; }
        .hint { fill: transparent; } .hint:hover { fill: var(--ink); fill-opacity: .12; }
        .legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: .5rem 0 0; padding: 0; list-style: none; }
        .swatch { width: .9em; height: .9em; vertical-align: -.08em; margin-right: .4em; }

        .scroll { overflow-x: auto; }
        table { width: 100%; border-collapse: collapse; }
        caption { text-align: left; padding-bottom: .4rem; font-size: .9rem; }
        th, td { padding: .35rem .9rem .35rem 0; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
        thead th { border: 0; color: var(--quiet); font-size: .85rem; font-weight: 600; }
        tbody th { font-weight: 600; }
        #alarms tbody th { font-weight: 400; }
        time, .figure { white-space: nowrap; font-variant-numeric: tabular-nums; }
        code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .9em; overflow-wrap: anywhere; }
        .picture { width: 9rem; } .picture svg { width: 8rem; height: .9rem; margin-top: .25rem; }
        .meter { width: 8rem; height: .5rem; border-radius: .25rem; } .empty { fill: var(--line); }
        td .sign { white-space: nowrap; }
        .sign svg { width: .75em; height: .75em; fill: currentColor; }
        .sign.good { color: var(--good); } .sign.warning { color: var(--warning); } .sign.bad { color: var(--bad); }

        @media (max-width: 56rem) {
          main { grid-template-columns: minmax(0, 1fr); }
          body { padding: .7rem; }
          #flow ol { gap: .7rem; }
          #flow li { flex-basis: 40%; padding: .6rem .8rem; }
          #flow li + li::before { content: none; }
        }
        @media (max-width: 36rem) {
          section { padding: .8rem; }
          table { font-size: .92rem; }
          th, td { padding-right: .6rem; }
          time, td .sign { white-space: normal; }
          .picture { display: none; }
          thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
          table, tbody, tr, td, tbody th, caption { display: block; }
          tr { padding: .4rem 0; border-top: 1px solid var(--line); }
          td, tbody th { padding: .1rem 0; border: 0; white-space: normal; overflow-wrap: anywhere; }
          td { display: flex; gap: .8rem; }
          td::before { content: attr(data-name); flex: 0 0 7rem; color: var(--quiet); }
          td > * { min-width: 0; }
        }

        """
}
