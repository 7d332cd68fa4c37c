//! Plain traffic over an emulated path: bulk TCP flows and UDP echoes.
//!
//! Scenarios use it as cross traffic that competes with the parties. [`crate::link`] uses it to
//! measure the actual properties of a path.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::net::sockopt;
use serde::Serialize;
use transpute_netem::{
    lab::{Lab, Side},
    scenario::{CrossDirection, CrossTraffic, Scenario},
};
use transpute_units::Bandwidth;

/// The interval over which the peak rate of a flow is averaged.
const WINDOW: Duration = Duration::from_secs(1);

/// The interval between samples of the number of received bytes.
const SLOT: Duration = Duration::from_millis(100);

/// The pause between two echo requests.
const ECHO_PAUSE: Duration = Duration::from_millis(10);

/// The interval between checks whether the caller has cancelled the traffic.
const TICK: Duration = Duration::from_millis(100);

const BUFFER: usize = 256 << 10;

/// The measurements of a bulk TCP flow at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// Number of received payload bytes.
    pub bytes: u64,
    /// Time from the first byte to the last, in seconds.
    pub seconds: f64,
    /// Average rate of the payload in Mbit/s, including slow start.
    pub mbit: f64,
    /// Largest average rate over one second, in Mbit/s. For a flow of less than a second, the
    /// average rate of the flow.
    pub peak_mbit: f64,
}

/// The number and the round-trip times of a sequence of UDP echo requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EchoReport {
    /// Number of requests sent.
    pub sent: u32,
    /// Number of answers received.
    pub received: u32,
    /// The shortest round-trip time in milliseconds. None without an answer.
    pub min_ms: Option<f64>,
    /// The median round-trip time in milliseconds. None without an answer.
    pub median_ms: Option<f64>,
    /// The longest round-trip time in milliseconds. None without an answer.
    pub max_ms: Option<f64>,
}

/// Receives a flow until the given time has passed, the flow ends or `cancel` becomes true.
pub(crate) fn receive(
    mut stream: TcpStream,
    duration: Duration,
    cancel: &AtomicBool,
) -> io::Result<FlowReport> {
    stream.set_read_timeout(Some(TICK))?;
    let mut buffer = vec![0; BUFFER];
    let mut start = None;
    let mut last = Instant::now();
    let mut bytes = 0;
    // The total number of received bytes at the end of each interval.
    let mut slots: Vec<u64> = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < duration && !cancel.load(Ordering::Relaxed) {
        let read = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read as u64,
            Err(error) if is_passing(&error) => continue,
            Err(error) => return Err(error),
        };
        last = Instant::now();
        let slot = (last - *start.get_or_insert(last)).as_millis() / SLOT.as_millis();
        while (slots.len() as u128) < slot {
            slots.push(bytes);
        }
        bytes += read;
    }
    let seconds = start.map_or(0.0, |start| (last - start).as_secs_f64());
    let mbit = rate(bytes, seconds);
    Ok(FlowReport {
        bytes,
        seconds,
        mbit,
        peak_mbit: peak(&slots).unwrap_or(mbit),
    })
}

/// Returns whether an error only means that a call must be repeated, such as a timeout.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// Returns the largest average rate over [`WINDOW`], in Mbit/s. None for a shorter flow. `slots`
/// has the total number of bytes at the end of each [`SLOT`].
fn peak(slots: &[u64]) -> Option<f64> {
    let width = (WINDOW.as_millis() / SLOT.as_millis()) as usize;
    let most = (slots.windows(width + 1))
        .map(|window| window[width] - window[0])
        .max()?;
    Some(rate(most, WINDOW.as_secs_f64()))
}

/// Returns the rate in Mbit/s. It is 0 if no time has passed.
fn rate(bytes: u64, seconds: f64) -> f64 {
    Bandwidth::from_bytes_per_second(bytes as f64 / seconds).megabits_per_second()
}

