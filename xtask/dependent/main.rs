//! A program outside the repository that uses the crate `transpute`. It fails if the first TLS
//! handshake of the process takes many times as long as the later ones.

use std::sync::Arc;

use transpute::{Identity, Registry, transport::Security};

/// The limit of the time of the first handshake, as a multiple of the median of the later ones. The
/// first one is slower even without a fault, because it also loads code. With a TLS provider that
/// first collects entropy, the multiple is 100.
const LIMIT: u32 = 20;

/// The number of later handshakes.
const LATER: usize = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (ours, theirs) = (Identity::generate()?, Identity::generate()?);
    let pins = [ours.fingerprint(), theirs.fingerprint()];
    let connector = Security::tls(Arc::new(ours), &[pins[1]]);
    let acceptor = Security::tls(Arc::new(theirs), &[pins[0]]);
    for name in Registry::with_builtins().names() {
        println!("transport {name}");
    }
    let tcp = Registry::with_builtins().get("tcp")?;
    let mut listener = tcp.listen("127.0.0.1:0", &acceptor).await?;
    let address = listener.local_address();
    let mut handshakes = Vec::new();
    for _ in 0..=LATER {
        let (accepted, connected) =
            tokio::join!(listener.accept(), tcp.connect(&address, &connector));
        accepted?;
        handshakes.push(connected?.info().timings.handshake);
    }
    let first = handshakes.remove(0);
    handshakes.sort_unstable();
    let later = handshakes[LATER / 2];
    println!("first handshake {first:?}, median of {LATER} later ones {later:?}");
    if first > later * LIMIT {
        return Err(format!("the first handshake took more than {LIMIT} times as long").into());
    }
    Ok(())
}
