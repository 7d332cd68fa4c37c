//! Child processes that must not outlive this one.

use std::{io, os::unix::process::CommandExt as _, process::Command};

use rustix::{
    io::Errno,
    process::{Signal, getpid, getppid, set_parent_process_death_signal},
};

/// Makes the process of a command end with the thread that starts it, even if that thread is
/// killed.
pub fn end_with_parent(command: &mut Command) {
    let parent = getpid();
    let bind = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the signal was requested, and then no signal comes.
        match getppid() == Some(parent) {
            true => Ok(()),
            false => Err(Errno::SRCH.into()),
        }
    };
    #[expect(unsafe_code, reason = "runs between fork and exec")]
    // SAFETY: `bind` makes only system calls.
    unsafe {
        command.pre_exec(bind);
    }
}
