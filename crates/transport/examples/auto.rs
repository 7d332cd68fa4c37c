//! Picks one of several transports, and shows when each of them was there.
//!
//! ```text
//! auto listen 10.0.0.1:7700
//! auto connect 10.0.0.1:7700 rudp 3
//! ```
//!
//! Nobody is authenticated: it is for trying out paths. `connect` prints, for so many links one after another, when the
//! candidate came up, when the link was there, and when the first byte came back over it, as times since the start and as
//! multiples of the round-trip time. `alone` does the same without trying the others.

use std::{
    env,
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_transport::{
    Identity, Link, Listener, Security,
    auto::{AutoListener, AutoOptions, Candidates, Offer, Pick},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let security = Security::Unpinned {
        identity: Arc::new(Identity::generate()?),
    };
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => listen(address, &security).await,
        [how @ ("connect" | "alone"), address, pick, count] => {
            let mut options = AutoOptions::default();
            options.quic_at_once = *how == "connect";
            options.rudp_at_once = *how == "connect";
            for _ in 0..count.parse::<u32>()? {
                connect(address, &security, &pick.parse()?, options).await?;
            }
            Ok(())
        }
        _ => Err("expected: listen ADDRESS | connect|alone ADDRESS TRANSPORT COUNT".into()),
    }
}

async fn listen(address: &str, security: &Security) -> Result<(), Box<dyn Error>> {
    let mut listener =
        AutoListener::bind(address, security, Offer::all(), AutoOptions::default()).await?;
    println!("listening on {}", listener.local_address());
    loop {
        let accepted = listener.next().await?;
        tokio::spawn(async move {
            if let Err(error) = echo(accepted.link).await {
                eprintln!("{}: {error}", accepted.pick);
            }
        });
    }
}

async fn echo(link: Link) -> std::io::Result<()> {
    let (mut reader, mut writer) = link.into_parts();
    let mut buffer = vec![0; 65_536];
    loop {
        let read = reader.read(&mut buffer).await?;
        if read == 0 {
            return writer.shutdown().await;
        }
        writer.write_all(&buffer[..read]).await?;
        writer.flush().await?;
    }
}

async fn connect(
    address: &str,
    security: &Security,
    pick: &Pick,
    options: AutoOptions,
) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let candidates = Candidates::connect(address, security, options)?;
    // How long it took until it was there, or until it was given up.
    let (after, rtt, failed) = match pick {
        Pick::Quic => match candidates.quic().await {
            Ok(quic) => (quic.after, quic.path.rtt, None),
            Err(error) => (started.elapsed(), None, Some(error)),
        },
        Pick::Rudp => match candidates.rudp().await {
            Ok(rudp) => {
                println!("up {:?}", rudp.up);
                (rudp.after, rudp.rtt, None)
            }
            Err(error) => (started.elapsed(), None, Some(error)),
        },
        _ => {
            let control = candidates.control().await?;
            (control.after, Some(control.rtt()), None)
        }
    };
    let rtt = match rtt {
        Some(rtt) => rtt,
        None => candidates.control().await?.rtt(),
    };
    let times =
        |at: Duration| format!("{at:.1?} ({:.2} RTT)", at.as_secs_f64() / rtt.as_secs_f64());
    let tcp = "tcp".parse()?;
    let pick = match failed {
        None => pick,
        Some(error) => {
            println!("{error}; after {}; taking tcp", times(after));
            &tcp
        }
    };
    let link = match candidates.pick(pick, Vec::new()).await {
        Ok(link) => link,
        Err(unpicked) => return Err(unpicked.error.into()),
    };
    let there = started.elapsed();
    let (mut reader, mut writer) = link.into_parts();
    writer.write_all(b"!").await?;
    writer.flush().await?;
    reader.read_exact(&mut [0]).await?;
    let back = started.elapsed();
    println!(
        "RTT {rtt:.1?}: {pick} was up after {}, the link after {}, the first byte back after {}",
        times(after),
        times(there),
        times(back)
    );
    writer.shutdown().await?;
    let _ = reader.read(&mut [0]).await;
    Ok(())
}
