//! Obtains file descriptors from other namespaces through a short-lived child process.
//!
//! A process with threads cannot enter a user namespace. It should not move between network
//! namespaces either, because its other threads would be affected. A descriptor keeps its namespace
//! when another process receives it. So [`fetch`] forks a child, which enters the namespaces, opens
//! the descriptors, passes them back through a socket and exits.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The maximum number of descriptors that a child passes back.
const MAX_DESCRIPTORS: usize = 8;

/// A failure of the child: a step number that the caller defines, and the error of the system call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub(super) step: u32,
    pub(super) errno: Errno,
}

/// Runs `job` in a forked child. Returns the number and the descriptors that `job` returns.
///
/// # Safety
/// `job` must be safe between `fork` and `exec` in a process with threads: it makes only system
/// calls on memory that was prepared before. It must not allocate, lock or panic.
#[expect(unsafe_code, reason = "fork has no safe wrapper")]
pub(super) unsafe fn fetch<const N: usize>(
    job: impl FnOnce() -> Result<(u32, [OwnedFd; N]), Failure>,
) -> Result<(u32, Vec<OwnedFd>), Failure> {
    const { assert!(N <= MAX_DESCRIPTORS) };
    let here = |errno| Failure {
        step: u32::MAX,
        errno,
    };
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(here)?;
    // SAFETY: the child runs `job`, whose safety the caller guarantees. It then calls `send`, which
    // makes one system call, and exits without returning to the code of its parent.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = match job() {
            Ok((number, descriptors)) => send(&theirs, 0, number, &descriptors),
            Err(failure) => send::<0>(
                &theirs,
                failure.step.saturating_add(1),
                failure.errno.raw_os_error() as u32,
                &[],
            ),
        };
        // SAFETY: `_exit` ends the child at once; no buffer of the parent is flushed and nothing is
        // dropped.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    if child < 0 {
        return Err(here(last_error()));
    }
    drop(theirs);
    let answer = receive(&ours);
    // SAFETY: waits for our own child and passes no pointer to memory.
    while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } < 0
        && last_error() == Errno::INTR
    {}
    let (status, number, descriptors) = answer.map_err(here)?;
    match status.checked_sub(1) {
        None if descriptors.len() == N => Ok((number, descriptors)),
        None => Err(here(Errno::PROTO)),
        Some(step) => Err(Failure {
            step,
            errno: Errno::from_raw_os_error(number as i32),
        }),
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Sends two numbers and descriptors in one message.
fn send<const N: usize>(
    socket: &OwnedFd,
    status: u32,
    number: u32,
    descriptors: &[OwnedFd; N],
) -> Result<(), Errno> {
    let mut words = [0; 8];
    words[..4].copy_from_slice(&status.to_ne_bytes());
    words[4..].copy_from_slice(&number.to_ne_bytes());
    let borrowed = descriptors.each_ref().map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if N > 0 && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(Errno::NOBUFS);
    }
    sendmsg(
        socket,
        &[IoSlice::new(&words)],
        &mut control,
        SendFlags::NOSIGNAL,
    )
    .map(drop)
}

/// Receives the message of [`send`].
fn receive(socket: &OwnedFd) -> Result<(u32, u32, Vec<OwnedFd>), Errno> {
    let mut words = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut words)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    if received.bytes != words.len() {
        // The child died before it sent its message.
        return Err(Errno::CHILD);
    }
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let [a, b, c, d, e, f, g, h] = words;
    Ok((
        u32::from_ne_bytes([a, b, c, d]),
        u32::from_ne_bytes([e, f, g, h]),
        descriptors,
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the jobs make system calls only")]
    fn descriptors_and_failures_are_passed_back() {
        // SAFETY: one system call.
        let (number, descriptors) = unsafe {
            fetch(|| {
                let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
                let file = rustix::fs::open(c"/proc/self/comm", flags, rustix::fs::Mode::empty());
                file.map(|file| (7, [file]))
                    .map_err(|errno| Failure { step: 1, errno })
            })
        }
        .unwrap();
        assert_eq!((number, descriptors.len()), (7, 1));
        let file = descriptors.into_iter().next().unwrap();
        assert!(
            rustix::io::fcntl_getfd(&file)
                .unwrap()
                .contains(rustix::io::FdFlags::CLOEXEC)
        );
        let mut text = String::new();
        // The child has exited. The file must be the `comm` of the child, whose read fails, and not
        // that of this process.
        assert!(std::fs::File::from(file).read_to_string(&mut text).is_err());

        // SAFETY: no system call at all.
        let failure = unsafe {
            fetch::<0>(|| {
                Err(Failure {
                    step: 5,
                    errno: Errno::PERM,
                })
            })
        }
        .unwrap_err();
        assert_eq!((failure.step, failure.errno), (5, Errno::PERM));
    }
}
