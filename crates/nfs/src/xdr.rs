//! The encoding: words of four bytes, big end first, and bytes padded to words; and the fragments that a record of several
//! words is sent in over TCP (RFC 5531, 11).

/// The last fragment of a record has this bit in its header.
const IS_LAST: u32 = 1 << 31;

/// What the header of a fragment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    pub length: usize,
    pub is_last: bool,
}

/// Reads the header of a fragment.
pub fn fragment(header: [u8; 4]) -> Fragment {
    let word = u32::from_be_bytes(header);
    Fragment { length: (word & !IS_LAST) as usize, is_last: word & IS_LAST != 0 }
}

/// Writes a record of one fragment.
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn record() -> Writer {
        Writer(vec![0; 4])
    }

    pub fn word(&mut self, word: u32) {
        self.0.extend(word.to_be_bytes());
    }

    pub fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.word(*word));
    }

    pub fn long(&mut self, long: u64) {
        self.0.extend(long.to_be_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.word(u32::try_from(bytes.len()).expect("paths, names and handles are short"));
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    pub fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).expect("a call is short");
        self.0[..4].copy_from_slice(&(IS_LAST | length).to_be_bytes());
        self.0
    }
}

/// A record that is too short, or that has a value which cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads a record; nothing is allocated for what it says.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'r>(pub &'r [u8]);

impl<'r> Reader<'r> {
    pub fn word(&mut self) -> Result<u32, Malformed> {
        let (word, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*word))
    }

    pub fn long(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from(self.word()?) << 32 | u64::from(self.word()?))
    }

    pub fn is_true(&mut self) -> Result<bool, Malformed> {
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    pub fn bytes(&mut self, length_max: usize) -> Result<&'r [u8], Malformed> {
        let length = self.word()? as usize;
        if length > length_max {
            return Err(Malformed);
        }
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        let padding = length.next_multiple_of(4) - length;
        self.0 = rest.get(padding..).ok_or(Malformed)?;
        Ok(bytes)
    }

    pub fn skip(&mut self, words: usize) -> Result<(), Malformed> {
        self.0 = self.0.get(4 * words..).ok_or(Malformed)?;
        Ok(())
    }
}
