// A handle for this browser (Docs/phone.md, "Handles"): what the desktop gets in the place of the push endpoint.

const utf8 = text => new TextEncoder().encode(text);
const hex = bytes => Array.from(bytes, byte => byte.toString(16).padStart(2, "0")).join("");
const ofHex = text => Uint8Array.from(text.match(/../g), digits => parseInt(digits, 16));
const join = parts => new Uint8Array(parts.flatMap(part => [...part]));
// A number as bytes, the highest first.
const bytes = (value, count) => Uint8Array.from({length: count}, (_, index) => Number(BigInt(value) >> BigInt(8 * (count - 1 - index)) & 255n));

// BLAKE2b with a hash of 32 bytes (RFC 7693), which browsers lack.
const initial = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n];
const schedule = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0"];
const low64 = (1n << 64n) - 1n;

function blake2b(message) {
  const state = [...initial];
  state[0] ^= 0x01010020n;
  const blocks = Math.max(1, Math.ceil(message.length / 128));
  const padded = new Uint8Array(blocks * 128);
  padded.set(message);
  const view = new DataView(padded.buffer);
  for (let block = 0; block < blocks; block++) {
    const isLast = block === blocks - 1;
    const words = Array.from({length: 16}, (_, index) => view.getBigUint64(block * 128 + index * 8, true));
    const mixed = [...state, ...initial];
    mixed[12] ^= BigInt(isLast ? message.length : (block + 1) * 128);
    if (isLast) mixed[14] ^= low64;
    const turn = (value, count) => (value >> count | value << (64n - count)) & low64;
    const mix = (a, b, c, d, x, y) => {
      mixed[a] = mixed[a] + mixed[b] + x & low64;
      mixed[d] = turn(mixed[d] ^ mixed[a], 32n);
      mixed[c] = mixed[c] + mixed[d] & low64;
      mixed[b] = turn(mixed[b] ^ mixed[c], 24n);
      mixed[a] = mixed[a] + mixed[b] + y & low64;
      mixed[d] = turn(mixed[d] ^ mixed[a], 16n);
      mixed[c] = mixed[c] + mixed[d] & low64;
      mixed[b] = turn(mixed[b] ^ mixed[c], 63n);
    };
    for (let round = 0; round < 12; round++) {
      const order = Array.from(schedule[round % 10], digit => words[parseInt(digit, 16)]);
      for (let i = 0; i < 4; i++) mix(i, 4 + i, 8 + i, 12 + i, order[2 * i], order[2 * i + 1]);
      for (let i = 0; i < 4; i++) {
        mix(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, order[8 + 2 * i], order[9 + 2 * i]);
      }
    }
    for (let index = 0; index < 8; index++) state[index] ^= mixed[index] ^ mixed[8 + index];
  }
  return join(state.slice(0, 4).map(word => bytes(word, 8).reverse()));
}

// The owner's key of all handles of this browser.
async function owner() {
  const kept = JSON.parse(localStorage.getItem("owner"));
  if (kept) return {public: ofHex(kept.public), key: await crypto.subtle.importKey("jwk", kept.key, "Ed25519", false, ["sign"])};
  const pair = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  const made = {
    public: hex(new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey))),
    key: await crypto.subtle.exportKey("jwk", pair.privateKey)};
  localStorage.setItem("owner", JSON.stringify(made));
  return {public: ofHex(made.public), key: pair.privateKey};
}

const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));

// A page reaches its node by a name that is no onion: a signature names 32 zeros.
const noOnion = new Uint8Array(32);

async function proof(node, digest) {
  const response = await fetch(`${node}/v1/handles/challenge`);
  const {seed, effort, onion} = await response.json();
  if (!response.ok || onion !== hex(noOnion) || effort > 2 ** 20) throw new Error("the node's challenge cannot be met here");
  const work = Math.max(effort, 1);
  const [start, wanted] = [join([utf8("tnp1-puzzle"), ofHex(seed), digest, bytes(work, 4)]), low64 / BigInt(work)];
  for (let nonce = 0; ; nonce++) {
    if (nonce % 500 === 0) await pause(0);
    if (new DataView(blake2b(join([start, bytes(nonce, 8)])).buffer).getBigUint64(0) <= wanted) {
      return join([ofHex(seed).slice(0, 4), bytes(work, 4), bytes(nonce, 8)]);
    }
  }
}

const encode = fields => join([...fields].sort(([one], [other]) => one - other)
  .map(([tag, value]) => join([[tag], bytes(value.length, 2), value])));

async function ask(node, method, path, kind, fields) {
  const signer = await owner();
  if (method === "POST") fields.set(0x20, signer.public);
  fields.set(0x22, bytes(Date.now(), 8));
  const digest = blake2b(encode(fields));
  const message = join([utf8("tnp1-handle"), [kind], noOnion, digest]);
  fields.set(0x23, new Uint8Array(await crypto.subtle.sign("Ed25519", signer.key, message)));
  for (let tries = 1; ; tries++) {
    const response = await fetch(node + path, {
      method, body: encode(fields), headers: {"Content-Type": "application/octet-stream"}});
    const answer = await response.json().catch(() => ({}));
    if (response.ok) return answer.handle;
    // A handle that the node does not know has ended.
    if (answer.outcome === "GONE" && method === "DELETE") return null;
    const retries = answer.outcome === "RETRY" || [408, 429, 503].includes(response.status);
    if (!retries || answer.retryAfterMillis > 10000 || tries === 6) throw new Error(`the node says: ${answer.text ?? answer.error ?? response.status}`);
    if (answer.reason === 203 || answer.reason === 204) fields.set(0x10, await proof(node, digest));
    else await pause(Math.max(250, answer.retryAfterMillis ?? 1000));
  }
}

const phone = endpoint => new Map([[0x01, utf8("web")], [0x02, utf8(endpoint)]]);

export const register = (node, endpoint) => ask(node, "POST", "/v1/handles", 0x10, phone(endpoint));

export const change = (node, handle, endpoint) =>
  ask(node, "PUT", `/v1/handles/${handle}`, 0x12, phone(endpoint).set(0x0b, ofHex(handle)));

export const end = (node, handle) => ask(node, "DELETE", `/v1/handles/${handle}`, 0x13, new Map([[0x0b, ofHex(handle)]]));
