// What the terms of the page mean.

import { el } from "./dom.js";

/** A line for each transport and scheme, by name. */
export const TRANSPORTS = {
  auto: "measures the path, then takes the one of the others that is predicted to be fastest",
  tcp: "one TCP connection with TLS",
  "tcp-striped": "several TCP connections side by side, with TLS",
  quic: "QUIC, which is encrypted and runs over UDP",
  rudp: "reliable UDP of this project, with forward error correction",
  udp: "UDP without retransmission, for links that lose nothing",
};
export const SCHEMES = {
  "half-gates": "32 bytes for each AND gate",
  "fixed-key": "half gates with one public AES key: faster, with a weaker assumption",
  "three-halves": "24.6 bytes for each AND gate, more computing",
  prf: "XOR gates cost bytes too; the weakest assumption of all",
};

/** The columns of tables, by heading. */
const COLUMNS = {
  Total: "Time from the first packet to the output: connecting, handshake and choice of the transport included.",
  "Run time": "Time from both parties being connected to the output.",
  "× limit": "Run time divided by the physical limit: the protocol's round trips and its bytes at the rate of the path, one after the other.",
  "On the wire, up": "Bytes that the garbler sent, with headers and retransmissions.",
  Excess: "Bytes on the wire in excess of the protocol's messages.",
  "Lost packets": "Packets that the path lost, both ways, a full queue included.",
  Lost: "Packets that the path lost, both ways, a full queue included.",
  "Retransmitted (TCP)": "Segments that TCP sent again; other transports do not count them.",
  "Payload rate": "The protocol's bytes divided by the run time.",
  CPU: "Processor time of both parties.",
};

/** The actions of the history. */
const ACTIONS = {
  Overlay: "Shows these runs side by side and in common charts.",
  "JSON, CSV": "Save the figures of these runs.",
  Rows: "Saves the complete records as JSON Lines, which “transpute testbed report” reads.",
  Charts: "Draws the charts of “transpute testbed report”, as SVG and PNG.",
};

function folded(summary, entries) {
  return el("details", { class: "glossary" }, el("summary", {}, summary), el("dl", { class: "facts" }, entries.map(([term, meaning]) => [el("dt", {}, term), el("dd", {}, meaning)])));
}

/** Explains those of these headings that need it. */
export const columnsExplained = (headings) => folded("What the columns mean", headings.filter((heading) => COLUMNS[heading]).map((heading) => [heading, COLUMNS[heading]]));

export const actionsExplained = () => folded("What the actions do", Object.entries(ACTIONS));
