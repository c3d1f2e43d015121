//! The channel between wrapper and guard: a pair of Unix sockets.
//!
//! The guard gets its end as standard input, because that is the one way to hand a descriptor to a child without a moment
//! in which another child, started by another thread, could inherit it too. The streams meant for the command go over the
//! channel instead, as descriptors. What arrives that way is closed on exec.

use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::protocol::{HEAD_BYTES, Start};

/// Standard input, output and error.
pub(super) const STREAMS: usize = 3;

/// The wrapper's side: sends the head of a [`Start`] together with the streams. The words follow it.
pub(super) fn send_head(
    channel: impl AsFd,
    head: &[u8; HEAD_BYTES],
    streams: [BorrowedFd<'_>; STREAMS],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fits = ancillary.push(SendAncillaryMessage::ScmRights(&streams));
    debug_assert!(fits, "the space is made for these");
    let sent = sendmsg(channel, &[IoSlice::new(head)], &mut ancillary, SendFlags::NOSIGNAL)?;
    // A head always fits into the buffer of a socket that nothing was written to.
    if sent == HEAD_BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The guard's side: takes its end of the channel from standard input, so that the command does not inherit it.
pub(super) fn take() -> io::Result<UnixStream> {
    let stdin = io::stdin();
    fcntl_setfd(stdin.as_fd(), FdFlags::CLOEXEC)?;
    stdin.as_fd().try_clone_to_owned().map(UnixStream::from)
}

/// The guard's side: receives what to run, and the streams for it.
pub(super) fn receive_start(mut channel: &UnixStream) -> io::Result<(Start, [OwnedFd; STREAMS])> {
    let mut head = [0; HEAD_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let received = recvmsg(channel, &mut [IoSliceMut::new(&mut head)], &mut ancillary, flags)?;
    let streams: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    let streams = streams.try_into().map_err(|_| io::ErrorKind::UnexpectedEof)?;
    if received.bytes != HEAD_BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut body = vec![0; Start::body_bytes(&head)];
    channel.read_exact(&mut body)?;
    let start = Start::decode(&head, &body).ok_or(io::ErrorKind::InvalidData)?;
    Ok((start, streams))
}
