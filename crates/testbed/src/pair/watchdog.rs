//! Ends the programs of a path when this process ends, even by SIGKILL.
//!
//! A parent-death signal reaches a command, but not its child processes, and a process can leave
//! its group. But no process without privileges can leave its network namespace. So a shell waits
//! until the pipe from this process is closed, also by the kernel at the end of this process. Then
//! it kills every process in the two namespaces.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use transpute_netem::lab::{Lab, Side};

/// Standard output and standard error are the namespaces. A killed process may take a moment to
/// end, so the shell repeats the search until it finds none. After 100 rounds it gives up on
/// processes that cannot be killed (uninterruptible sleep).
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
    /// Starts the watchdog. Programs that are started before are not protected.
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
