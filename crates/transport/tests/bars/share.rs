//! Measurement of the share of one flow that competes with one TCP flow with cubic.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use transpute_netem::lab::Lab;

use super::{
    figures::{head, median, repetitions, row, transport, warn_of_overruns},
    party::{Orders, Parties, SENDER},
    start,
};

/// The emulated paths: (rate in Mbit/s, round-trip time in ms).
const PATHS: [(f64, f64); 2] = [(100.0, 40.0), (20.0, 110.0)];

/// Seconds after the first byte between which the bytes of both flows are counted.
const MARKS: [u64; 2] = [5, 65];

/// Time for TCP to reach its rate before the other flow starts.
const HEAD_START: Duration = Duration::from_secs(2);

/// Payload rate of each flow between the two marks, in Mbit/s.
struct Run {
    own: f64,
    cubic: f64,
}

impl Run {
    fn share(&self) -> f64 {
        100.0 * self.own / (self.own + self.cubic)
    }
}

/// Measures every path, and prints a row for each.
pub(crate) fn measure() {
    let (repetitions, transport) = (repetitions(), transport());
    println!(
        "One flow of {transport} beside one of TCP with cubic that began {} s earlier, a queue of one bandwidth-delay \
         product.\nPayload from {} to {} s after the first byte, medians of {repetitions} runs. The share should be between \
         40 and 60 %.\n",
        HEAD_START.as_secs(),
        MARKS[0],
        MARKS[1]
    );
    let share = format!("share of {transport} (%)");
    let own = format!("{transport} (Mbit/s)");
    head(&[
        "rate (Mbit/s)",
        "RTT (ms)",
        &share,
        "each run (%)",
        &own,
        "cubic (Mbit/s)",
    ]);
    for (rate_mbit, rtt_ms) in PATHS {
        let runs: Vec<_> = (0..repetitions)
            .map(|repetition| run(&transport, rate_mbit, rtt_ms, repetition))
            .collect();
        let shares: Vec<_> = runs.iter().map(Run::share).collect();
        let each: Vec<_> = shares.iter().map(|share| format!("{share:.0}")).collect();
        row(&[
            format!("{rate_mbit}"),
            format!("{rtt_ms}"),
            format!("{:.1}", median(shares)),
            each.join(", "),
            format!("{:.1}", median(runs.iter().map(|run| run.own))),
            format!("{:.1}", median(runs.iter().map(|run| run.cubic))),
        ]);
    }
}

fn run(transport: &str, rate_mbit: f64, rtt_ms: f64, repetition: u32) -> Run {
    let path = format!(
        "rtt_ms = {rtt_ms}\nrate_mbit = {rate_mbit:?}\nqueue_bdp = 1.0\ncongestion_control = \"cubic\""
    );
    let mut lab = start(&path, repetition);
    let cubic = Cubic::start(&lab);
    thread::sleep(HEAD_START);
    // More than the path carries until the last mark, at which the run ends.
    let bytes = (rate_mbit * 1e6 / 8.0) as u64 * 2 * MARKS[1];
    let mut parties = Parties::start(
        &lab,
        &Orders {
            transport,
            bytes,
            marks: &MARKS,
            counts_trains: false,
        },
    );
    let counts = MARKS.map(|_| {
        let [own] = parties.listener.wait_for("mark");
        (own, cubic.received())
    });
    warn_of_overruns(&mut lab);
    drop((parties, cubic));
    let [(own_before, cubic_before), (own_after, cubic_after)] = counts;
    let mbit = |bytes: u64| bytes as f64 * 8.0 / 1e6 / (MARKS[1] - MARKS[0]) as f64;
    Run {
        own: mbit(own_after - own_before),
        cubic: mbit(cubic_after - cubic_before),
    }
}

/// A TCP flow in the same direction, which ends on drop.
struct Cubic {
    sender: TcpStream,
    receiver: TcpStream,
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Cubic {
    fn start(lab: &Lab) -> Self {
        let to = SENDER.other();
        let listener = lab.listen(to, 0).unwrap();
        let address = SocketAddr::new(lab.address(to), listener.local_addr().unwrap().port());
        let sender = lab.connect(SENDER, address).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let received = Arc::new(AtomicU64::new(0));
        let (mut output, mut input) = (sender.try_clone().unwrap(), receiver.try_clone().unwrap());
        let count = Arc::clone(&received);
        let threads = vec![
            thread::spawn(move || while output.write_all(&[0x5a; 64 << 10]).is_ok() {}),
            thread::spawn(move || {
                let mut buffer = vec![0; 256 << 10];
                while let Ok(read @ 1..) = input.read(&mut buffer) {
                    count.fetch_add(read as u64, Ordering::Relaxed);
                }
            }),
        ];
        Self {
            sender,
            receiver,
            received,
            threads,
        }
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Cubic {
    fn drop(&mut self) {
        for stream in [&self.sender, &self.receiver] {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
