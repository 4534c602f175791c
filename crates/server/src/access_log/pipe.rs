//! Log lines on their way from processes that serve connections to the process that writes the file.
//!
//! The senders never touch the file, so a file system that does not answer holds up neither them nor their server. All
//! write to one pipe, in frames that are small enough to be written whole or not at all (`PIPE_BUF`). A frame names its
//! sender, because the lines of one may take several frames, between which come those of others.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PIPE_BUF, PipeFlags, fcntl_setpipe_size, pipe_with};

use super::file::count;
use super::{AccessLog, BUFFER_BYTES_MAX, CLOSING_MAX};
use crate::counters::scoreboard::Slot;
use crate::counters::{Counter, Served};

/// What may wait in the pipe, where the system allows as much.
const PIPE_BYTES: usize = 1 << 20;

/// How long a sender waits for room in the pipe. The other side always reads, unless it gets no processor.
const ROOM_MAX: Duration = Duration::from_millis(500);

/// A frame is the sender's process ID, the length of the lines, and where they are among the lines of a [`send`].
///
/// [`send`]: LinePipe::send
const HEAD_BYTES: usize = 8;
const LINES_BYTES_MAX: usize = PIPE_BUF - HEAD_BYTES;

const IS_FIRST: u16 = 1;
const IS_LAST: u16 = 2;

/// The end for senders.
#[derive(Debug)]
pub struct LinePipe(OwnedFd);

/// The end for the process that writes the file.
#[derive(Debug)]
pub struct LineSource(OwnedFd);

/// Both ends of a new pipe.
pub fn line_pipe() -> io::Result<(LineSource, LinePipe)> {
    let (source, pipe) = pipe_with(PipeFlags::CLOEXEC)?;
    // Without it there is less room, but enough.
    let _ = fcntl_setpipe_size(&pipe, PIPE_BYTES);
    rustix::io::ioctl_fionbio(&pipe, true)?;
    Ok((LineSource(source), LinePipe(pipe)))
}

impl LinePipe {
    /// The end that another program has passed on.
    pub fn inherited(pipe: OwnedFd) -> LinePipe {
        LinePipe(pipe)
    }

