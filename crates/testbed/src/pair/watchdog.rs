//! Ends the programs on both sides of a path when this process ends, even if SIGKILL ends it.
//!
//! A parent-death signal reaches a command but not its child processes, and a process can leave its
//! process group. But a process without privileges cannot leave its network namespace. So a shell
//! waits until a pipe from this process is closed, which happens at the latest when this process
//! ends. Then the shell kills every process in the network namespaces of both sides.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use transpute_netem::lab::{Lab, Side};

/// The script of the shell. The files of the two network namespaces are open as its standard output
/// and standard error, for comparison with the namespace of each process. A killed process may take
/// a moment to end, so the script repeats its search until it finds no process. It gives up after
/// 100 searches, because a process in uninterruptible sleep does not end.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r _
rounds=0
while [ $rounds -lt 100 ]; do
    left=
    for process in /proc/[0-9]*; do
        if [ "$process/ns/net" -ef /proc/self/fd/1 ] || [ "$process/ns/net" -ef /proc/self/fd/2 ]; then
            left=1
            kill -KILL "${process#/proc/}"
        fi
    done
    [ "$left" ] || exit 0
    rounds=$((rounds + 1))
    sleep 0.05 || sleep 1
done
"#;

/// A shell that ends all programs on both sides of a path when this is dropped, or when this
/// process has ended.
#[derive(Debug)]
pub(super) struct Watchdog(Child);

impl Watchdog {
    /// Starts the watchdog. It may miss programs that were started earlier.
    pub(super) fn start(lab: &Lab) -> io::Result<Self> {
        let [a, b] = [lab.namespace(Side::A)?, lab.namespace(Side::B)?];
        (Command::new("/bin/sh").args(["-c", SCRIPT]))
            .stdin(Stdio::piped())
            .stdout(a)
            .stderr(b)
            // A separate group, so that signals to the group of this process do not reach it.
            .process_group(0)
            .spawn()
            .map(Self)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
