//! Ends the programs of a path when this process ends, even by SIGKILL.
//!
//! A parent-death signal reaches a command only, not what the command has started, and process groups can be left. Network
//! namespaces are left by nobody without privileges over another one: so a shell waits until this process closes a pipe, or the
//! kernel does because this process is gone, and then kills every process in the two namespaces.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use transpute_netem::lab::{Lab, Side};

/// The namespaces are standard output and standard error. A killed process may take a moment to end, so the shell looks again
/// until it finds none; it gives up after 100 rounds on what cannot be killed (a process in uninterruptible sleep).
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

/// A shell that ends all programs on both sides of a path once this is dropped, or this process has ended.
#[derive(Debug)]
pub(super) struct Watchdog(Child);

impl Watchdog {
    /// Starts to watch. Programs that are started before this is done are not protected.
    pub(super) fn start(lab: &Lab) -> io::Result<Self> {
        let [a, b] = [lab.namespace(Side::A)?, lab.namespace(Side::B)?];
        (Command::new("/bin/sh").args(["-c", SCRIPT]))
            .stdin(Stdio::piped())
            .stdout(a)
            .stderr(b)
            // A signal to the group of this process is not for it.
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