/// Sends small UDP datagrams in sequence and measures the time to their echoes. A request without
/// an answer after `patience` counts as lost.
pub(crate) fn ping(
    socket: &UdpSocket,
    address: SocketAddr,
    count: u32,
    patience: Duration,
    cancel: &AtomicBool,
) -> io::Result<EchoReport> {
    socket.connect(address)?;
    let mut times = Vec::new();
    let mut sent = 0;
    while sent < count && !cancel.load(Ordering::Relaxed) {
        let request = sent.to_be_bytes();
        let start = Instant::now();
        socket.send(&request)?;
        sent += 1;
        loop {
            let left = patience.saturating_sub(start.elapsed());
            if left.is_zero() || cancel.load(Ordering::Relaxed) {
                break;
            }
            socket.set_read_timeout(Some(left.min(TICK)))?;
            let mut answer = [0; 16];
            match socket.recv(&mut answer) {
                Ok(4) if answer[..4] == request => {
                    times.push(start.elapsed().as_secs_f64() * 1e3);
                    break;
                }
                // This is the answer to an older request, which was counted as lost already.
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        thread::sleep(ECHO_PAUSE);
    }
    times.sort_by(f64::total_cmp);
    Ok(EchoReport {
        sent,
        received: u32::try_from(times.len()).unwrap_or(u32::MAX),
        min_ms: times.first().copied(),
        median_ms: times.get(times.len() / 2).copied(),
        max_ms: times.last().copied(),
    })
}

/// Echoes UDP datagrams until `stop` becomes true.
pub(crate) fn echo(socket: &UdpSocket, stop: &AtomicBool) -> io::Result<()> {
    socket.set_read_timeout(Some(TICK))?;
    let mut buffer = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        match socket.recv_from(&mut buffer) {
            Ok((length, peer)) => {
                // A full queue loses the answer, as on a real path. The request counts as lost.
                let _ = socket.send_to(&buffer[..length], peer);
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Time for which cross traffic runs before the parties start, so that it reaches its rate.
const HEAD_START: Duration = Duration::from_secs(2);

/// Bulk TCP flows in one direction. They end on drop.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    senders: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Flows {
    /// Starts the cross traffic of the scenario and waits for [`HEAD_START`]. Does nothing if the
    /// scenario has no cross traffic.
    pub(crate) fn of_scenario(lab: &Lab, scenario: &Scenario) -> io::Result<Self> {
        let Some(cross) = &scenario.cross_traffic else {
            return Ok(Self::default());
        };
        let flows = Self::cross(lab, cross)?;
        thread::sleep(HEAD_START);
        Ok(flows)
    }

    fn cross(lab: &Lab, cross: &CrossTraffic) -> io::Result<Self> {
        let ways: &[_] = match cross.direction {
            CrossDirection::Up => &[Side::A],
            CrossDirection::Down => &[Side::B],
            CrossDirection::Both => &[Side::A, Side::B],
        };
        let mut flows = Self::default();
        for &from in ways {
            for _ in 0..cross.flows {
                let mut receiver = flows.start(lab, from, Some(&cross.congestion_control))?;
                flows.threads.push(thread::spawn(move || {
                    let mut buffer = vec![0; BUFFER];
                    while matches!(receiver.read(&mut buffer), Ok(1..)) {}
                }));
            }
        }
        Ok(flows)
    }

    /// Starts a flow that sends at full speed. Returns the address of its receiver.
    pub(crate) fn start(
        &mut self,
        lab: &Lab,
        from: Side,
        congestion_control: Option<&str>,
    ) -> io::Result<TcpStream> {
        let to = from.other();
        let listener = lab.listen(to, 0)?;
        let address = SocketAddr::new(lab.address(to), listener.local_addr()?.port());
        let mut sender = lab.connect(from, address)?;
        if let Some(name) = congestion_control {
            sockopt::set_tcp_congestion(&sender, name)
                .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
        }
        let (receiver, _) = listener.accept()?;
        self.senders.push(sender.try_clone()?);
        self.threads.push(thread::spawn(move || {
            let data = vec![0x5a; BUFFER];
            while sender.write_all(&data).is_ok() {}
        }));
        Ok(receiver)
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        for sender in &self.senders {
            // This ends the blocking write of the flow's thread. The receiver ends after all data
            // has arrived, or when the path is removed.
            let _ = sender.shutdown(Shutdown::Both);
        }
        self.senders.clear();
        // The threads are not joined, because a receiver may wait for packets that a slow path
        // still holds.
        self.threads.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, sync::Arc};

    use super::*;

    #[test]
    fn a_flow_is_counted_by_its_receiver() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let sending = thread::spawn(move || {
            sender.write_all(&[1; 300_000]).unwrap();
            thread::sleep(Duration::from_millis(30));
            sender.write_all(&[1; 100_000]).unwrap();
        });
        let cancel = AtomicBool::new(false);
        let report = receive(receiver, Duration::from_secs(60), &cancel).unwrap();
        sending.join().unwrap();
        assert_eq!(report.bytes, 400_000);
        assert!(report.seconds > 0.0, "{report:?}");
        let error = report.mbit / (3.2 / report.seconds) - 1.0;
        assert!(error.abs() < 1e-9, "{report:?}");
        assert_eq!(report.peak_mbit, report.mbit);
    }

    #[test]
    fn the_best_second_is_found() {
        // Ten slots with 1 kB each, then ten slots with 100 kB each.
        let mut slots = vec![0];
        for step in [1_000; 10].into_iter().chain([100_000; 10]).chain([0; 10]) {
            slots.push(slots[slots.len() - 1] + step);
        }
        assert_eq!(peak(&slots), Some(8.0));
        assert_eq!(peak(&slots[..10]), None);
    }

    #[test]
    fn echoes_are_timed_and_missed() {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = bind();
        let address = server.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let echoing = thread::spawn(move || echo(&server, &stopped));
        let never = AtomicBool::new(false);
        let report = ping(&bind(), address, 5, Duration::from_secs(10), &never).unwrap();
        assert_eq!((report.sent, report.received), (5, 5));
        assert!(report.min_ms <= report.median_ms && report.median_ms <= report.max_ms);
        stop.store(true, Ordering::Relaxed);
        echoing.join().unwrap().unwrap();

        let silent = bind();
        let address = silent.local_addr().unwrap();
        let report = ping(&bind(), address, 2, Duration::from_millis(5), &never).unwrap();
        assert_eq!(
            (report.sent, report.received, report.median_ms),
            (2, 0, None)
        );
    }
}