    /// Sends whole lines. Returns the number of lines lost, without those that the receiver counts.
    pub fn send(&self, lines: &[u8]) -> u64 {
        let mut rest = lines;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.len().min(LINES_BYTES_MAX));
            let first = if rest.len() == lines.len() { IS_FIRST } else { 0 };
            let last = if after.is_empty() { IS_LAST } else { 0 };
            let mut frame = Vec::with_capacity(HEAD_BYTES + part.len());
            frame.extend_from_slice(&std::process::id().to_ne_bytes());
            frame.extend_from_slice(&(part.len() as u16).to_ne_bytes());
            frame.extend_from_slice(&(first | last).to_ne_bytes());
            frame.extend_from_slice(part);
            match self.write(&frame) {
                Ok(()) => rest = after,
                // The receiver has the lines in the frames before, and counts them, because it never gets the last one.
                Err(Errno::AGAIN) => return count(rest),
                Err(_) => return count(lines),
            }
        }
        0
    }

    fn write(&self, frame: &[u8]) -> rustix::io::Result<()> {
        let begun = Instant::now();
        loop {
            match rustix::io::write(&self.0, frame) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let left = ROOM_MAX.saturating_sub(begun.elapsed());
                    if left.is_zero() {
                        return Err(Errno::AGAIN);
                    }
                    let timeout = Timespec::try_from(left).ok();
                    let _ = poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], timeout.as_ref());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for LinePipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl LineSource {
    /// Writes lines to `log` until all senders have ended, and counts in `slot` those that are lost.
    ///
    /// # Errors
    /// If the pipe cannot be read.
    pub fn write_to(self, log: &AccessLog, slot: &Slot) -> io::Result<()> {
        let (mut received, mut lines) = (Vec::with_capacity(PIPE_BYTES), Reassembly::default());
        let publish = |lost: u64| {
            let mut served = Served::default();
            served.set(Counter::LogLinesDropped, lost + log.dropped());
            slot.publish(&served);
        };
        loop {
            match rustix::io::read(&self.0, rustix::buffer::spare_capacity(&mut received)) {
                Ok(0) => break,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let used = lines.receive(&received, |whole| {
                log.append_lines(count(whole), |buffer| buffer.extend_from_slice(whole));
            });
            received.drain(..used);
            publish(lines.lost);
        }
        lines.forget_all();
        log.close(CLOSING_MAX);
        publish(lines.lost);
        Ok(())
    }
}

/// Lines whose last frame has not come yet, by sender.
#[derive(Debug, Default)]
struct Reassembly {
    begun: HashMap<u32, Vec<u8>>,
    begun_bytes: usize,
    lost: u64,
}

impl Reassembly {
    /// Takes whole frames from the beginning of `received`, and gives out lines that are complete. Returns the number of
    /// bytes taken.
    fn receive(&mut self, received: &[u8], mut give: impl FnMut(&[u8])) -> usize {
        let mut rest = received;
        while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let [a, b, c, d, e, f, g, h] = *head;
            let (sender, flags) = (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([g, h]));
            let Some((lines, after)) = after.split_at_checked(u16::from_ne_bytes([e, f]).into()) else {
                break;
            };
            rest = after;
            if flags & IS_FIRST != 0 {
                // The sender has found no room for the rest, or an earlier process of its number was killed between two frames.
                self.forget(sender);
            }
            if flags == IS_FIRST | IS_LAST {
                give(lines);
                continue;
            }
            if self.begun_bytes > BUFFER_BYTES_MAX {
                self.forget_all();
            }
            let begun = match flags & IS_FIRST {
                0 => self.begun.get_mut(&sender),
                _ => Some(self.begun.entry(sender).or_default()),
            };
            let Some(begun) = begun else {
                // The frames before it are forgotten, or were read by a process that has ended: it may begin within a line.
                self.lost += count(lines);
                continue;
            };
            begun.extend_from_slice(lines);
            self.begun_bytes += lines.len();
            if flags & IS_LAST != 0 {
                let whole = self.begun.remove(&sender).unwrap_or_default();
                self.begun_bytes -= whole.len();
                give(&whole);
            }
        }
        received.len() - rest.len()
    }

    fn forget(&mut self, sender: u32) {
        if let Some(lines) = self.begun.remove(&sender) {
            self.begun_bytes -= lines.len();
            self.lost += count(&lines);
        }
    }

    fn forget_all(&mut self) {
        self.lost += self.begun.drain().map(|(_, lines)| count(&lines)).sum::<u64>();
        self.begun_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(sender: u32, flags: u16, lines: &str) -> Vec<u8> {
        let (length, flags) = ((lines.len() as u16).to_ne_bytes(), flags.to_ne_bytes());
        [&sender.to_ne_bytes()[..], &length, &flags, lines.as_bytes()].concat()
    }

    /// The lines that come of `frames`, received `step` bytes at a time, and how many are lost.
    fn reassembled(frames: &[Vec<u8>], step: usize) -> (Vec<String>, u64) {
        let (mut lines, mut received, mut found) = (Reassembly::default(), Vec::new(), Vec::new());
        for bytes in frames.concat().chunks(step) {
            received.extend_from_slice(bytes);
            let used =
                lines.receive(&received, |whole| found.push(String::from_utf8(whole.to_vec()).unwrap()));
            received.drain(..used);
        }
        assert!(received.is_empty());
        (found, lines.lost)
    }

    #[test]
    fn lines_of_several_senders_stay_whole() {
        let both = IS_FIRST | IS_LAST;
        let frames = [
            frame(1, IS_FIRST, "long"),
            frame(2, both, "short\n"),
            frame(3, IS_FIRST, "killed\nin the middle"),
            frame(1, 0, "er th"),
            frame(1, IS_LAST, "an a frame\n"),
            frame(3, both, "another process\n"),
            frame(4, IS_LAST, "the end of a line\nand another\n"),
        ];
        for step in [1, 3, 1000] {
            let (found, lost) = reassembled(&frames, step);
            assert_eq!(found, ["short\n", "longer than a frame\n", "another process\n"]);
            assert_eq!(lost, 3);
        }
    }

    #[test]
    fn what_a_sender_never_completes_is_bounded() {
        let lines = format!("{}\n", "x".repeat(4000));
        let frames = (0..3000).map(|sender| frame(sender, IS_FIRST, &lines));
        let mut reassembly = Reassembly::default();
        for frame in frames {
            reassembly.receive(&frame, |_| panic!("none is complete"));
            assert!(reassembly.begun_bytes <= BUFFER_BYTES_MAX + lines.len());
        }
        assert_eq!(reassembly.lost + reassembly.begun.len() as u64, 3000);
    }

    #[test]
    fn lines_go_through_a_pipe_and_are_counted_once_when_nobody_reads() {
        let (source, pipe) = line_pipe().unwrap();
        let lines = "x".repeat(10_000) + "\n";
        assert_eq!(pipe.send(lines.as_bytes()), 0);
        let mut received = Vec::with_capacity(20_000);
        rustix::io::read(&source.0, rustix::buffer::spare_capacity(&mut received)).unwrap();
        let mut whole = Vec::new();
        Reassembly::default().receive(&received, |found| whole.extend_from_slice(found));
        assert_eq!(whole, lines.as_bytes());
        let begun = Instant::now();
        let (mut sent, mut lost) = (0, 0);
        while lost == 0 {
            lost = pipe.send("line\n".repeat(100_000).as_bytes());
            sent += 100_000;
        }
        assert!(begun.elapsed() < ROOM_MAX + Duration::from_secs(5), "{:?}", begun.elapsed());
        // The frames for which there was room, of lines that are never complete.
        drop(pipe);
        let (mut lines, mut given) = (Reassembly::default(), 0);
        received.clear();
        while rustix::io::read(&source.0, rustix::buffer::spare_capacity(&mut received)).unwrap() > 0 {
            let used = lines.receive(&received, |whole| given += count(whole));
            received.drain(..used);
        }
        lines.forget_all();
        assert!(lines.lost > 0 && given + lines.lost + lost == sent, "{given}, {}, {lost}", lines.lost);

        let (source, pipe) = line_pipe().unwrap();
        drop(source);
        assert_eq!(pipe.send(b"one\ntwo\n"), 2);
    }
}
