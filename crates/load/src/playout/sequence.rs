//! RTP sequence numbers of one source: counts expected, received, duplicated and reordered packets.
//!
//! The 16-bit numbers wrap around and are extended as in RFC 3550, appendix A.1. For a packet that arrives after a
//! later one, a window of recent packets says whether it is late or a duplicate.

/// A larger jump forward is not a gap but a restart or an invalid packet (MAX_DROPOUT of RFC 3550).
const AHEAD_MAX: u16 = 3_000;
/// The size of the window; older packets count as stale and stay lost.
const WINDOW_PACKETS: u32 = 512;
const WORD_BITS: u32 = u64::BITS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOrder {
    /// Later than all packets before it.
    Newest,
    /// Filled a gap: a later packet had arrived before it.
    Reordered,
    Duplicate,
    /// Too old to tell whether it had already arrived.
    Stale,
    /// Far from the expected number: ignored, unless the next packet follows it.
    Elsewhere,
}

/// The state of one source.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The extended number before the first one.
    before_first: u32,
    newest: u32,
    /// Bit `n` is set if the packet `n` before the newest has arrived.
    window: [u64; (WINDOW_PACKETS / WORD_BITS) as usize],
    unique: u64,
    /// Packets expected before the numbers last restarted.
    expected_before: u64,
    /// The number that would confirm a restart of the source.
    expected_elsewhere: Option<u16>,
    /// Packets expected and received at the last receiver report.
    reported: (u64, u64),
}

impl Sequence {
    /// Starts with the first packet's number.
    pub fn new(first: u16) -> Sequence {
        // One cycle ahead, so that the number before the first exists.
        let newest = (1 << 16) + u32::from(first);
        let mut window = [0; (WINDOW_PACKETS / WORD_BITS) as usize];
        window[0] = 1;
        Sequence {
            before_first: newest - 1,
            newest,
            window,
            unique: 1,
            expected_before: 0,
            expected_elsewhere: None,
            reported: (0, 0),
        }
    }

    pub fn take(&mut self, number: u16) -> PacketOrder {
        let ahead = number.wrapping_sub(self.newest as u16);
        if ahead != 0 && ahead < AHEAD_MAX {
            self.advance(u32::from(ahead));
            return PacketOrder::Newest;
        }
        let behind = u32::from((self.newest as u16).wrapping_sub(number));
        if behind < WINDOW_PACKETS {
            return self.look_up(behind);
        }
        if behind < u32::from(AHEAD_MAX) {
            return PacketOrder::Stale;
        }
        if self.expected_elsewhere == Some(number) {
            self.begin_anew(number);
            return PacketOrder::Newest;
        }
        self.expected_elsewhere = Some(number.wrapping_add(1));
        PacketOrder::Elsewhere
    }

    /// The number of packets sent, by their sequence numbers.
    pub fn expected(&self) -> u64 {
        self.expected_before + u64::from(self.newest - self.before_first)
    }

    /// Packets sent that have not arrived.
    pub fn lost(&self) -> u64 {
        self.expected().saturating_sub(self.unique)
    }

    /// The highest number extended by cycles, for receiver reports.
    pub fn extended(&self) -> u32 {
        self.newest - (1 << 16)
    }

    /// The share lost since the last report, in 256ths (RFC 3550, appendix A.3).
    pub fn fraction_lost(&mut self) -> u8 {
        let now = (self.expected(), self.unique);
        let (expected, came) = (now.0 - self.reported.0, now.1 - self.reported.1);
        self.reported = now;
        let lost = expected.saturating_sub(came);
        (lost * 256).checked_div(expected).unwrap_or(0).min(255) as u8
    }

    fn advance(&mut self, by: u32) {
        self.newest += by;
        self.shift(by);
        self.window[0] |= 1;
        self.unique += 1;
        self.expected_elsewhere = None;
    }

    /// Moves the window forward by this many packets.
    fn shift(&mut self, by: u32) {
        let (words, bits) = ((by / WORD_BITS) as usize, by % WORD_BITS);
        for index in (0..self.window.len()).rev() {
            let at = |back: usize| index.checked_sub(back).map_or(0, |from| self.window[from]);
            let (here, below) = (at(words), at(words + 1));
            self.window[index] =
                if bits == 0 { here } else { (here << bits) | (below >> (WORD_BITS - bits)) };
        }
    }

