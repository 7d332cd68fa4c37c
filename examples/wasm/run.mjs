// Runs both parties of AES-128 in Node, each in its own instance of the module, and compares the
// output with FIPS-197, appendix C.1. The argument is the path of the module.

import { webcrypto as crypto } from "node:crypto";
import { readFile } from "node:fs/promises";

const module = await WebAssembly.compile(await readFile(process.argv[2]));

/** Creates a party. It passes bytes for the peer to `send`, and its output to `output`. */
async function party(send, output) {
  const bytes = (address, length) => new Uint8Array(memory.buffer, address, length);
  const text = (...range) => new TextDecoder().decode(bytes(...range));
  const host = {
    random: (...range) => crypto.getRandomValues(bytes(...range)),
    // The module reuses its memory after the call, so the bytes are copied.
    send: (...range) => send(bytes(...range).slice()),
    output: (...range) => output(text(...range)),
    fail: (...range) => {
      throw new Error(text(...range));
    },
  };
  const instance = await WebAssembly.instantiate(module, { host });
  const { memory, argument, start, receive } = instance.exports;
  const pass = (data) => bytes(argument(data.length), data.length).set(data);
  return {
    start(isGarbler, input) {
      pass(new TextEncoder().encode(input));
      start(isGarbler);
    },
    receive(data) {
      pass(data);
      receive();
    },
  };
}

const wire = [];
const counts = { garbler: 0, evaluator: 0 };
let computed;
const garbler = await party(
  (data) => wire.push(() => evaluator.receive(data)) && (counts.garbler += data.length),
  () => {},
);
const evaluator = await party(
  (data) => wire.push(() => garbler.receive(data)) && (counts.evaluator += data.length),
  (text) => (computed = text),
);
garbler.start(true, "000102030405060708090a0b0c0d0e0f");
evaluator.start(false, "00112233445566778899aabbccddeeff");
while (wire.length > 0) wire.shift()();

const expected = "69c4e0d86a7b0430d8cdb78070b4c55a";
if (computed !== expected) throw new Error(`computed ${computed}, expected ${expected}`);
console.log(`computed ${computed}: correct`);
console.log(`bytes    ${counts.garbler} from the garbler, ${counts.evaluator} from the evaluator`);
