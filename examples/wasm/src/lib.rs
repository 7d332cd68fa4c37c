//! One party of AES-128 in WebAssembly. The garbler has the key, and the evaluator the block.
//!
//! `run.mjs` creates two instances of this module, one for each party, and carries the bytes
//! between them. On a web page, each browser runs one instance, and for example a WebSocket carries the
//! bytes. The session does not encrypt, so the link must be encrypted and authenticated.

mod host;

use std::{cell::RefCell, error::Error, sync::Arc};

use transpute_circuit::{Bits, InputSplit, Program, generators};
use transpute_session::{
    Call, Config, FrameDecoder, Progressed, Repeat, Role, SessionConnection, SessionEvent,
};

/// One side of the run.
struct Party {
    connection: SessionConnection,
    decoder: FrameDecoder,
    is_over: bool,
}

impl Party {
    fn new(role: Role, input: &str) -> Result<Self, Box<dyn Error>> {
        let circuit = generators::aes128();
        let split = InputSplit::first_to_garbler(circuit.input_widths());
        let call = Call::new(
            Arc::new(Program::compile(&circuit)),
            split,
            Config::default(),
        );
        let call = call.with_inputs(Box::new(Repeat(Bits::from_hex(input, 128)?)));
        // The link of this example is neither encrypted nor authenticated.
        let (connection, _) = SessionConnection::single(role, call, false, None)?;
        Ok(Self {
            connection,
            decoder: FrameDecoder::new(),
            is_over: false,
        })
    }

    /// Handles bytes from the peer. Returns bytes to send to it.
    fn receive(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
        let mut out = Vec::new();
        self.decoder.buffer().extend_from_slice(bytes);
        while !self.is_over {
            match self.connection.poll(&mut out, true)? {
                Progressed::Worked => {}
                Progressed::Finished => self.is_over = true,
                Progressed::Idle => match self.decoder.next_frame()? {
                    Some(frame) => self.connection.handle(frame)?,
                    None => break,
                },
            }
            while let Some(event) = self.connection.next_event() {
                match event {
                    SessionEvent::Output(_, output) => host::output(&output.bits.to_hex()),
                    SessionEvent::Ended(_, result) => drop(result?),
                    _ => {}
                }
            }
        }
        Ok(out)
    }
}

thread_local! {
    /// The party of this instance of the module.
    static PARTY: RefCell<Option<Party>> = const { RefCell::new(None) };
    /// The argument that the host passes to `start` or `receive`.
    static ARGUMENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns the address of `len` bytes, into which the host writes the argument of the next call.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
extern "C" fn argument(len: usize) -> *mut u8 {
    ARGUMENT.with_borrow_mut(|bytes| {
        *bytes = vec![0; len];
        bytes.as_mut_ptr()
    })
}

/// Starts the run. The argument is the input of the party in hexadecimal digits.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
extern "C" fn start(is_garbler: bool) {
    let role = match is_garbler {
        true => Role::Garbler,
        false => Role::Evaluator,
    };
    let started = (|| {
        let mut party = Party::new(role, std::str::from_utf8(&ARGUMENT.take())?)?;
        let sent = party.receive(&[])?;
        PARTY.set(Some(party));
        Ok(sent)
    })();
    finish(started);
}

/// Handles bytes from the peer. The argument contains them.
// SAFETY: no other function of this module has this name.
#[unsafe(no_mangle)]
extern "C" fn receive() {
    let received = PARTY.with_borrow_mut(|party| match party {
        Some(party) => party.receive(&ARGUMENT.take()),
        None => Err("`start` was not called".into()),
    });
    finish(received);
}

fn finish(result: Result<Vec<u8>, Box<dyn Error>>) {
    match result {
        Ok(sent) if sent.is_empty() => {}
        Ok(sent) => host::send(&sent),
        Err(error) => host::fail(&error.to_string()),
    }
}