    fn look_up(&mut self, behind: u32) -> PacketOrder {
        // Packets before the first were not sent to this receiver, and count neither as expected nor as received.
        if self.newest - behind <= self.before_first {
            return PacketOrder::Stale;
        }
        let (word, bit) = ((behind / WORD_BITS) as usize, 1 << (behind % WORD_BITS));
        if self.window[word] & bit != 0 {
            return PacketOrder::Duplicate;
        }
        self.window[word] |= bit;
        self.unique += 1;
        PacketOrder::Reordered
    }

    /// Restarts after two consecutive packets elsewhere, and counts the first of them.
    fn begin_anew(&mut self, number: u16) {
        let (expected_before, unique, reported) = (self.expected(), self.unique, self.reported);
        *self = Sequence::new(number.wrapping_sub(1));
        (self.expected_before, self.unique, self.reported) = (expected_before, unique + 1, reported);
        self.advance(1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn taken(numbers: &[u16]) -> (Sequence, Vec<PacketOrder>) {
        let mut sequence = Sequence::new(numbers[0]);
        let places = numbers[1..].iter().map(|&number| sequence.take(number)).collect();
        (sequence, places)
    }

    #[test]
    fn losses_copies_and_disorder_are_told_apart() {
        use PacketOrder::{Duplicate, Newest, Reordered};
        let (sequence, places) = taken(&[65_534, 65_535, 2, 0, 0, 2, 5]);
        assert_eq!(places, [Newest, Newest, Reordered, Duplicate, Duplicate, Newest]);
        assert_eq!((sequence.expected(), sequence.unique, sequence.lost()), (8, 5, 3));
        assert_eq!(sequence.extended(), (1 << 16) + 5);
        assert_eq!(taken(&[10, 9]).1, [PacketOrder::Stale], "what came before the first was not ours");
    }

    #[test]
    fn a_jump_is_rubbish_until_the_next_one_follows() {
        let (mut sequence, places) = taken(&[1, 30_000, 2]);
        assert_eq!(places, [PacketOrder::Elsewhere, PacketOrder::Newest]);
        assert_eq!(sequence.lost(), 0);
        assert_eq!(
            [sequence.take(40_000), sequence.take(40_001)],
            [PacketOrder::Elsewhere, PacketOrder::Newest]
        );
        assert_eq!((sequence.expected(), sequence.unique), (4, 4));
    }

    #[test]
    fn reports_say_what_was_lost_since_the_last_one() {
        let (mut sequence, _) = taken(&[1, 2, 3, 8]);
        assert_eq!(sequence.fraction_lost(), 128);
        assert_eq!(sequence.fraction_lost(), 0);
        sequence.take(9);
        assert_eq!(sequence.fraction_lost(), 0);
    }

    proptest! {
        /// However packets are lost, duplicated and reordered within the window, the counts equal those of a set.
        #[test]
        fn counts_are_those_of_a_set(
            first in any::<u16>(),
            steps in prop::collection::vec((0_u16..200, 0_u16..400), 1..300),
        ) {
            let mut sequence = Sequence::new(first);
            let (mut newest, mut came) = (0_i64, BTreeSet::from([0_i64]));
            for (ahead, behind) in steps {
                let number = if ahead > 0 { newest + i64::from(ahead) } else { newest - i64::from(behind) };
                if number < 0 {
                    continue;
                }
                let expected = match (number > newest, came.insert(number)) {
                    (true, _) => PacketOrder::Newest,
                    (false, true) => PacketOrder::Reordered,
                    (false, false) => PacketOrder::Duplicate,
                };
                newest = newest.max(number);
                prop_assert_eq!(sequence.take(first.wrapping_add(number as u16)), expected);
            }
            prop_assert_eq!(sequence.unique, came.len() as u64);
            prop_assert_eq!(sequence.expected(), newest as u64 + 1);
            prop_assert_eq!(sequence.lost(), newest as u64 + 1 - came.len() as u64);
        }

        /// No input from a server makes the counts inconsistent.
        #[test]
        fn no_numbers_break_it(numbers in prop::collection::vec(any::<u16>(), 2..400)) {
            let (mut sequence, _) = taken(&numbers);
            prop_assert!(sequence.unique <= sequence.expected());
            prop_assert!(sequence.unique <= numbers.len() as u64);
            sequence.fraction_lost();
        }
    }
}
