// Explanations of the terms on the page.

import { el } from "./dom.js";

/** A line of explanation for each transport and scheme. */
export const TRANSPORTS = {
  auto: "measures the path, then uses the transport with the least predicted time",
  tcp: "one TCP connection with TLS",
  "tcp-striped": "several parallel TCP connections with TLS",
  quic: "QUIC (RFC 9000), which is encrypted and runs over UDP",
  rudp: "this project's reliable UDP, with forward error correction",
  udp: "UDP without retransmission, for links without loss",
};
export const SCHEMES = {
  "half-gates": "32 bytes for each AND gate",
  "fixed-key": "half gates with one public AES key: faster, but needs a stronger assumption on AES",
  "three-halves": "24.6 bytes for each AND gate, with more computation",
  prf: "XOR gates cost bytes too; needs only a pseudorandom function",
};

/** Explanations of table columns, by heading. */
const COLUMNS = {
  Total: "Time from the first packet to the output, including connecting, the handshake and the choice of the transport.",
  "Run time": "Time from the established connection to the output.",
  "× limit": "Run time divided by the physical limit: the time of the protocol's round trips plus that of its bytes at the rate of the path.",
  "On the wire, up": "Bytes that the garbler sent, including headers and retransmissions.",
  Excess: "Bytes on the wire beyond the protocol's messages, in percent.",
  "Lost packets": "Packets lost in both directions, including drops at a full queue.",
  Lost: "Packets lost in both directions, including drops at a full queue.",
  "Retransmitted (TCP)": "Segments that TCP retransmitted; other transports do not count them.",
  "Payload rate": "The protocol's bytes divided by the run time.",
  CPU: "Processor time of both parties together.",
};

/** Explanations of the actions of the history. */
const ACTIONS = {
  Overlay: "Compares these runs in tables and common charts.",
  "JSON, CSV": "Saves the results of these runs.",
  Records: "Saves the complete records as JSON Lines, which “transpute testbed report” reads.",
  Charts: "Draws the charts of “transpute testbed report”, as SVG and PNG.",
};

function folded(summary, entries) {
  return el("details", { class: "glossary" }, el("summary", {}, summary), el("dl", { class: "facts" }, entries.map(([term, meaning]) => [el("dt", {}, term), el("dd", {}, meaning)])));
}

/** Returns explanations of the given headings that have one. */
export const columnsExplained = (headings) => folded("What the columns mean", headings.filter((heading) => COLUMNS[heading]).map((heading) => [heading, COLUMNS[heading]]));

export const actionsExplained = () => folded("What the actions do", Object.entries(ACTIONS));
