//! A TUN device: IP packets of the kernel as reads and writes of a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

const DEVICE: &str = "/dev/net/tun";

/// The longest packet: without offloading the kernel sends none above the interface's MTU of 1,500.
pub const PACKET_BYTES_MAX: usize = 2048;

/// A device that is deleted on drop.
#[derive(Debug)]
pub struct Tun {
    file: OwnedFd,
    pub name: String,
}

impl Tun {
    /// Creates a device in the calling thread's network namespace. `pattern` is a name, with `%d` for a number.
    pub fn create(pattern: &str) -> io::Result<Tun> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(DEVICE, flags, Mode::empty())?;
        // SAFETY: all zeros are valid in every field.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let room = &mut request.ifr_name[..libc::IFNAMSIZ - 1]; // a zero byte stays behind it
        for (to, from) in room.iter_mut().zip(pattern.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes an ifreq.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let name = request.ifr_name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char);
        Ok(Tun { name: name.collect(), file })
    }

    /// The next packet that the kernel sends; `None` if there is none.
    pub fn receive(&self, packet: &mut [u8; PACKET_BYTES_MAX]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.file, packet.as_mut_slice()) {
            Ok(count) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes a packet to the kernel as received; false if it refuses it.
    pub fn send(&self, packet: &[u8]) -> bool {
        rustix::io::write(&self.file, packet).is_ok()
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
