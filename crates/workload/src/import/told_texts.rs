//! Texts that one thread or machine tells another: each once, and later its number.
//!
//! [`Teller`] numbers the distinct texts of one parser. [`Heard`], on the other side, keeps them with what was found for each, so
//! that each is looked up once and not once per line. A teller that knows many texts forgets them and begins anew: memory
//! does not grow with the log.

use super::interner::{Interner, Texts};

/// A teller forgets its texts before a block if they are more, or longer together: to tell them again takes less time than to
/// look each of them up beyond the processor's own caches.
const TEXTS_MAX: usize = 1 << 13;
const TEXTS_BYTES_MAX: usize = 16 << 20;

/// The texts of a block that were not told before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Whether all texts of earlier blocks are forgotten.
    pub anew: bool,
    pub texts: Texts,
}

#[derive(Default)]
pub struct Teller {
    known: Interner,
}

impl Teller {
    /// Begins a block.
    pub fn begin(&mut self, told: &mut Told) {
        if self.known.len() > TEXTS_MAX || self.known.bytes() > TEXTS_BYTES_MAX {
            self.known.clear();
        }
        told.anew = self.known.len() == 0;
        told.texts.clear();
    }

    /// Forgets all texts before the next block.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// The number of a text, which is told if it is new.
    #[inline]
    pub fn number(&mut self, text: &[u8], told: &mut Told) -> u32 {
        let before = self.known.len();
        let number = self.known.number(text).expect("texts are forgotten long before they are too many");
        if self.known.len() > before {
            told.texts.push(text);
        }
        number
    }
}

/// What one teller has told, and what was found for each text.
#[derive(Default)]
pub struct Heard<N> {
    pub texts: Texts,
    pub found: Vec<N>,
}

impl<N> Heard<N> {
    /// Takes what the teller's next block tells; `find` looks up what is known of a text before.
    pub fn add(&mut self, told: &Told, find: impl Fn(&[u8]) -> N) {
        if told.anew {
            self.texts.clear();
            self.found.clear();
        }
        self.texts.append(&told.texts);
        self.found.extend(told.texts.iter().map(find));
    }
}
