//! Child processes that must not outlive this one.

use std::{io, os::unix::process::CommandExt as _, process::Command};

use rustix::{
    io::Errno,
    process::{Signal, getpid, getppid, set_parent_process_death_signal},
};

/// Makes a command's process end with the thread that starts it, even if that is killed.
pub fn end_with_parent(command: &mut Command) {
    let parent = getpid();
    let bind = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent has ended before, no signal will come.
        match getppid() == Some(parent) {
            true => Ok(()),
            false => Err(Errno::SRCH.into()),
        }
    };
    #[expect(unsafe_code, reason = "runs between fork and exec")]
    // SAFETY: `bind` makes system calls only.
    unsafe {
        command.pre_exec(bind);
    }
}
