//! Waits for sockets with nanosecond precision if the kernel supports it (epoll_pwait2, Linux 5.11), otherwise rounded
//! up to milliseconds. The call is made here rather than by a feature of rustix, which would apply to the server as
//! well and exclude older kernels.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::{ptr, slice};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event};
use rustix::io::Errno;

use sojourn_measure::Nanos;

/// Waits until a socket is ready or `timeout` has passed; returns the events.
pub fn wait<'a>(
    epoll: &OwnedFd,
    events: &'a mut [MaybeUninit<Event>],
    timeout: Nanos,
) -> rustix::io::Result<&'a mut [Event]> {
    let time =
        Timespec { tv_sec: (timeout.0 / 1_000_000_000) as i64, tv_nsec: (timeout.0 % 1_000_000_000) as i64 };
    if !timeout.0.is_multiple_of(1_000_000) {
        match fine_wait(epoll, events, &time) {
            Ok(count) => {
                let ready = events[..count].as_mut_ptr().cast();
                // SAFETY: the kernel has initialised this many events, which are borrowed like the whole buffer.
                return Ok(unsafe { slice::from_raw_parts_mut(ready, count) });
            }
            Err(Errno::NOSYS) => {}
            Err(error) => return Err(error),
        }
    }
    epoll::wait(epoll, events, Some(&time)).map(|(ready, _)| ready)
}

fn fine_wait(
    epoll: &OwnedFd,
    events: &mut [MaybeUninit<Event>],
    time: &Timespec,
) -> rustix::io::Result<usize> {
    let time = libc::timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec };
    // SAFETY: the kernel writes at most this many events in its layout, and reads the time.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            events.len() as libc::c_int,
            ptr::from_ref(&time),
            ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    usize::try_from(count).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use rustix::event::epoll::{CreateFlags, EventData, EventFlags};
    use sojourn_measure::clock;

    use super::*;

    #[test]
    fn waits_as_long_as_told_and_no_longer_than_for_an_event() {
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        epoll::add(&epoll, &socket, EventData::new_u64(7), EventFlags::IN).unwrap();
        let mut events = [MaybeUninit::uninit(); 4];
        let before = clock::now();
        assert!(wait(&epoll, &mut events, Nanos(1_500_001)).unwrap().is_empty());
        assert!(clock::now() - before >= Nanos(1_500_001));
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        let ready = wait(&epoll, &mut events, Nanos(60_000_000_001)).unwrap();
        let data = ready[0].data;
        assert_eq!((ready.len(), data.u64()), (1, 7));
    }
}
